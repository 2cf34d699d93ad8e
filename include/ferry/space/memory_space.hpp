// ferry: memory spaces, which allocate the memory of one device.
#pragma once

#include <ferry/base/detail/allocate.hpp>
#include <ferry/base/detail/catching.hpp>
#include <ferry/base/device.hpp>
#include <ferry/fwd.hpp>

#include <concepts>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE {

/// A source of memory of one device.
///
/// - `allocate(bytes, alignment)`: returns memory. On failure, throws, or returns null, which ferry reports as
///   errc::out_of_memory.
/// - `deallocate(p, bytes, alignment)`: releases memory; takes the size and alignment that were passed to `allocate`.
/// - `device()`: returns the device of the memory.
///
/// Copies of a space are handles to the same source; the deleter of a tensor stores a copy. The memory need not be
/// host-accessible, and the space need not be thread-safe.
template <class S>
concept memory_space = std::copy_constructible<S> && std::is_nothrow_copy_constructible_v<S> &&
                       requires(S& s, S const& c, void* p, std::size_t n) {
                           { s.allocate(n, n) } -> std::same_as<void*>;
                           s.deallocate(p, n, n);
                           { c.device() } -> std::same_as<ferry::device>;
                       };

/// A memory space that knows its memory: `contains(v)` returns whether all elements of a tensor lie in memory of the
/// space, or of the kind that it allocates; false when that is not certain. The view is valid and has elements. With
/// placement::exact, exchanges share only what the space contains; a space without `contains` contains nothing.
template <class S>
concept containing_space = memory_space<S> && requires(S const& s, tensor_view const& v) {
    { s.contains(v) } -> std::same_as<bool>;
};

namespace detail {

/// A resource whose `allocate` returns `void*`.
template <class R>
concept plain_resource = requires(R& r, void* p, std::size_t n) {
    { r.allocate(n, n) } -> std::same_as<void*>;
    r.deallocate(p, n, n);
};
/// A resource whose `allocate` returns a pointer class with `get()`, as in Thrust.
template <class R>
concept fancy_resource = requires(R& r, void* p, std::size_t n) {
    { r.allocate(n, n).get() } -> std::convertible_to<void*>;
    r.deallocate(decltype(r.allocate(n, n))(p), n, n);
};
/// A resource whose `allocate` is stream-ordered and whose synchronous form is `allocate_sync`, as in recent releases
/// of CCCL and RMM.
template <class R>
concept sync_resource = requires(R& r, void* p, std::size_t n) {
    { r.allocate_sync(n, n) } -> std::same_as<void*>;
    r.deallocate_sync(p, n, n);
};

}  // namespace detail

/// A memory resource, which allocates and deallocates by size and alignment and does not specify a device. Satisfied by
/// std::pmr::memory_resource, and by the resources of Thrust, RMM and `cuda::mr`. No particular base class is required.
template <class R>
concept memory_resource_like = detail::plain_resource<R> || detail::fancy_resource<R> || detail::sync_resource<R>;

/// Alignment of memory that ferry allocates, in bytes, as the DLPack header requires (R31).
inline constexpr std::size_t default_alignment = 256;

/// Pageable host memory from `operator new`. Stateless; thread-safe.
struct host_space {
    /// Allocates host memory.
    ///
    /// \param bytes      size
    /// \param alignment  alignment in bytes
    /// \return           uninitialised memory; without exceptions, null on failure
    /// \throws std::bad_alloc  when the allocation fails
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = default_alignment) const {
        return detail::allocate_bytes(bytes, std::align_val_t{alignment});
    }
    /// Releases host memory.
    ///
    /// \param p          memory that `allocate` returned
    /// \param alignment  alignment that was passed to `allocate`
    void deallocate(void* p, std::size_t, std::size_t alignment = default_alignment) const noexcept {
        ::operator delete(p, std::align_val_t{alignment});
    }
    /// Returns `ferry::cpu`.
    [[nodiscard]] constexpr ferry::device device() const noexcept { return cpu; }
};

/// A memory space that combines a memory resource with the device of its memory. Stores a pointer to the resource,
/// which must outlive every tensor allocated from it. As thread-safe as the resource.
template <memory_resource_like Resource>
class resource_space {
   public:
    /// Constructs a space from a memory resource.
    ///
    /// \param resource  memory resource; must outlive every tensor allocated from it
    /// \param d         device of the resource's memory
    constexpr explicit resource_space(Resource& resource, ferry::device d = cpu) noexcept
        : resource_{&resource}, device_{d} {}

    /// Allocates memory from the resource. Exceptions from the resource propagate.
    ///
    /// \param bytes      size
    /// \param alignment  alignment in bytes
    /// \return           memory from the resource
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = default_alignment) {
        if constexpr (detail::plain_resource<Resource>) return resource_->allocate(bytes, alignment);
        else if constexpr (detail::fancy_resource<Resource>) return resource_->allocate(bytes, alignment).get();
        else return resource_->allocate_sync(bytes, alignment);
    }
    /// Returns memory to the resource. Ignores exceptions from the resource (R66).
    ///
    /// \param p          memory that `allocate` returned
    /// \param bytes      size that was passed to `allocate`
    /// \param alignment  alignment that was passed to `allocate`
    void deallocate(void* p, std::size_t bytes, std::size_t alignment = default_alignment) noexcept {
        detail::ignore_exceptions([&] {  // Thrust's resources throw after the shutdown of CUDA (R66)
            if constexpr (detail::plain_resource<Resource>) resource_->deallocate(p, bytes, alignment);
            else if constexpr (detail::fancy_resource<Resource>)
                resource_->deallocate(decltype(resource_->allocate(bytes, alignment))(p), bytes, alignment);
            else resource_->deallocate_sync(p, bytes, alignment);
        });
    }
    /// Returns the device of the resource's memory.
    [[nodiscard]] constexpr ferry::device device() const noexcept { return device_; }

   private:
    Resource* resource_;
    ferry::device device_;
};

}  // namespace FERRY_NAMESPACE
