// ferry: a tensor lent for the length of a call, without an allocation.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/view.hpp>

#include <cstdint>
#include <source_location>

namespace ferry::inline v0 {

/// A DLPack struct that lends somebody's tensor to a callee. It owns nothing and has no deleter (R5), so the callee
/// must not keep it: the object stays where it was made, cannot be moved or released, and allocates nothing (D1).
class borrowed_tensor {
   public:
    /// Tensors of more dimensions are refused: extents and strides live in the object. NumPy's limit.
    static constexpr int max_rank = 64;

    /// \throws error  errc::rank above max_rank; what `validate` finds
    explicit borrowed_tensor(tensor_view const& v, std::source_location where = std::source_location::current()) {
        constexpr auto api = "ferry::borrow";
        detail::validate_view(v, api, where);
        if (v.rank() > max_rank)
            detail::fail(errc::rank, api,
                         message{"rank "} << v.rank() << " is more than " << max_rank << ": export it with to_dlpack",
                         where);
        bool const empty = detail::write_layout(v, metadata_);
        detail::write_tensor(v, v.device(), empty, metadata_, raw_.dl_tensor);
        auto const bits = known(v.flags()) & ~flags::is_copied;  // the owner keeps it (R12)
        auto const stamp = detail::stamp_for(v.dtype(), bits, version::current);
        raw_.version = {stamp.major, stamp.minor};
        raw_.flags = static_cast<std::uint64_t>(bits);
    }
    borrowed_tensor(borrowed_tensor const&) = delete;
    borrowed_tensor& operator=(borrowed_tensor const&) = delete;

    /// For callees that take a DLTensor; it cannot carry READ_ONLY, so look at `view()` before you let them write
    /// (R75).
    [[nodiscard]] DLTensor const* dltensor() const& noexcept { return &raw_.dl_tensor; }
    /// For callees that take the versioned struct and return before the call ends; its deleter is NULL (R5).
    [[nodiscard]] DLManagedTensorVersioned const* get() const& noexcept { return &raw_; }
    [[nodiscard]] tensor_view view() const& noexcept { return {raw_.dl_tensor, flags{raw_.flags}}; }

    DLTensor const* dltensor() const&& FERRY_DELETED("the loan ends with the expression: keep it in a variable");
    // clang-format off
    DLManagedTensorVersioned const* get() const&& FERRY_DELETED("the loan ends with the expression: keep it in a variable");
    // clang-format on
    tensor_view view() const&& FERRY_DELETED("the loan ends with the expression: keep it in a variable");

   private:
    DLManagedTensorVersioned raw_{};
    std::int64_t metadata_[2 * max_rank];  // no initialiser: only 2 · rank values are ever used
};

}  // namespace ferry::inline v0
