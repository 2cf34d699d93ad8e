// ferry: a struct of Arrow's that is released when it dies.
#pragma once

#include <ferry/config.hpp>

#include <utility>

namespace FERRY_NAMESPACE::detail {

/// Move-only. Released is null in `raw.release`, as in a struct that never held anything.
template <class Struct>
struct owned {
    Struct raw{};

    owned() = default;
    owned(owned&& other) noexcept : raw{std::exchange(other.raw, Struct{})} {}
    owned& operator=(owned&& other) noexcept {
        std::swap(raw, other.raw);
        return *this;
    }
    ~owned() {
        if (raw.release != nullptr) raw.release(&raw);
    }
};

}  // namespace FERRY_NAMESPACE::detail
