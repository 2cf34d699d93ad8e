// ferry: an array whose place turns to poison when it is gone, so that what still points there is noticed.
#pragma once

#include <ferry/config.hpp>

#include <cstddef>
#include <new>

namespace ferry::inline v0::conformance::detail {

/// What memory holds that nobody has written, or nobody may read any more.
inline constexpr unsigned char poison = 0xDB;

/// Holds an array that need not be movable. Not to be moved itself.
template <class Array>
class box {
   public:
    box() = default;
    box(box const&) = delete;
    box& operator=(box const&) = delete;
    ~box() { destroy(); }

    /// The array that `f()` gives; false when it throws.
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
        unsigned char volatile* const bytes = bytes_;  // the compiler knows that nobody may look there now
        for (std::size_t i = 0; i < sizeof(Array); ++i) bytes[i] = poison;
    }
    [[nodiscard]] Array& operator*() const noexcept { return *array_; }

   private:
    alignas(Array) unsigned char bytes_[sizeof(Array)];
    Array* array_ = nullptr;
};

}  // namespace ferry::inline v0::conformance::detail
