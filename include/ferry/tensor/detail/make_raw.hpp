// ferry: creates a DLPack struct from an owner and a view of its memory, in one allocation.
#pragma once

#include <ferry/base/detail/allocate.hpp>
#include <ferry/tensor/validate.hpp>

#include <new>
#include <utility>

namespace FERRY_NAMESPACE::detail {

/// The versioned or the legacy struct. The struct need not have an owner or a deleter.
template <class Raw>
concept managed_struct = std::same_as<Raw, DLManagedTensorVersioned> || std::same_as<Raw, DLManagedTensor>;

/// Owner of a struct, whose deleter the destructor calls (R8, R62).
template <managed_struct Raw>
class raw_owner {
   public:
    explicit raw_owner(Raw* raw) noexcept : raw_{raw} {}
    raw_owner(raw_owner&& other) noexcept : raw_{other.release()} {}
    raw_owner& operator=(raw_owner&&) = delete;
    ~raw_owner() {
        if (raw_ != nullptr && raw_->deleter != nullptr) raw_->deleter(raw_);
    }
    void reset(Raw* raw) noexcept { raw_ = raw; }  // only if this object owns no struct
    [[nodiscard]] Raw* release() noexcept { return std::exchange(raw_, nullptr); }

   private:
    Raw* raw_;
};

/// Returns the version to stamp: at most `max`, but at least the version that the data type and the flags require (R4).
[[nodiscard]] constexpr version stamp_for(data_type type, flags bits, version max) noexcept {
    auto minor = version::current.minor;
    if (max.major == version::current.major && max.minor < minor) minor = max.minor;
    auto const needed = has(bits, flags::subbyte_padded) ? 1u : minor_needed(type);
    return {version::current.major, minor < needed ? needed : minor};
}

/// Struct and owner, followed by the shape and the strides in the same allocation (D1).
template <managed_struct Raw, class Owner>
struct block {
    Raw raw;  // written field by field after the owner has been moved
    Owner owner;

    template <class From>
    explicit block(From&& from) : owner(std::forward<From>(from)) {}

    static constexpr std::align_val_t alignment{alignof(Owner) > alignof(Raw) ? alignof(Owner) : alignof(Raw)};
    static constexpr bool over_aligned = static_cast<std::size_t>(alignment) > __STDCPP_DEFAULT_NEW_ALIGNMENT__;
    /// Returns the address of the shape. It is aligned, because the size of a block is a multiple of a pointer's
    /// alignment.
    [[nodiscard]] static std::int64_t* extents(void* memory) noexcept {
        return reinterpret_cast<std::int64_t*>(static_cast<std::byte*>(memory) + sizeof(block));
    }

    /// Allocates memory for a block. Without exceptions, returns null on failure.
    [[nodiscard]] static void* allocate(int rank) {
        auto const bytes = sizeof(block) + 2 * sizeof(std::int64_t) * static_cast<std::size_t>(rank);
        if constexpr (over_aligned) return allocate_bytes(bytes, alignment);
        else return allocate_bytes(bytes);
    }
    static void deallocate(void* memory) noexcept {
        if constexpr (over_aligned) ::operator delete(memory, alignment);
        else ::operator delete(memory);
    }
    /// Deleter of the struct. Does not throw; may be called at any time on any thread (R6, R65–R67).
    static void destroy(Raw* raw) noexcept {
        if (raw == nullptr) return;
        auto* self = static_cast<block*>(raw->manager_ctx);
        self->~block();
        deallocate(self);
    }
};

/// Copies a view field by field, for a call on a path that is rarely taken. A call with the view itself would keep the
/// view in memory on all paths.
[[nodiscard]] FERRY_ALWAYS_INLINE tensor_view copy_of(tensor_view const& v) noexcept {
    return {untyped_data(v),
            v.dtype(),
            {v.shape().data(), v.rank()},
            {v.strides().data(), v.strides().rank()},
            v.device(),
            v.flags(),
            v.byte_offset()};
}

/// Writes the extents and strides of a managed struct; computes implicit strides (R24). Returns whether the tensor is
/// empty. Not inlined: is_compact writes those of compact elements.
FERRY_NOINLINE inline bool write_layout(tensor_view const& v, std::int64_t* metadata) noexcept {
    int const rank = v.rank();
    bool const implicit = v.strides().is_implicit();
    bool empty = false;
    std::uint64_t step = 1;  // wraps only when an extent is 0; strides are then ignored (R26)
    for (int i = rank; i-- > 0;) {
        auto const extent = v.extent(i);
        metadata[i] = extent;
        metadata[rank + i] = implicit ? static_cast<std::int64_t>(step) : v.strides()[i];
        step *= static_cast<std::uint64_t>(extent != 0 ? extent : 1);
        empty = empty || extent == 0;
    }
    return empty;
}

/// Writes the DLTensor of a managed struct; `metadata` contains its extents and strides. Empty tensors have NULL data
/// and byte offset 0 (R26), and device types without ids have id 0 (R35). The byte offset is 0 unless the data is a
/// handle (R23).
FERRY_ALWAYS_INLINE void write_tensor(tensor_view const& v, device as_device, bool empty, std::int64_t* metadata,
                                      DLTensor& out) noexcept {
    out.data = empty ? nullptr : untyped_data(v);
    out.device = device{as_device.type, ignores_id(as_device.type) ? 0 : as_device.id}.to_abi();
    out.ndim = v.rank();
    out.dtype = v.dtype().to_abi();
    out.shape = metadata;
    out.strides = metadata + v.rank();
    out.byte_offset = empty ? 0 : v.byte_offset();
}

/// The view of an owner whose elements keep their address when the owner is moved. Not a lambda, so that the struct is
/// written from the view itself, without copies of it.
struct fixed_view {
    tensor_view const& view;
    [[nodiscard]] tensor_view const& operator()(auto&) const noexcept { return view; }
};

/// Returns true if the elements of a view, whose address has changed, certainly lie within the address space, because
/// compact elements occupy less than 2^63 bytes (R32). `check_view` checks other views.
[[nodiscard]] FERRY_ALWAYS_INLINE bool is_in_address_space(tensor_view const& v) noexcept {
    if constexpr (sizeof(std::uintptr_t) < 8) return false;
    else return v.strides().is_implicit() && reinterpret_cast<std::intptr_t>(v.data()) > 0;  // not null, below 2^63
}

/// Fails if the device, flags, rank, data type, extents or strides of an owner's view changed when the owner was moved.
/// The address may change, and is then checked again. `before` is the view before the move, and `metadata` contains its
/// extents and strides.
[[nodiscard]] FERRY_ALWAYS_INLINE bool check_same_view(tensor_view const& before, tensor_view const& after,
                                                       std::int64_t const* metadata, bool empty, reporter r) {
    int const rank = before.rank();
    bool same = after.rank() == rank && after.dtype() == before.dtype() && after.device() == before.device() &&
                lost_in_legacy(after.flags()) == lost_in_legacy(before.flags()) &&
                after.strides().rank() == before.strides().rank();
    // Lists at the same address are equal. Otherwise, the lists of `before` may have been destroyed, and the copies in
    // `metadata` are compared.
    if (after.shape().data() != before.shape().data() || after.strides().data() != before.strides().data())
        for (int i = 0; same && i < rank; ++i)
            same = after.extent(i) == metadata[i] &&
                   (after.strides().is_implicit() || after.strides()[i] == metadata[rank + i]);
    if (same && (after.data() == before.data() || is_in_address_space(after))) return true;
    if (!same || (after.data() == nullptr && !empty))
        return report(r, errc::argument,
                      "the view of the owner changed during its move: return the same shape, strides, data type, "
                      "device and flags before and after the move");
    return check_view_by_call(copy_of(after), r);
}

/// Returns whether an address is in the object of `size` bytes at `begin`.
[[nodiscard]] FERRY_ALWAYS_INLINE bool is_within(void const* address, void const* begin, std::size_t size) noexcept {
    return reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(begin) < size;
}

/// Fails if the elements are in the object of `size` bytes at `from`, from which the owner is moved (D13).
[[nodiscard]] FERRY_ALWAYS_INLINE bool check_outside(void const* from, std::size_t size, tensor_view const& v,
                                                     bool empty, reporter r) {
    if (is_within(v.data(), from, size) && !empty)
        return report(r, errc::argument,
                      "the elements of the moved owner are in the object that it was moved from: return the address of "
                      "the elements in the owner, not a pointer that was stored before the move");
    return true;
}

/// Writes the DLTensor of a managed struct, whose owner was moved out of the object at `from`; see write_tensor. Checks
/// a view that is not fixed; see check_same_view and check_outside.
template <bool IsFixed>
[[nodiscard]] FERRY_ALWAYS_INLINE bool write_checked(tensor_view const& before, tensor_view const& after,
                                                     void const* from, std::size_t size, device as_device, bool empty,
                                                     std::int64_t* metadata, DLTensor& out, reporter r) {
    if constexpr (!IsFixed)
        if (!check_same_view(before, after, metadata, empty, r) || !check_outside(from, size, after, empty, r))
            return false;
    write_tensor(after, as_device, empty, metadata, out);
    return true;
}

// Not inlined; see check_tensor_by_call.
[[nodiscard]] FERRY_NOINLINE inline bool write_checked_by_call(tensor_view const& before, tensor_view const& after,
                                                               void const* from, std::size_t size, device as_device,
                                                               bool empty, std::int64_t* metadata, DLTensor& out,
                                                               reporter r) {
    return write_checked<false>(before, after, from, size, as_device, empty, metadata, out, r);
}

/// Releases a block that is not complete when the scope ends.
template <class Block>
struct block_guard {
    void* memory;
    Block* constructed = nullptr;

    explicit block_guard(void* m) noexcept : memory{m} {}
    block_guard(block_guard const&) = delete;
    block_guard& operator=(block_guard const&) = delete;
    ~block_guard() {
        if (memory == nullptr) return;
        if (constructed != nullptr) Block::destroy(&constructed->raw);
        else Block::deallocate(memory);
    }
};

/// Validates the view `before` of `owner`, unless `IsValid`, and returns a struct of type `Raw` that owns `owner`, or
/// null on failure. The loop that writes the extents and strides of an ordinary view also checks them. Calls
/// `view_at(owner&)` after the move, because elements may move with the owner. `ByCall`: see check_tensor_by_call.
template <managed_struct Raw, bool ByCall = false, bool IsValid = false, class Owner, class ViewOf>
[[nodiscard]] FERRY_ALWAYS_INLINE Raw* make_checked_raw(Owner&& owner, ViewOf view_at, tensor_view const& before,
                                                        device as_device, flags bits, version max, reporter r) {
    using block_type = block<Raw, std::remove_cvref_t<Owner>>;
    if (ByCall && !IsValid && !check_view_by_call(before, r)) return nullptr;
    bool const ordinary = ByCall || IsValid || is_ordinary_view(before);
    if (!ordinary && !check_other_view(copy_of(before), false, r)) return nullptr;
    int const rank = before.rank();
    void* const memory = block_type::allocate(rank);
    if (memory == nullptr) return static_cast<void>(report_out_of_memory(r)), nullptr;
    block_guard<block_type> guard{memory};
    std::int64_t* const metadata = block_type::extents(memory);
    auto const write_dimension = [=](std::ptrdiff_t i, std::int64_t extent, std::int64_t stride) {
        metadata[i] = extent;
        metadata[rank + i] = stride;
    };
    bool empty = false;
    if (ByCall || !ordinary || !is_compact(tensor_of(before), write_dimension)) {
        if (!ByCall && !IsValid && ordinary && !check_other_view(copy_of(before), true, r)) return nullptr;
        empty = write_layout(copy_of(before), metadata);
    }
    constexpr bool is_fixed = std::same_as<ViewOf, fixed_view>;
    void const* const from = &reinterpret_cast<unsigned char const&>(owner);
    if (is_fixed && !check_outside(from, sizeof owner, before, empty, r)) return nullptr;  // before the move (D25)
    auto* const self = guard.constructed = ::new (memory) block_type(std::forward<Owner>(owner));
    self->raw.manager_ctx = self;
    self->raw.deleter = &block_type::destroy;
    {
        decltype(auto) described = view_at(self->owner);
        if (!check_result(described, r)) return nullptr;
        tensor_view const& after = unwrapped(described);
        auto const write = ByCall && !is_fixed ? write_checked_by_call : write_checked<is_fixed>;
        if (!write(before, after, from, sizeof owner, as_device, empty, metadata, self->raw.dl_tensor, r))
            return nullptr;
    }
    if constexpr (std::same_as<Raw, DLManagedTensorVersioned>) {
        auto const stamp = stamp_for(before.dtype(), bits, max);
        self->raw.version = {stamp.major, stamp.minor};
        self->raw.flags = static_cast<std::uint64_t>(known(bits));
    }
    guard.memory = nullptr;
    return &self->raw;
}

/// Returns a struct like make_checked_raw; the view `before` must be valid.
template <managed_struct Raw, bool ByCall = false, class Owner, class ViewOf>
[[nodiscard]] FERRY_ALWAYS_INLINE Raw* make_valid_raw(Owner&& owner, ViewOf view_at, tensor_view const& before,
                                                      device as_device, flags bits, version max, reporter r) {
    return make_checked_raw<Raw, ByCall, true>(std::forward<Owner>(owner), std::move(view_at), before, as_device, bits,
                                               max, r);
}

/// Validates the view `view_at(owner&)` and returns a struct of type `Raw` that owns `owner`, or null on failure.
template <managed_struct Raw, class Owner, class ViewOf>
[[nodiscard]] FERRY_ALWAYS_INLINE Raw* make_raw(Owner&& owner, ViewOf view_at, device as_device, flags bits,
                                                version max, reporter r) {
    auto const described = view_at(owner);  // a tensor_view or an inplace_view, or a result
    if (!check_result(described, r)) return nullptr;
    tensor_view const& view = unwrapped(described);
    return make_checked_raw<Raw>(std::forward<Owner>(owner), std::move(view_at), view, as_device, bits, max, r);
}

}  // namespace FERRY_NAMESPACE::detail
