// ferry: the unversioned struct of old producers and consumers, both ways (R8).
#pragma once

#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>

#include <source_location>
#include <utility>

namespace ferry::inline v0 {
namespace detail {

/// Owns a legacy struct.
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

/// What cannot be said without flags must not be dropped in silence (R13, R15).
inline void check_legacy_flags(tensor_view const& v, char const* api, std::source_location where) {
    if (v.is_read_only())
        fail(errc::read_only, api,
             message{
                 "the legacy struct cannot say that the data is read-only (R15): export a copy, or ask for version 1"},
             where);
    if (v.is_padded())
        fail(errc::flags, api,
             message{"the legacy struct cannot say that sub-byte elements are padded (R13): ask for version 1"}, where);
}

}  // namespace detail

/// Takes over a legacy tensor once all of it has been checked (R3, R16–R32). It has no flags, so the data counts as
/// read-only unless `assumed` says otherwise: only its producer's documentation can (R15).
///
/// Owns `raw` on success; on failure its deleter has run exactly once. One allocation. Does not synchronise.
/// \throws error  as from_dlpack for versioned structs;  std::bad_alloc
[[nodiscard]] inline managed_tensor from_dlpack(DLManagedTensor* raw, flags assumed = flags::read_only,
                                                std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::from_dlpack";
    if (raw == nullptr) detail::fail(errc::null_struct, api, message{"the DLManagedTensor* is null"}, where);
    detail::legacy_owner owner{raw};
    ferry::validate(raw->dl_tensor, assumed, api, where);
    return make_managed(std::move(owner), tensor_view{raw->dl_tensor, assumed}, assumed, version::current, where);
}

/// Owns `*this` on success and leaves it empty; on failure `*this` still holds the tensor. One allocation.
/// \throws error  errc::read_only, errc::flags: the legacy struct has no flags (R15);  errc::consumed when empty
inline DLManagedTensor* managed_tensor::release_legacy(std::source_location where) {
    constexpr auto api = "ferry::managed_tensor::release_legacy";
    if (raw_ == nullptr)
        detail::fail(errc::consumed, api, message{"it holds no tensor: it was moved from or released"}, where);
    detail::check_legacy_flags(view_, api, where);
    tensor_view const v = view_;
    return detail::make_raw<DLManagedTensor>(
        std::move(*this), [v](auto&) { return v; }, v.device(), v.flags(), version::legacy, api, where);
}

}  // namespace ferry::inline v0
