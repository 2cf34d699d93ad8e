// ferry: DLPack structs that borrow a tensor for the duration of a call.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/view.hpp>

#include <cstdint>
#include <source_location>

namespace ferry::inline v0 {

/// A DLPack struct that references a tensor for the duration of a function call.
///
/// Owns nothing; the deleter of the struct is NULL (R5). The function must not store the struct. Cannot be copied,
/// moved or released. Does not allocate (D1).
class borrowed_tensor {
   public:
    /// Maximum rank, the same as NumPy's. Extents and strides are stored in the object.
    static constexpr int max_rank = 64;

    /// Validates a view, and copies its extents and strides.
    ///
    /// \param v      view; its data must outlive this object
    /// \param where  source location for errors
    /// \throws error  errc::rank for more than max_rank dimensions; errc::strides when the number of strides is not the
    ///                rank; errors of `validate`
    explicit borrowed_tensor(tensor_view const& v, std::source_location where = std::source_location::current()) {
        constexpr auto api = "ferry::borrow";
        detail::validate_view(v, api, where);
        if (v.rank() > max_rank)
            detail::fail(errc::rank, api,
                         message{"the rank is "} << v.rank() << ", expected at most " << max_rank
                                            << ": export the tensor with to_dlpack",
                         where);
        bool const empty = detail::write_layout(v, metadata_);
        detail::write_tensor(v, v.device(), empty, metadata_, raw_.dl_tensor);
        auto const bits = known(v.flags()) & ~flags::is_copied;  // the consumer is not the sole owner (R12)
        auto const stamp = detail::stamp_for(v.dtype(), bits, version::current);
        raw_.version = {stamp.major, stamp.minor};
        raw_.flags = static_cast<std::uint64_t>(bits);
    }
    borrowed_tensor(borrowed_tensor const&) = delete;
    borrowed_tensor& operator=(borrowed_tensor const&) = delete;

    /// Returns the struct for functions that take a DLTensor. It has no flags: check `view().is_read_only()` before a
    /// call that writes the data (R75).
    ///
    /// \return  struct; valid while this object exists
    [[nodiscard]] DLTensor const* dltensor() const& noexcept { return &raw_.dl_tensor; }
    /// Returns the struct for functions that take a versioned struct and do not store it.
    ///
    /// \return  struct, whose deleter is NULL (R5); valid while this object exists
    [[nodiscard]] DLManagedTensorVersioned const* get() const& noexcept { return &raw_; }
    /// Returns a view of the tensor, which is valid while this object exists.
    [[nodiscard]] tensor_view view() const& noexcept { return {raw_.dl_tensor, flags{raw_.flags}}; }

    DLTensor const* dltensor() const&& FERRY_DELETED("the struct is destroyed at the end of the expression: store the borrowed_tensor in a variable");
    // clang-format off
    DLManagedTensorVersioned const* get() const&& FERRY_DELETED("the struct is destroyed at the end of the expression: store the borrowed_tensor in a variable");
    // clang-format on
    tensor_view view() const&& FERRY_DELETED("the struct is destroyed at the end of the expression: store the borrowed_tensor in a variable");

   private:
    DLManagedTensorVersioned raw_{};
    std::int64_t metadata_[2 * max_rank];  // uninitialised, since only 2 · rank values are used
};

}  // namespace ferry::inline v0
