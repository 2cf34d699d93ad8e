// ferry: where bytes come from.
#pragma once

#include <ferry/base/device.hpp>

#include <concepts>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace ferry::inline v0 {

/// A source of memory of one device: `allocate(bytes, alignment)` returns memory or throws, `deallocate` takes it back
/// with the same numbers, `device()` says where the memory lives. Copies of a space are handles to the same memory, and
/// the deleter of a tensor keeps one. Not required: that the host can read it, nor thread safety beyond what the user
/// needs.
template <class S>
concept memory_space = std::copy_constructible<S> && std::is_nothrow_copy_constructible_v<S> &&
                       requires(S& s, S const& c, void* p, std::size_t n) {
                           { s.allocate(n, n) } -> std::same_as<void*>;
                           s.deallocate(p, n, n);
                           { c.device() } -> std::same_as<ferry::device>;
                       };

namespace detail {

template <class R>
concept plain_resource = requires(R& r, void* p, std::size_t n) {
    { r.allocate(n, n) } -> std::same_as<void*>;
    r.deallocate(p, n, n);
};
/// Pointers of the library's own, which `get()` tells the address of: those of Thrust.
template <class R>
concept fancy_resource = requires(R& r, void* p, std::size_t n) {
    { r.allocate(n, n).get() } -> std::convertible_to<void*>;
    r.deallocate(decltype(r.allocate(n, n))(p), n, n);
};
/// Where `allocate` means a stream, as in later releases of CCCL and RMM.
template <class R>
concept sync_resource = requires(R& r, void* p, std::size_t n) {
    { r.allocate_sync(n, n) } -> std::same_as<void*>;
    r.deallocate_sync(p, n, n);
};

}  // namespace detail

/// A resource in the manner of std::pmr::memory_resource: allocate and deallocate with size and alignment, and no word
/// about where. Recognised by shape: Thrust's of every memory, RMM's, those of `cuda::mr` and the user's own have it
/// too. Not required: a base class.
template <class R>
concept memory_resource_like = detail::plain_resource<R> || detail::fancy_resource<R> || detail::sync_resource<R>;

/// The alignment of memory that ferry allocates, in bytes: what the DLPack header asks for (R31).
inline constexpr std::size_t default_alignment = 256;

/// Ordinary host memory. Stateless; thread-safe.
struct host_space {
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = default_alignment) const {
        return ::operator new(bytes, std::align_val_t{alignment});
    }
    void deallocate(void* p, std::size_t, std::size_t alignment = default_alignment) const noexcept {
        ::operator delete(p, std::align_val_t{alignment});
    }
    [[nodiscard]] constexpr ferry::device device() const noexcept { return cpu; }
};

/// A resource as a space: says where its memory lives. Borrows the resource, which must outlive every tensor made from
/// it. As thread-safe as the resource.
template <memory_resource_like Resource>
class resource_space {
   public:
    constexpr explicit resource_space(Resource& resource, ferry::device where = cpu) noexcept
        : resource_{&resource}, where_{where} {}

    /// \throws  what the resource throws
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = default_alignment) {
        if constexpr (detail::plain_resource<Resource>) return resource_->allocate(bytes, alignment);
        else if constexpr (detail::fancy_resource<Resource>) return resource_->allocate(bytes, alignment).get();
        else return resource_->allocate_sync(bytes, alignment);
    }
    void deallocate(void* p, std::size_t bytes, std::size_t alignment = default_alignment) noexcept {
        try {
            if constexpr (detail::plain_resource<Resource>) resource_->deallocate(p, bytes, alignment);
            else if constexpr (detail::fancy_resource<Resource>)
                resource_->deallocate(decltype(resource_->allocate(bytes, alignment))(p), bytes, alignment);
            else resource_->deallocate_sync(p, bytes, alignment);
        } catch (...) {  // as Thrust's at the end of a program, when CUDA is gone: nobody is left to be told (R66)
        }
    }
    [[nodiscard]] constexpr ferry::device device() const noexcept { return where_; }

   private:
    Resource* resource_;
    ferry::device where_;
};

}  // namespace ferry::inline v0
