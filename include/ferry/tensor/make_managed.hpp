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

namespace ferry {
namespace detail {

/// The two structs that travel.
template <class Raw>
concept managed_struct = std::same_as<Raw, DLManagedTensorVersioned> || std::same_as<Raw, DLManagedTensor>;

/// The minor version to stamp: no more than asked for, but what the type and the flags need (R4).
[[nodiscard]] constexpr version stamp_for(data_type type, flags bits, version max) noexcept {
    auto minor = version::current.minor;
    if (max.major == version::current.major && max.minor < minor) minor = max.minor;
    auto const needed = has(bits, flags::subbyte_padded) ? 1u : minor_needed(type);
    return {version::current.major, minor < needed ? needed : minor};
}

/// Struct, owner, shape and strides in one allocation (D1); the shape and strides follow the block.
template <managed_struct Raw, class Owner>
struct block {
    Raw raw;
    Owner owner;

    static constexpr std::align_val_t alignment{alignof(block) > alignof(std::int64_t) ? alignof(block)
                                                                                       : alignof(std::int64_t)};
    static constexpr std::size_t metadata = (sizeof(block) + alignof(std::int64_t) - 1) & ~(alignof(std::int64_t) - 1);
    static constexpr bool over_aligned = static_cast<std::size_t>(alignment) > __STDCPP_DEFAULT_NEW_ALIGNMENT__;

    [[nodiscard]] static void* allocate(int rank) {
        auto const bytes = metadata + 2 * sizeof(std::int64_t) * static_cast<std::size_t>(rank);
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
        self->~block();
        deallocate(self);
    }
    [[nodiscard]] static std::int64_t* extents(void* memory) noexcept {
        return reinterpret_cast<std::int64_t*>(static_cast<std::byte*>(memory) + metadata);
    }
};

/// Describes `v` as it travels: the first element at offset 0 (R23), strides always written (R24), no data for empty
/// tensors (R26), id 0 where ids mean nothing (R35).
inline void describe(tensor_view const& v, std::int64_t* metadata, DLTensor& out) noexcept {
    int const rank = v.rank();
    std::int64_t* const strides = metadata + rank;
    bool empty = false;
    for (int i = 0; i < rank; ++i) {
        metadata[i] = v.extent(i);
        empty = empty || metadata[i] == 0;
    }
    if (v.strides().is_implicit()) fill_compact_strides({metadata, rank}, strides);
    else
        for (int i = 0; i < rank; ++i) strides[i] = v.strides()[i];
    out.data = empty ? nullptr : v.data();
    out.device = (ignores_id(v.device().type) ? device{v.device().type, 0} : v.device()).to_abi();
    out.ndim = rank;
    out.dtype = v.dtype().to_abi();
    out.shape = metadata;
    out.strides = strides;
    out.byte_offset = empty ? 0 : v.byte_offset();
}

/// Checks what an adapter says of its own array, before anything is moved.
inline void validate_view(tensor_view const& v, char const* api, std::source_location where) {
    if (!v.strides().is_implicit() && v.strides().rank() != v.rank())
        fail(errc::strides, api,
             message{"the view has "} << v.rank() << " extents but " << v.strides().rank() << " strides", where);
    DLTensor t{};
    t.data = v.data();
    t.device = v.device().to_abi();
    t.ndim = v.rank();
    t.dtype = v.dtype().to_abi();
    t.shape = const_cast<std::int64_t*>(v.shape().data());
    t.strides = const_cast<std::int64_t*>(v.strides().data());
    validate(t, v.flags(), api, where);
}

/// The owner has moved since `before` was described as `out`: nothing but the address may have changed with it. What
/// `before` points at may be gone. Takes the address over.
inline void describe_moved(tensor_view const& before, tensor_view const& after, DLTensor& out, char const* api,
                           std::source_location where) {
    bool const implicit = before.strides().is_implicit();
    bool same = after.rank() == out.ndim && after.dtype() == before.dtype() &&
                after.strides().is_implicit() == implicit && (implicit || after.strides().rank() == out.ndim) &&
                (after.data() != nullptr || out.data == nullptr);
    for (int i = 0; same && i < out.ndim; ++i)
        same = after.extent(i) == out.shape[i] && (implicit || after.strides()[i] == out.strides[i]);
    if (!same)
        fail(errc::argument, api,
             message{"the tensor changed when its owner moved: all but the address must be the same in both places"}, where);
    if (out.data != nullptr) out.data = after.data();
}

/// The struct of `Raw` that owns `owner`. `view_at(owner&)` is called twice: where the owner is, to check and to copy what
/// it says, and where it finally lives, because data may move with it.
template <managed_struct Raw, class Owner, class ViewOf>
[[nodiscard]] Raw* make_raw(Owner&& owner, ViewOf view_at, device as_device, flags bits, version max, char const* api,
                            std::source_location where) {
    using block_type = block<Raw, std::remove_cvref_t<Owner>>;
    tensor_view const before = view_at(owner);
    validate_view(before, api, where);
    void* const memory = block_type::allocate(before.rank());
    DLTensor described;
    describe(before.relabelled(as_device, bits), block_type::extents(memory), described);
    block_type* self = nullptr;
    try {
        self = ::new (memory) block_type{Raw{}, std::forward<Owner>(owner)};
    } catch (...) {
        block_type::deallocate(memory);
        throw;
    }
    self->raw.manager_ctx = self;
    self->raw.deleter = &block_type::destroy;
    try {
        describe_moved(before, view_at(self->owner), described, api, where);
        self->raw.dl_tensor = described;
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
/// `view_at(owner&)` gives the tensor and is called again where the owner finally lives, so that arrays that carry their
/// elements inside may be moved in. On failure before the move the owner is still the caller's; after it, it has been
/// destroyed once. Does not synchronise.
///
/// \param bits  flags to set beside those of the view: flags::is_copied when the memory was made for the receiver (R12)
/// \throws error  what `validate` finds in the view;  std::bad_alloc
template <std::move_constructible Owner, std::invocable<Owner&> ViewOf>
    requires(!std::is_lvalue_reference_v<Owner>)
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
    requires(!std::is_lvalue_reference_v<Owner>)
[[nodiscard]] managed_tensor make_managed(Owner&& owner, tensor_view view, flags bits = flags::none,
                                          version max_version = version::current,
                                          std::source_location where = std::source_location::current()) {
    return make_managed(std::move(owner), [view](auto&) { return view; }, bits, max_version, where);
}

template <class Owner, class... Rest>
managed_tensor make_managed(Owner&, Rest&&...) FERRY_DELETED("the tensor takes its owner over: std::move it in, or move a copy");

}  // namespace ferry
