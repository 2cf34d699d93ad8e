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

/// A strided array. A handle: copies share the elements and cost one reference count. Only the
/// elements are mutable, so handles may be used from several threads; access to elements is not
/// synchronised.
class tensor {
   public:
    /// Maximum number of dimensions.
    static constexpr std::size_t max_ndim = 128;

    /// Allocates uninitialised, row-major memory, counted in live_bytes().
    ///
    /// \throws buffer_error           an unsupported dtype; there is no such device
    /// \throws std::invalid_argument  negative extents, more bytes than can be counted
    /// \throws std::bad_alloc         there is not enough memory
    tensor(mt::dtype, std::span<std::int64_t const> shape, mt::device = {}, bool copied = false);

    /// Refers to memory of another library, which `keep_alive` owns. Strides are in elements; none means
    /// row-major. A tensor with a broadcast dimension is read-only, also if `readonly` is false. The elements are ready
    /// on the CUDA stream `ready_on`, which must last as long as work on the tensor is queued; 0: on the current
    /// stream.
    ///
    /// \throws buffer_error           an unsupported dtype or device
    /// \throws std::invalid_argument  extents as above; elements without memory; too few strides
    tensor(std::shared_ptr<void const> keep_alive, void* data, mt::dtype,
           std::span<std::int64_t const> shape, std::span<std::int64_t const> strides, mt::device,
           bool readonly, bool copied, std::uintptr_t ready_on = 0);

    /// The first element; null when the tensor is empty. Must not be written to if `readonly()`.
    [[nodiscard]] void* data() const noexcept { return state_->data; }
    [[nodiscard]] mt::dtype dtype() const noexcept { return state_->dtype; }
    [[nodiscard]] mt::device device() const noexcept { return state_->device; }
    /// Extents and strides in elements; valid as long as any handle to this tensor.
    [[nodiscard]] std::vector<std::int64_t> const& shape() const noexcept { return state_->shape; }
    [[nodiscard]] std::vector<std::int64_t> const& strides() const noexcept {
        return state_->strides;
    }
    [[nodiscard]] bool readonly() const noexcept { return state_->readonly; }
    /// Whether the import that made this tensor copied the data; false for all other tensors, including
    /// views.
    [[nodiscard]] bool copied() const noexcept { return state_->copied; }

    [[nodiscard]] std::size_t ndim() const noexcept { return state_->shape.size(); }
    [[nodiscard]] std::int64_t size() const noexcept { return state_->size; }
    /// Size in bytes of the elements in a contiguous layout, also for packed types.
    [[nodiscard]] std::int64_t nbytes() const noexcept { return state_->nbytes; }
    [[nodiscard]] int itemsize_bits() const noexcept { return state_->dtype.bits; }
    /// Whether the elements are contiguous in row-major order.
    [[nodiscard]] bool contiguous() const noexcept;

    /// The timeline of work on the elements; null for host memory, and without a GPU.
    [[nodiscard]] mt::timeline* line() const noexcept { return state_->line.get(); }
    /// The stream that the elements were used on last, by any tensor that shares them; an import counts
    /// as a use on the stream that it names. None when nothing can be pending.
    [[nodiscard]] mt::stream ready_on() const {
        return state_->line ? state_->line->last() : mt::stream{};
    }

    /// Another view on the same memory, whose first element lies `offset` elements after this
    /// one's. The caller ensures that the view stays within the memory.
    ///
    /// \throws std::invalid_argument  the first element of a packed type would lie inside of a byte
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
