// ferry: import and export of the legacy struct, which has no version (R8).
#pragma once

#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>

#include <source_location>
#include <utility>

namespace ferry::inline v0 {
namespace detail {

/// Owner of a legacy struct.
class legacy_owner {
   public:
    explicit legacy_owner(DLManagedTensor* raw) noexcept : raw_{raw} {}
    legacy_owner(legacy_owner&& other) noexcept : raw_{std::exchange(other.raw_, nullptr)} {}
    legacy_owner& operator=(legacy_owner&&) = delete;
    ~legacy_owner() {
        if (raw_ != nullptr && raw_->deleter != nullptr) raw_->deleter(raw_);  // mutant: r8_legacy_owner
    }
    [[nodiscard]] DLTensor const& tensor() const noexcept { return raw_->dl_tensor; }

   private:
    DLManagedTensor* raw_;
};

/// Throws for read-only and padded tensors, because the legacy struct has no flags (R13, R15).
inline void check_legacy_flags(tensor_view const& v, char const* api, std::source_location where) {
    if (v.is_read_only())
        fail(errc::read_only, api,
             message{"the legacy struct has no flag for read-only data (R15): export a copy, or request "
                     "max_version=(1, 0)"},
             where);
    if (v.is_padded())
        fail(errc::flags, api,
             message{"the legacy struct has no flag for padded sub-byte elements (R13): request max_version=(1, 0)"},
             where);
}

}  // namespace detail

/// Validates a legacy tensor and takes ownership of it (R3, R16–R32).
///
/// Makes one allocation. Does not synchronise.
///
/// \param raw      struct; owned by the result on success; on failure its deleter has run exactly once
/// \param assumed  flags of the data, which the struct does not contain; pass flags::none only if the documentation of
///                 the producer states that the data may be written (R15)
/// \param where    source location for errors
/// \return         tensor
/// \throws error           errc::null_struct, device, dtype, rank, shape, overflow or null_data: the message contains
///                         the field, its value and the fix
/// \throws std::bad_alloc  when the allocation fails
[[nodiscard]] inline managed_tensor from_dlpack(DLManagedTensor* raw, flags assumed = flags::read_only,
                                                std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::from_dlpack";
    if (raw == nullptr)
        detail::fail(errc::null_struct, api, message{"the DLManagedTensor* is null: pass a struct"}, where);
    detail::legacy_owner owner{raw};
    ferry::validate(raw->dl_tensor, assumed, api, where);
    return make_managed(std::move(owner), tensor_view{raw->dl_tensor, assumed}, assumed, version::current, where);
}

/// Releases ownership as a legacy struct (R8). Makes one allocation. On failure the object is unchanged.
///
/// \param where  source location for errors
/// \return       struct that owns the tensor; the caller must call its deleter once
/// \throws error           errc::read_only for read-only data (R15); errc::flags for padded elements (R13);
///                         errc::consumed when empty
/// \throws std::bad_alloc  when the allocation fails
inline DLManagedTensor* managed_tensor::release_legacy(std::source_location where) {
    constexpr auto api = "ferry::managed_tensor::release_legacy";
    if (raw_ == nullptr)
        detail::fail(errc::consumed, api, message{"the managed_tensor is empty: it was moved from or released"}, where);
    detail::check_legacy_flags(view_, api, where);
    tensor_view const v = view_;
    return detail::make_raw<DLManagedTensor>(
        std::move(*this), [v](auto&) { return v; }, v.device(), v.flags(), version::legacy, api, where);
}

}  // namespace ferry::inline v0
