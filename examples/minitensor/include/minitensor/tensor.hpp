// minitensor: the tensor.
#pragma once

#include <minitensor/device.hpp>
#include <minitensor/dtype.hpp>
#include <minitensor/error.hpp>
#include <minitensor/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace mt {

/// A strided array. An object is a handle: a copy shares the elements and increments a reference count. Only the
/// elements are mutable, so handles may be used from several threads; access to the elements is not synchronised.
class tensor {
   public:
    /// Maximum number of dimensions.
    static constexpr std::size_t max_ndim = 128;

    /// Allocates uninitialised, row-major memory, counted in live_bytes().
    ///
    /// \throws buffer_error           an unsupported dtype; there is no such device
    /// \throws std::invalid_argument  negative extents; a size in bytes that overflows
    /// \throws std::bad_alloc         there is not enough memory
    tensor(mt::dtype, std::span<std::int64_t const> shape, mt::device = {}, bool copied = false);

    /// Refers to memory of another library, which `keep_alive` owns. Strides are in elements; none means
    /// row-major. A tensor with a broadcast dimension is read-only even if `readonly` is false. The elements are ready
    /// on the CUDA stream `ready_on`, which must exist as long as work on the tensor is queued; 0: on the current
    /// stream.
    ///
    /// \throws buffer_error           an unsupported dtype or device
    /// \throws std::invalid_argument  extents as above; elements without memory; too few strides
    tensor(std::shared_ptr<void const> keep_alive, void* data, mt::dtype,
           std::span<std::int64_t const> shape, std::span<std::int64_t const> strides, mt::device,
           bool readonly, bool copied, std::uintptr_t ready_on = 0);

    /// Returns the address of the first element; null if the tensor is empty. Must not be written to if `readonly()`.
    [[nodiscard]] void* data() const noexcept { return state_->data; }
    [[nodiscard]] mt::dtype dtype() const noexcept { return state_->dtype; }
    [[nodiscard]] mt::device device() const noexcept { return state_->device; }
    /// Return the extents, and the strides in elements; valid as long as any handle to this tensor exists.
    [[nodiscard]] std::vector<std::int64_t> const& shape() const noexcept { return state_->shape; }
    [[nodiscard]] std::vector<std::int64_t> const& strides() const noexcept {
        return state_->strides;
    }
    [[nodiscard]] bool readonly() const noexcept { return state_->readonly; }
    /// Returns whether the import that created this tensor copied the data; false for all other tensors, including
    /// views.
    [[nodiscard]] bool copied() const noexcept { return state_->copied; }

    [[nodiscard]] std::size_t ndim() const noexcept { return state_->shape.size(); }
    [[nodiscard]] std::int64_t size() const noexcept { return state_->size; }
    /// Returns the size in bytes of the elements in a contiguous layout; packed types count their bits.
    [[nodiscard]] std::int64_t nbytes() const noexcept { return state_->nbytes; }
    [[nodiscard]] int itemsize_bits() const noexcept { return state_->dtype.bits; }
    /// Returns whether the elements are contiguous in row-major order.
    [[nodiscard]] bool contiguous() const noexcept;

    /// Returns the timeline of work on the elements; null for host memory, and without a GPU.
    [[nodiscard]] mt::timeline* line() const noexcept { return state_->line.get(); }
    /// Returns the stream on which the elements were last used, by any tensor that shares them; an import counts as a
    /// use on its stream. Returns no stream if no work can be pending.
    [[nodiscard]] mt::stream ready_on() const {
        return state_->line ? state_->line->last() : mt::stream{};
    }

    /// Returns a view of the same memory whose first element is `offset` elements after that of this tensor. The caller
    /// ensures that the view stays within the memory.
    ///
    /// \throws std::invalid_argument  the first element of a packed type would begin within a byte
    [[nodiscard]] tensor restrided(std::int64_t offset, std::vector<std::int64_t> shape,
                                   std::vector<std::int64_t> strides, bool readonly) const;

   private:
    struct state {
        std::shared_ptr<void const> keep_alive;
        std::shared_ptr<mt::timeline> line;
        void* data = nullptr;
        std::vector<std::int64_t> shape;
        std::vector<std::int64_t> strides;
        std::int64_t size = 0;
        std::int64_t nbytes = 0;
        mt::device device;
        mt::dtype dtype;
        bool readonly = false;
        bool copied = false;
    };
    std::shared_ptr<state const> state_;
};

}  // namespace mt
