// ferry: DLPack structs that borrow a tensor for the duration of a call.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/config.hpp>
#include <ferry/exchange/detail/adapter.hpp>
#include <ferry/exchange/producer.hpp>
#include <ferry/fwd.hpp>
#include <ferry/tensor/detail/make_raw.hpp>
#include <ferry/tensor/managed.hpp>
#include <ferry/tensor/view.hpp>

#include <concepts>
#include <cstdint>
#include <source_location>
#include <type_traits>

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

    /// Returns the struct for functions that may write the data: a DLTensor has no flags (R75).
    ///
    /// \param where  source location for errors
    /// \return       struct; valid while this object exists
    /// \throws error  errc::read_only when the data is read-only (R11)
    [[nodiscard]] DLTensor* dltensor(std::source_location where = std::source_location::current()) & {
        if (view().is_read_only())  // mutant: r11_borrowed_pointer
            detail::fail(errc::read_only, "ferry::borrowed_tensor::dltensor",
                         message{"the data is read-only, and a DLTensor* has no flag for it: borrow a writable array, "
                                 "or call dltensor() of a const borrowed_tensor, which returns a DLTensor const*"},
                         where);
        return &raw_.dl_tensor;
    }
    /// Returns the struct for functions that only read the data.
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

/// Exports a view for the duration of a call, without an allocation and without ownership. Copies the extents and
/// strides, so that the view may be a temporary.
///
/// \param view   view; its data must outlive the result
/// \param where  source location for errors
/// \return       struct that borrows the data
/// \throws error  errors of borrowed_tensor
[[nodiscard]] inline borrowed_tensor borrow(tensor_view const& view,
                                            std::source_location where = std::source_location::current()) {
    return borrowed_tensor{view, where};
}

/// Exports a tensor that the caller keeps, for the duration of a call. Temporaries do not compile.
///
/// \param tensor  tensor; must outlive the result
/// \param where   source location for errors
/// \return        struct that borrows the tensor
/// \throws error  errc::consumed when `tensor` is empty; errc::rank for more than borrowed_tensor::max_rank dimensions
[[nodiscard]] inline borrowed_tensor borrow(managed_tensor const& tensor,
                                            std::source_location where = std::source_location::current()) {
    detail::require_tensor(tensor, "ferry::borrow", where);
    return borrowed_tensor{tensor.view(), where};
}

/// Exports an array for the duration of a call, without an allocation and without ownership.
///
/// A temporary compiles only if its elements belong to another object (array_traits<T>::owns is false), such as a slice
/// of a typed_view: its extents and strides are copied.
///
/// \param array  array; must outlive the result. The elements of a temporary must outlive the result.
/// \param where  source location for errors
/// \return       struct that borrows the array
/// \throws error  errc::rank for more than borrowed_tensor::max_rank dimensions; errc::strides when the number of
///                strides is not the rank; errors of `validate`
template <class Array>
    requires(detail::has_adapter<Array> && !detail::has_own_exports<std::remove_cvref_t<Array>> &&
             (std::is_lvalue_reference_v<Array> || non_owning<Array>))
[[nodiscard]] borrowed_tensor borrow(Array&& array, std::source_location where = std::source_location::current()) {
    static_assert(detail::is_adapted<std::remove_reference_t<Array>>());
    return borrowed_tensor{view_of(array), where};
}
// clang-format off
template <class Array>
    requires(!std::is_lvalue_reference_v<Array> && !non_owning<Array> && !std::derived_from<Array, tensor_view> &&
             (detail::has_adapter<Array> || detail::has_own_exports<std::remove_cv_t<Array>>))
void borrow(Array&&) FERRY_DELETED("the borrowed_tensor would outlive the temporary array: store the array in a variable, or pass it to to_dlpack");
template <class Other>
    requires(!detail::has_adapter<Other> && !detail::has_own_exports<std::remove_cvref_t<Other>>)
void borrow(Other&&) FERRY_DELETED("unknown array type: specialise ferry::array_traits<T> with static tensor_view view(T&), or give T a member ferry_view()");
// clang-format on

}  // namespace ferry::inline v0
