// ferry: storage for one array, overwritten when the array is destroyed, so that dangling references are detected.
#pragma once

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/config.hpp>

#include <cstddef>
#include <new>

namespace FERRY_NAMESPACE::conformance::detail {

/// Value of the bytes of uninitialised and released memory.
inline constexpr unsigned char poison = 0xDB;

/// Holds at most one array, which need not be movable. Neither copyable nor movable.
template <class Array>
class box {
   public:
    box() = default;
    box(box const&) = delete;
    box& operator=(box const&) = delete;
    ~box() { destroy(); }

    /// Constructs the array from `f()`; returns false when `f` throws.
    template <class F>
    [[nodiscard]] bool construct(F f) {
        try {
            array_ = ::new (static_cast<void*>(bytes_)) Array(f());
        } catch (...) {
            return false;
        }
        return true;
    }
    void destroy() noexcept {
        if (array_ == nullptr) return;
        array_->~Array();
        array_ = nullptr;
        unsigned char volatile* const bytes = bytes_;  // volatile, so that these dead stores are kept
        for (std::size_t i = 0; i < sizeof(Array); ++i) bytes[i] = poison;
    }
    [[nodiscard]] Array& operator*() const noexcept { return *array_; }

   private:
    alignas(Array) unsigned char bytes_[sizeof(Array)];
    Array* array_ = nullptr;
};

}  // namespace FERRY_NAMESPACE::conformance::detail
