#include <minitensor/storage.hpp>
#include <minitensor/tensor.hpp>

#include "cuda.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace mt {
namespace {

struct counts {
    std::int64_t size;
    std::int64_t nbytes;
};

/// Computes the number of elements and bytes, checked for overflow.
counts count(dtype type, std::span<std::int64_t const> shape) {
    if (!supported(type)) throw buffer_error{"minitensor does not support elements of " + name(type)};
    if (shape.size() > tensor::max_ndim) {
        throw std::invalid_argument{"a tensor has at most " + std::to_string(tensor::max_ndim) +
                                    " dimensions, not " + std::to_string(shape.size())};
    }
    std::int64_t size = 1;
    bool empty = false;
    bool fits = true;
    for (auto const extent : shape) {
        if (extent < 0) {
            throw std::invalid_argument{"the extent of a dimension cannot be negative: " +
                                        std::to_string(extent)};
        }
        empty = empty || extent == 0;
        fits = fits && !__builtin_mul_overflow(size, extent, &size);
    }
    if (empty) return {0, 0};
    std::int64_t bytes = 0;
    fits = fits && !__builtin_mul_overflow(size / 8, std::int64_t{type.bits}, &bytes);
    fits = fits && !__builtin_add_overflow(bytes, (size % 8 * type.bits + 7) / 8, &bytes);
    if (!fits) throw std::invalid_argument{"the size of the shape in bytes overflows"};
    return {size, bytes};
}

std::vector<std::int64_t> row_major(std::span<std::int64_t const> shape) {
    std::vector<std::int64_t> strides(shape.size());
    std::int64_t step = 1;
    for (auto i = shape.size(); i-- > 0;) {
        strides[i] = step;
        // Overflows only if another dimension is empty, in which case strides have no meaning.
        if (shape[i] > 1 && __builtin_mul_overflow(step, shape[i], &step)) step = 1;
    }
    return strides;
}

bool overlaps(std::span<std::int64_t const> shape, std::span<std::int64_t const> strides) {
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] > 1 && strides[i] == 0) return true;
    }
    return false;
}

/// Returns the timeline of new memory, which begins on a given stream; 0: on the current stream.
std::shared_ptr<timeline> begin(device where, std::uintptr_t handle = 0) {
    if (where.type == device::cpu || !cuda_available()) return nullptr;
    auto first = current_stream(where);
    if (handle != 0 && handle != first.handle) {
        first = {handle, 0, {}};
        bool const of_memory = first.is_default() && where.type == device::cuda;
        first.device = of_memory ? where.id : cuda::device_of(handle);
    }
    return std::make_shared<timeline>(std::move(first));
}

}  // namespace

tensor::tensor(mt::dtype type, std::span<std::int64_t const> shape, mt::device where, bool copied) {
    auto const [size, nbytes] = count(type, shape);
    auto strides = row_major(shape);
    where = normalised(where);
    auto line = begin(where);
    auto storage = allocate(static_cast<std::size_t>(nbytes), where, line);
    void* const data = storage.get();
    state_ = std::make_shared<state const>(state{std::move(storage), std::move(line), data,
                                                 {shape.begin(), shape.end()}, std::move(strides),
                                                 size, nbytes, where, type, false,
                                                 copied});
}

tensor::tensor(std::shared_ptr<void const> keep_alive, void* data, mt::dtype type,
               std::span<std::int64_t const> shape, std::span<std::int64_t const> strides,
               mt::device where, bool readonly, bool copied, std::uintptr_t ready_on) {
    auto const [size, nbytes] = count(type, shape);
    std::vector<std::int64_t> steps{strides.begin(), strides.end()};
    if (steps.empty()) steps = row_major(shape);
    if (steps.size() != shape.size()) {
        throw std::invalid_argument{"shape and strides have different lengths"};
    }
    if (size != 0 && data == nullptr) {
        throw std::invalid_argument{"a tensor with elements requires memory, got null"};
    }
    readonly = readonly || (size != 0 && overlaps(shape, steps));
    where = normalised(where);
    auto line = begin(where, ready_on);
    if (line) {
        // The owner must not be released before the work that minitensor queues on the memory is done.
        keep_alive = std::shared_ptr<void const>{data, [line, owner = std::move(keep_alive)](void const*) mutable {
                                                     release_when_done(*line, std::move(owner));
                                                 }};
    }
    state_ = std::make_shared<state const>(state{std::move(keep_alive), std::move(line), size == 0 ? nullptr : data,
                                                 {shape.begin(), shape.end()}, std::move(steps),
                                                 size, nbytes, where, type, readonly,
                                                 copied});
}

bool tensor::contiguous() const noexcept {
    std::int64_t step = 1;
    if (size() == 0) return true;
    for (auto i = ndim(); i-- > 0;) {
        if (shape()[i] == 1) continue;
        if (strides()[i] != step) return false;
        step *= shape()[i];
    }
    return true;
}

tensor tensor::restrided(std::int64_t offset, std::vector<std::int64_t> shape,
                         std::vector<std::int64_t> strides, bool readonly) const {
    auto const [size, nbytes] = count(dtype(), shape);
    auto* data = static_cast<unsigned char*>(this->data());
    if (size == 0) {
        data = nullptr;
    } else if (dtype().packed()) {
        auto const bit = offset * dtype().bits;
        if (bit % 8 != 0) {
            throw std::invalid_argument{
                "the first element of this view of " + name(dtype()) +
                " lies inside of a byte; views of packed types start at byte boundaries"};
        }
        data += bit / 8;
    } else {
        data += offset * (dtype().bits / 8);
    }
    tensor view{*this};
    view.state_ = std::make_shared<state const>(state{state_->keep_alive, state_->line, data, std::move(shape),
                                                      std::move(strides), size, nbytes, device(),
                                                      dtype(), readonly, false});
    return view;
}

}  // namespace mt
