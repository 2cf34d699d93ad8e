// ferry: owns a struct of Arrow, which the destructor releases.
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

/// Owns a struct of Arrow. Move-only. `raw.release` is null if the object is empty.
template <class Struct>
struct owned {
    Struct raw{};

    owned() = default;
    /// Moves the struct out of `from`.
    explicit owned(Struct& from) noexcept : raw{std::exchange(from, Struct{})} {}
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
