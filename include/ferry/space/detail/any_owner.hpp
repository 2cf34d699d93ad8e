// ferry: owners of objects of any type, such as the memory of a back end, or a mark that waits for its work.
#pragma once

#include <ferry/config.hpp>

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE::detail {

/// Owns an object of any movable type. A small object is stored in place, so that owners of memory and of events do not
/// allocate. Empty when default-constructed.
class any_owner {
   public:
    any_owner() = default;
    any_owner(any_owner&& other) noexcept { take(other); }
    any_owner& operator=(any_owner&& other) noexcept {
        if (this != &other) {
            drop();
            take(other);
        }
        return *this;
    }
    ~any_owner() { drop(); }

    /// Stores an object in an empty owner. Returns false when the object is large, and its allocation fails.
    template <class T>
    [[nodiscard]] bool store(T&& object) {
        static_assert(!std::is_reference_v<T>);
        if constexpr (sizeof(T) <= sizeof room_ && alignof(T) <= alignof(std::max_align_t) &&
                      std::is_nothrow_move_constructible_v<T>) {
            data_ = address_of(*::new (static_cast<void*>(room_)) T(std::move(object)));
            manage_ = manage<T>;
            return true;
        } else {
            T* const made = ::new (std::nothrow) T(std::move(object));
            return made != nullptr && store(allocated<T>{made});
        }
    }
    /// Returns `data()` of the object; null if it has none.
    [[nodiscard]] void* data() const noexcept { return data_; }

   private:
    template <class T>
    struct allocated {
        explicit allocated(T* o) noexcept : object{o} {}
        allocated(allocated&& other) noexcept : object{std::exchange(other.object, nullptr)} {}
        allocated& operator=(allocated&&) = delete;
        ~allocated() { ::delete object; }
        [[nodiscard]] void* data() const { return address_of(*object); }
        T* object;
    };
    template <class T>
    [[nodiscard]] static void* address_of([[maybe_unused]] T const& object) {
        if constexpr (requires(void* p) { p = object.data(); }) return object.data();
        else return nullptr;
    }
    /// Moves the object to other storage and returns its `data()`, or, without other storage, destroys it.
    template <class T>
    static void* manage(void* from, void* to) noexcept {
        T& object = *static_cast<T*>(from);
        void* const data = to != nullptr ? address_of(*::new (to) T(std::move(object))) : nullptr;
        object.~T();
        return data;
    }
    void drop() noexcept {
        data_ = nullptr;
        if (auto* const destroy = std::exchange(manage_, nullptr)) destroy(room_, nullptr);
    }
    void take(any_owner& other) noexcept {
        if (other.manage_ == nullptr) return;
        manage_ = std::exchange(other.manage_, nullptr);
        other.data_ = nullptr;
        data_ = manage_(other.room_, room_);
    }

    alignas(std::max_align_t) std::byte room_[6 * sizeof(void*)];
    void* (*manage_)(void*, void*) noexcept = nullptr;
    void* data_ = nullptr;
};

}  // namespace FERRY_NAMESPACE::detail
