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

/// A handle to a strided array. Copies share the elements and increment a reference count. Everything except
/// the elements is immutable, so several threads may use handles; access to elements is not synchronised.
class tensor {
   public:
    /// The maximum number of dimensions.
    static constexpr std::size_t max_ndim = 128;

    /// Allocates uninitialised, row-major elements, which live_bytes() counts.
    ///
    /// \throws buffer_error           unsupported dtype; no such device
    /// \throws std::invalid_argument  negative extents; the number of bytes overflows
    /// \throws std::bad_alloc         out of memory
    tensor(mt::dtype, std::span<std::int64_t const> shape, mt::device = {}, bool copied = false);

    /// Refers to existing memory, which `keep_alive` keeps alive until the last handle is destroyed. Strides
    /// are in elements; without strides the elements are row-major. A tensor with a broadcast dimension is
    /// always read-only. The elements are ready on the CUDA stream `ready_on`, which must exist as long as
    /// work on the tensor is queued; 0 means the current stream.
    ///
    /// \throws buffer_error           an unsupported dtype or device
    /// \throws std::invalid_argument  extents as above; elements without memory; too few strides
    tensor(std::shared_ptr<void const> keep_alive, void* data, mt::dtype,
           std::span<std::int64_t const> shape, std::span<std::int64_t const> strides, mt::device,
           bool readonly, bool copied, std::uintptr_t ready_on = 0);

    /// Returns the address of the first element, null without elements. Do not write if `readonly()`.
    [[nodiscard]] void* data() const noexcept { return state_->data; }
    [[nodiscard]] mt::dtype dtype() const noexcept { return state_->dtype; }
    [[nodiscard]] mt::device device() const noexcept { return state_->device; }
    /// Extents and strides in elements; valid as long as any handle to this tensor.
    [[nodiscard]] std::vector<std::int64_t> const& shape() const noexcept { return state_->shape; }
    [[nodiscard]] std::vector<std::int64_t> const& strides() const noexcept {
        return state_->strides;
    }
    [[nodiscard]] bool readonly() const noexcept { return state_->readonly; }
    /// Whether the import that made this tensor copied the data; false for everything else, views
    /// included.
    [[nodiscard]] bool copied() const noexcept { return state_->copied; }

    [[nodiscard]] std::size_t ndim() const noexcept { return state_->shape.size(); }
    [[nodiscard]] std::int64_t size() const noexcept { return state_->size; }
    /// Returns the size of the elements without gaps, in bytes; for packed types the packed size.
    [[nodiscard]] std::int64_t nbytes() const noexcept { return state_->nbytes; }
    [[nodiscard]] int itemsize_bits() const noexcept { return state_->dtype.bits; }
    /// Whether the elements are compact and in row-major order.
    [[nodiscard]] bool contiguous() const noexcept;

    /// Returns the timeline of the elements; null for host memory, and without a GPU.
    [[nodiscard]] mt::timeline* line() const noexcept { return state_->line.get(); }
    /// Returns the stream on which the elements were used last, by any tensor that shares them; an import counts
    /// as a use on its stream. Returns no stream if no work can be pending.
    [[nodiscard]] mt::stream ready_on() const {
        return state_->line ? state_->line->last() : mt::stream{};
    }

    /// Returns another view of the same memory, whose first element is `offset` elements after that of this
    /// tensor. The caller must ensure that the view is within the memory.
    ///
    /// \throws std::invalid_argument  the first element of a packed type is not at the beginning of a byte
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
