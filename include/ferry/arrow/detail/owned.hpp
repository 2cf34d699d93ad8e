// ferry: a struct of Arrow's that is released when it dies.
#pragma once

#include <ferry/config.hpp>

#include <utility>

namespace FERRY_NAMESPACE::detail {

/// Returns the struct with the release callback, which is null in a struct that was released or moved from.
template <class Struct>
[[nodiscard]] auto& releasable(Struct& s) noexcept {
    if constexpr (requires { s.array; }) return s.array;  // ArrowDeviceArray
    else return s;
}

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
        if (auto& base = releasable(raw); base.release != nullptr) base.release(&base);
    }
};

}  // namespace FERRY_NAMESPACE::detail
