// ferry: DLPack structs that borrow a tensor for the duration of a call.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/exchange/producer.hpp>
#include <ferry/tensor/detail/make_raw.hpp>

#include <cstdint>

namespace FERRY_NAMESPACE {

namespace detail {

/// Constructor tag: `check_borrow` has checked the view.
struct checked_by_borrow {
    explicit checked_by_borrow() = default;
};

/// Validates a view, and checks that its extents and strides fit in a borrowed_tensor.
[[nodiscard]] inline bool check_borrow(tensor_view const& v, reporter r);

}  // namespace detail

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
    /// \throws error  errc::rank for more than max_rank dimensions; errc::strides when the number of strides differs
    ///                from the rank; errors of `validate`
#if FERRY_HAS_EXCEPTIONS
    explicit borrowed_tensor(tensor_view const& v, std::source_location where = std::source_location::current())
        : borrowed_tensor{(static_cast<void>(detail::check_borrow(v, {"ferry::borrow", where})), v),
                          detail::checked_by_borrow{}} {}
#endif
    /// Copies the extents and strides of a view; called by `try_borrow`.
    ///
    /// \param v  view that `try_borrow` has checked; its data must outlive this object
    borrowed_tensor(tensor_view const& v, detail::checked_by_borrow) noexcept {
        bool const empty = detail::write_layout(v, metadata_);
        detail::write_tensor(v, v.device(), empty, metadata_, raw_.dl_tensor);
        auto const bits = known(v.flags()) & ~flags::is_copied;  // the consumer is not the sole owner (R12)
        auto const stamp = detail::stamp_for(v.dtype(), bits, version::current);
        raw_.version = {stamp.major, stamp.minor};
        raw_.flags = static_cast<std::uint64_t>(bits);
    }
    borrowed_tensor(borrowed_tensor const&) = delete;
    borrowed_tensor& operator=(borrowed_tensor const&) = delete;

    /// Returns the struct for functions that may write the data. Fails for read-only data, because a DLTensor has no
    /// read-only flag (R75).
    ///
    /// \return       struct, valid while this object exists; `try_dltensor` returns the struct or the error
    /// \throws error  errc::read_only when the data is read-only (R11); errc::strides when the strides repeat elements
    ///                (R29)
#if FERRY_HAS_EXCEPTIONS
    [[nodiscard]] DLTensor* dltensor(std::source_location where = std::source_location::current()) & {
        static_cast<void>(check_writable({"ferry::borrowed_tensor::dltensor", where}));
        return &raw_.dl_tensor;
    }
#endif
    [[nodiscard]] result<DLTensor*> try_dltensor(std::source_location where = std::source_location::current()) & {
        detail::record to{"ferry::borrowed_tensor::dltensor", where};
        if (check_writable(to)) return &raw_.dl_tensor;
        return to.outcome.error();
    }
    /// Returns the struct for functions that only read the data.
    ///
    /// \return  struct; valid while this object exists
    [[nodiscard]] DLTensor const* dltensor() const& noexcept { return &raw_.dl_tensor; }
    /// Returns the struct for functions that take a versioned struct and do not store it.
    ///
    /// \return  struct, whose deleter is NULL (R5); valid while this object exists
    [[nodiscard]] DLManagedTensorVersioned const* get() const& noexcept { return &raw_; }
    /// Returns a view of the tensor; the view is valid while this object exists.
    [[nodiscard]] tensor_view view() const& noexcept { return {raw_.dl_tensor, flags{raw_.flags}}; }

    // clang-format off
    DLTensor const* dltensor() const&& FERRY_DELETED("the struct is destroyed at the end of the expression: store the borrowed_tensor in a variable");
    result<DLTensor*> try_dltensor() const&& FERRY_DELETED("the struct is destroyed at the end of the expression: store the borrowed_tensor in a variable");
    DLManagedTensorVersioned const* get() const&& FERRY_DELETED("the struct is destroyed at the end of the expression: store the borrowed_tensor in a variable");
    tensor_view view() const&& FERRY_DELETED("the struct is destroyed at the end of the expression: store the borrowed_tensor in a variable");
    // clang-format on

   private:
    [[nodiscard]] bool check_writable(detail::reporter r) const {
        auto const v = view();
        if (v.is_read_only())
            return report(r, errc::read_only,
                          "the data is read-only, and a DLTensor* has no flag for it: borrow a writable array, or call "
                          "dltensor() of a const borrowed_tensor, which returns a DLTensor const*");
        int const i = detail::repeated_dimension(v.shape(), v.strides());
        if (i >= 0)
            return detail::report_repetition(
                i,
                "borrow a compact array, or call dltensor() of a const borrowed_tensor, which returns a DLTensor const*",
                r);
        return true;
    }

    DLManagedTensorVersioned raw_{};
    std::int64_t metadata_[2 * max_rank];  // uninitialised, since only 2 · rank values are used
};

namespace detail {

inline bool check_borrow(tensor_view const& v, reporter r) {
    if (!check_view(v, r)) return false;
    if (v.rank() <= borrowed_tensor::max_rank) return true;
    return report(r, errc::rank,
                  message{"the rank is "} << v.rank() << ", expected at most " << borrowed_tensor::max_rank
                                          << ": export the tensor with to_dlpack");
}

/// Implements try_borrow.
[[nodiscard]] inline result<borrowed_tensor> try_borrow(tensor_view const& v, record& to) {
    if (!check_borrow(v, to)) return to.outcome.error();
    return result<borrowed_tensor>{std::in_place, v, checked_by_borrow{}};
}

}  // namespace detail

/// Exports a view for the duration of a call, without an allocation and without ownership. Copies the extents and
/// strides, so that the view may be a temporary.
///
/// \param view   view; its data must outlive the result
/// \return       struct that borrows the data; `try_borrow` returns the struct or the error
/// \throws error  errors of borrowed_tensor
#if FERRY_HAS_EXCEPTIONS
[[nodiscard]] inline borrowed_tensor borrow(tensor_view const& view,
                                            std::source_location where = std::source_location::current()) {
    return borrowed_tensor{view, where};
}
#endif
[[nodiscard]] inline result<borrowed_tensor> try_borrow(tensor_view const& view,
                                                        std::source_location where = std::source_location::current()) {
    detail::record to{"ferry::borrow", where};
    return detail::try_borrow(view, to);
}

/// Exports a tensor that the caller keeps, for the duration of a call. Passing a temporary does not compile.
///
/// \param tensor  tensor; must outlive the result
/// \return        struct that borrows the tensor; `try_borrow` returns the struct or the error
/// \throws error  errc::consumed when `tensor` is empty; errc::rank for more than borrowed_tensor::max_rank dimensions
#if FERRY_HAS_EXCEPTIONS
[[nodiscard]] inline borrowed_tensor borrow(managed_tensor const& tensor,
                                            std::source_location where = std::source_location::current()) {
    static_cast<void>(detail::check_not_empty(tensor, {"ferry::borrow", where}));
    return borrowed_tensor{detail::trusted::view(tensor), where};
}
#endif
[[nodiscard]] inline result<borrowed_tensor> try_borrow(managed_tensor const& tensor,
                                                        std::source_location where = std::source_location::current()) {
    detail::record to{"ferry::borrow", where};
    if (!detail::check_not_empty(tensor, to)) return to.outcome.error();
    return detail::try_borrow(detail::trusted::view(tensor), to);
}

/// Exports an array for the duration of a call, without an allocation and without ownership.
///
/// A temporary, such as a slice of a typed_view, can be passed only if its elements belong to another object
/// (array_traits<T>::owns is false). The extents and strides are copied.
///
/// \param array  lvalue that must outlive the result, or temporary whose elements must outlive the result
/// \return       struct that borrows the array; `try_borrow` returns the struct or the error
/// \throws error  errc::rank for more than borrowed_tensor::max_rank dimensions; errc::strides when the number of
///                strides differs from the rank; errors of `validate` and of the adapter
#if FERRY_HAS_EXCEPTIONS
template <class Array>
    requires(detail::has_adapter<Array> && !detail::has_own_exports<std::remove_cvref_t<Array>> &&
             (std::is_lvalue_reference_v<Array> || non_owning<Array>))
[[nodiscard]] borrowed_tensor borrow(Array&& array, std::source_location where = std::source_location::current()) {
    static_assert(detail::is_adapted<std::remove_reference_t<Array>>());
    return borrowed_tensor{view_of(array), where};
}
#endif
template <class Array>
    requires(detail::has_adapter<Array> && !detail::has_own_exports<std::remove_cvref_t<Array>> &&
             (std::is_lvalue_reference_v<Array> || non_owning<Array>))
[[nodiscard]] result<borrowed_tensor> try_borrow(Array&& array,
                                                 std::source_location where = std::source_location::current()) {
    static_assert(detail::is_adapted<std::remove_reference_t<Array>>());
    return detail::attempt<borrowed_tensor>("ferry::borrow", where, [&](detail::record& to) -> result<borrowed_tensor> {
        auto const described = detail::describe(array);
        if (!detail::check_result(described, to)) return to.outcome.error();
        return detail::try_borrow(detail::unwrapped(described), to);
    });
}
// clang-format off
FERRY_DELETED_BOTH(borrow, try_borrow, (Array&&), "the borrowed_tensor would outlive the temporary array: store the array in a variable, or pass it to to_dlpack",
    template <class Array>
        requires(!std::is_lvalue_reference_v<Array> && !non_owning<Array> && !std::derived_from<Array, tensor_view> &&
                 (detail::has_adapter<Array> || detail::has_own_exports<std::remove_cv_t<Array>>)));
FERRY_DELETED_BOTH(borrow, try_borrow, (View&&), "a view with access_from::device does not store its device: borrow the tensor from which it was made",
    template <class View> requires detail::is_device_view<std::remove_cvref_t<View>>);
FERRY_DELETED_BOTH(borrow, try_borrow, (Other&&, Rest&&...), "unknown array type: specialise ferry::array_traits<T> with static tensor_view view(T&), or give T a member ferry_view()",
    template <class Other, class... Rest> requires detail::is_unknown<Other>);
// clang-format on

}  // namespace FERRY_NAMESPACE
