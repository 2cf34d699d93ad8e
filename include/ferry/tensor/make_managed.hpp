// ferry: wraps an owner and its tensor into the struct that travels, in one allocation.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/base/version.hpp>
#include <ferry/tensor/managed.hpp>
#include <ferry/tensor/validate.hpp>
#include <ferry/tensor/view.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <new>
#include <source_location>
#include <type_traits>
#include <utility>

namespace ferry::inline v0 {
namespace detail {

/// The two structs that travel.
template <class Raw>
concept managed_struct = std::same_as<Raw, DLManagedTensorVersioned> || std::same_as<Raw, DLManagedTensor>;

/// The minor version to stamp: no more than asked for, but what the type and the flags need (R4).
[[nodiscard]] constexpr version stamp_for(data_type type, flags bits, version max) noexcept {
    auto minor = version::current.minor;
    if (max.major == version::current.major && max.minor < minor) minor = max.minor;  // mutant: r4_max_version
    auto const needed = has(bits, flags::subbyte_padded) ? 1u : minor_needed(type);
    return {version::current.major, minor < needed ? needed : minor};  // mutant: r4_stamp
}

/// Struct, owner, shape and strides in one allocation (D1); the shape and strides follow the block.
template <managed_struct Raw, class Owner>
struct block {
    Raw raw;  // written field by field once the owner has moved in
    Owner owner;

    template <class From>
    explicit block(From&& from) : owner(std::forward<From>(from)) {}

    static constexpr std::align_val_t alignment{alignof(Owner) > alignof(Raw) ? alignof(Owner) : alignof(Raw)};
    static constexpr bool over_aligned = static_cast<std::size_t>(alignment) > __STDCPP_DEFAULT_NEW_ALIGNMENT__;
    /// Where the shape begins: a block's size is a multiple of its alignment, which is at least a pointer's.
    [[nodiscard]] static std::int64_t* extents(void* memory) noexcept {
        return reinterpret_cast<std::int64_t*>(static_cast<std::byte*>(memory) + sizeof(block));
    }

    [[nodiscard]] static void* allocate(int rank) {
        auto const bytes = sizeof(block) + 2 * sizeof(std::int64_t) * static_cast<std::size_t>(rank);
        if constexpr (over_aligned) return ::operator new(bytes, alignment);
        else return ::operator new(bytes);
    }
    static void deallocate(void* memory) noexcept {
        if constexpr (over_aligned) ::operator delete(memory, alignment);
        else ::operator delete(memory);
    }
    /// The deleter of the struct: any thread, any time, never throws (R6, R65–R67).
    static void destroy(Raw* raw) noexcept {
        if (raw == nullptr) return;
        auto* self = static_cast<block*>(raw->manager_ctx);
        self->~block();    // mutant: r6_block_owner
        deallocate(self);  // mutant: r6_block_memory
    }
};

/// Writes extents and strides as they travel, strides always (R24). True when the tensor is empty.
FERRY_ALWAYS_INLINE bool write_layout(tensor_view const& v, std::int64_t* metadata) noexcept {
    int const rank = v.rank();
    bool const implicit = v.strides().is_implicit();
    bool empty = false;
    std::uint64_t step = 1;  // wraps only when an extent is 0, and then no stride counts (R26)
    for (int i = rank; i-- > 0;) {
        auto const extent = v.extent(i);
        metadata[i] = extent;
        metadata[rank + i] = implicit ? static_cast<std::int64_t>(step) : v.strides()[i];
        step *= static_cast<std::uint64_t>(extent != 0 ? extent : 1);
        empty = empty || extent == 0;
    }
    return empty;
}

/// Writes the tensor as it travels: the first element at offset 0 (R23), no data for empty tensors (R26), id 0 where
/// ids mean nothing (R35). Its layout is at `metadata`.
FERRY_ALWAYS_INLINE void write_tensor(tensor_view const& v, device as_device, bool empty, std::int64_t* metadata,
                                      DLTensor& out) noexcept {
    out.data = empty ? nullptr : v.data();
    out.device = device{as_device.type, ignores_id(as_device.type) ? 0 : as_device.id}.to_abi();
    out.ndim = v.rank();
    out.dtype = v.dtype().to_abi();
    out.shape = metadata;
    out.strides = metadata + v.rank();
    out.byte_offset = empty ? 0 : v.byte_offset();
}

/// The owner has moved since its tensor was `before`, whose layout was written to `metadata`: nothing but the address
/// may have changed with it.
FERRY_ALWAYS_INLINE void check_moved(tensor_view const& before, tensor_view const& after, std::int64_t const* metadata,
                                     bool empty, char const* api, std::source_location where) {
    int const rank = before.rank();
    bool same = after.rank() == rank && after.dtype() == before.dtype() &&
                after.strides().rank() == before.strides().rank() && (after.data() != nullptr || empty);
    // Extents and strides that stayed where they were are the same; what `before` points at may be gone otherwise.
    if (after.shape().data() != before.shape().data() || after.strides().data() != before.strides().data())
        for (int i = 0; same && i < rank; ++i)
            same = after.extent(i) == metadata[i] &&
                   (after.strides().is_implicit() || after.strides()[i] == metadata[rank + i]);
    if (!same)
        fail(errc::argument, api,
             message{"the tensor changed when its owner moved: all but the address must be the same in both places"},
             where);
}

/// The struct of `Raw` that owns `owner`. `view_at(owner&)` is called twice: where the owner is, to check and to copy
/// what it says, and where it finally lives, because data may move with it.
template <managed_struct Raw, class Owner, class ViewOf>
[[nodiscard]] FERRY_ALWAYS_INLINE Raw* make_raw(Owner&& owner, ViewOf view_at, device as_device, flags bits,
                                                version max, char const* api, std::source_location where) {
    using block_type = block<Raw, std::remove_cvref_t<Owner>>;
    tensor_view const before = view_at(owner);
    validate_view(before, api, where);
    void* const memory = block_type::allocate(before.rank());
    std::int64_t* const metadata = block_type::extents(memory);
    bool const empty = write_layout(before, metadata);
    block_type* self = nullptr;
    try {
        self = ::new (memory) block_type(std::forward<Owner>(owner));
    } catch (...) {
        block_type::deallocate(memory);
        throw;
    }
    self->raw.manager_ctx = self;
    self->raw.deleter = &block_type::destroy;
    try {
        tensor_view const after = view_at(self->owner);
        check_moved(before, after, metadata, empty, api, where);
        write_tensor(after, as_device, empty, metadata, self->raw.dl_tensor);
    } catch (...) {
        block_type::destroy(&self->raw);
        throw;
    }
    if constexpr (std::same_as<Raw, DLManagedTensorVersioned>) {
        auto const stamp = stamp_for(before.dtype(), bits, max);
        self->raw.version = {stamp.major, stamp.minor};
        self->raw.flags = static_cast<std::uint64_t>(known(bits));
    }
    return &self->raw;
}

/// A managed_tensor of a struct that ferry has just made; it needs no second look.
struct trusted {
    [[nodiscard]] static managed_tensor adopt(DLManagedTensorVersioned* raw) noexcept { return managed_tensor{raw}; }
};

}  // namespace detail

/// A tensor owned by `owner`: any movable object whose destruction releases the memory (an array, a std::shared_ptr, a
/// std::unique_ptr, an intrusive pointer). One allocation holds struct, owner, shape and strides (D1).
///
/// `view_at(owner&)` gives the tensor and is called again where the owner finally lives, so that arrays that carry
/// their elements inside may be moved in. On failure before the move the owner is still the caller's; after it, it has
/// been destroyed once. Does not synchronise.
///
/// \param bits  flags to set beside those of the view: flags::is_copied when the memory was made for the receiver (R12)
/// \throws error  what `validate` finds in the view;  std::bad_alloc
template <std::move_constructible Owner, std::invocable<Owner&> ViewOf>
    requires(!std::is_lvalue_reference_v<Owner> && !std::is_const_v<Owner>)
[[nodiscard]] managed_tensor make_managed(Owner&& owner, ViewOf view_at, flags bits = flags::none,
                                          version max_version = version::current,
                                          std::source_location where = std::source_location::current()) {
    tensor_view const v = view_at(owner);
    return detail::trusted::adopt(detail::make_raw<DLManagedTensorVersioned>(
        std::move(owner), std::move(view_at), v.device(), (v.flags() & ~flags::is_copied) | bits, max_version,
        "ferry::make_managed", where));
}

/// As above, for an owner whose elements stay where they are when it moves.
template <std::move_constructible Owner>
    requires(!std::is_lvalue_reference_v<Owner> && !std::is_const_v<Owner>)
[[nodiscard]] managed_tensor make_managed(Owner&& owner, tensor_view view, flags bits = flags::none,
                                          version max_version = version::current,
                                          std::source_location where = std::source_location::current()) {
    return make_managed(std::move(owner), [view](auto&) { return view; }, bits, max_version, where);
}

template <class Owner, class... Rest>
// clang-format off
managed_tensor make_managed(Owner&, Rest&&...) FERRY_DELETED("the tensor takes its owner over: std::move it in, or move a copy");
// clang-format on

}  // namespace ferry::inline v0
