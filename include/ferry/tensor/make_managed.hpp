// ferry: creates a managed_tensor from an owner and a view of its memory, in one allocation.
#pragma once

#include <ferry/tensor/managed.hpp>

#include <span>  // the cheapest header that declares std::ranges::enable_borrowed_range; typed_view.hpp includes it

namespace FERRY_NAMESPACE {
namespace detail {

/// An iterator, or a std::reference_wrapper. The object need not be copyable. `*t` is last, because it is an error, not
/// false, for owners such as std::unique_ptr<void, D>.
template <class T>
concept refers_to_element = requires(T& t) {
    t++;
    { ++t } -> std::same_as<T&>;
    *t;
} || (std::is_trivially_destructible_v<T> && requires(T& t) {
    { t.get() } -> std::same_as<typename T::type&>;
});

/// Pointers, numbers and views, whose destructors release no memory. A class that contains one may be an owner.
template <class T>
inline constexpr bool owns_nothing =
    std::is_scalar_v<std::decay_t<T>> || std::ranges::enable_borrowed_range<T> || refers_to_element<T>;
template <class T>
inline constexpr bool owns_nothing<std::initializer_list<T>> = true;
template <>
inline constexpr bool owns_nothing<tensor_view> = true;
template <int MaxRank>
inline constexpr bool owns_nothing<inplace_view<MaxRank>> = true;
template <class T, int Rank, access_from Access, layout Layout>
inline constexpr bool owns_nothing<typed_view<T, Rank, Access, Layout>> = true;

/// An rvalue that can be moved into a tensor. The object need not provide a view.
template <class Owner>
concept movable_owner = std::move_constructible<Owner> && !std::is_lvalue_reference_v<Owner> &&
                        !std::is_const_v<Owner> && !owns_nothing<Owner>;

/// A function that returns a view of an owner: a tensor_view or an inplace_view, or a result that contains one. It need
/// not be noexcept.
template <class F, class Owner>
concept view_function = requires(F& f, Owner& owner) {
    requires std::convertible_to<value_of<decltype(f(owner))>, tensor_view const&>;
};

/// Implements make_managed and try_make_managed; returns an empty object on failure.
template <class Owner, class ViewOf>
    requires view_function<ViewOf, Owner>
[[nodiscard]] FERRY_ALWAYS_INLINE managed_tensor own(Owner&& owner, ViewOf view_at, flags bits, version max_version,
                                                     reporter r) {
    auto const described = view_at(owner);
    if (!check_result(described, r)) return {};
    tensor_view const& v = unwrapped(described);
    return trusted::adopt(make_raw<DLManagedTensorVersioned>(std::move(owner), std::move(view_at), v.device(),
                                                             (v.flags() & ~flags::is_copied) | bits, max_version, r));
}
template <class Owner>
[[nodiscard]] FERRY_ALWAYS_INLINE managed_tensor own(Owner&& owner, tensor_view const& view, flags bits,
                                                     version max_version, reporter r) {
    tensor_view const v = view;  // `view` may be a member of the owner
    return trusted::adopt(make_checked_raw<DLManagedTensorVersioned>(
        std::move(owner), fixed_view{v}, v, v.device(), (v.flags() & ~flags::is_copied) | bits, max_version, r));
}

}  // namespace detail

/// Creates a tensor from an owner: a movable object whose destructor releases the memory, such as an array, a
/// std::shared_ptr, a std::unique_ptr or an intrusive pointer. Passing a pointer, an iterator, a number or a view,
/// which owns no memory, does not compile.
///
/// Makes one allocation, for the struct, owner, shape and strides (D1). Does not synchronise. An exception before the
/// move leaves `owner` unchanged; if an exception is thrown after the move, the moved owner is destroyed.
///
/// \param owner        owner; moved into the tensor
/// \param view_at      function that returns the view of an owner, or a result that contains the view. It is called
///                     before and after the move, so that elements may be stored in the owner.
/// \param bits         flags to add to the flags of the view; flags::is_copied of the view is ignored; pass
///                     flags::is_copied if the memory is new (R12)
/// \param max_version  newest version that the consumer supports (R4)
/// \return             tensor; `try_make_managed` returns the tensor or the error, which is errc::out_of_memory for
///                     std::bad_alloc
/// \throws error           errc::argument when the move changes the shape, strides, data type, device or flags of the
///                         view, or leaves the elements in the moved-from object; errc::strides when the number of
///                         strides differs from the rank; errors of `validate` and of `view_at`
/// \throws std::bad_alloc  when the allocation fails
#if FERRY_HAS_EXCEPTIONS
template <detail::movable_owner Owner, detail::view_function<Owner> ViewOf>
[[nodiscard]] managed_tensor make_managed(Owner&& owner, ViewOf view_at, flags bits = flags::none,
                                          version max_version = version::current,
                                          std::source_location where = std::source_location::current()) {
    return detail::own(std::move(owner), std::move(view_at), bits, max_version, {"ferry::make_managed", where});
}
#endif
template <detail::movable_owner Owner, detail::view_function<Owner> ViewOf>
[[nodiscard]] result<managed_tensor> try_make_managed(Owner&& owner, ViewOf view_at, flags bits = flags::none,
                                                      version max_version = version::current,
                                                      std::source_location where = std::source_location::current()) {
    return detail::attempt<managed_tensor>("ferry::make_managed", where, [&](detail::reporter r) {
        return detail::own(std::move(owner), std::move(view_at), bits, max_version, r);
    });
}

/// Overload for an owner whose elements keep their address when the owner is moved.
///
/// \param owner        owner; moved into the tensor; unchanged on failure, unless its move fails
/// \param view         view of the elements; extents and strides must remain valid during the call
/// \param bits         flags to add to the flags of the view; flags::is_copied of the view is ignored
/// \param max_version  newest version that the consumer supports (R4)
/// \return             tensor; `try_make_managed` returns the tensor or the error, which is errc::out_of_memory for
///                     std::bad_alloc
/// \throws error           errc::argument when the elements are in the owner; errc::strides when the number of strides
///                         differs from the rank; errors of `validate`
/// \throws std::bad_alloc  when the allocation fails
#if FERRY_HAS_EXCEPTIONS
template <detail::movable_owner Owner>
[[nodiscard]] managed_tensor make_managed(Owner&& owner, tensor_view const& view, flags bits = flags::none,
                                          version max_version = version::current,
                                          std::source_location where = std::source_location::current()) {
    return detail::own(std::move(owner), view, bits, max_version, {"ferry::make_managed", where});
}
#endif
template <detail::movable_owner Owner>
[[nodiscard]] result<managed_tensor> try_make_managed(Owner&& owner, tensor_view const& view, flags bits = flags::none,
                                                      version max_version = version::current,
                                                      std::source_location where = std::source_location::current()) {
    return detail::attempt<managed_tensor>("ferry::make_managed", where, [&](detail::reporter r) {
        return detail::own(std::move(owner), view, bits, max_version, r);
    });
}

/// Overload for typed views of host memory, such as the result of `slice`. The device of the tensor is the CPU, because
/// a typed view does not store its device, and no work may be pending on the memory.
///
/// \param owner        owner, whose elements keep their address when the owner is moved
/// \param view         typed view of the elements; the tensor is read-only if T is const (R11)
/// \param bits         flags to add to the flags of the view
/// \param max_version  newest version that the consumer supports (R4)
/// \return             tensor; `try_make_managed` returns the tensor or the error
/// \throws error           errors of the overload for tensor_view
/// \throws std::bad_alloc  when the allocation fails
#if FERRY_HAS_EXCEPTIONS
template <detail::movable_owner Owner, element T, int Rank, layout Layout>
[[nodiscard]] managed_tensor make_managed(Owner&& owner, typed_view<T, Rank, access_from::host, Layout> const& view,
                                          flags bits = flags::none, version max_version = version::current,
                                          std::source_location where = std::source_location::current()) {
    return make_managed(std::move(owner), detail::untyped(view), bits, max_version, where);
}
#endif
template <detail::movable_owner Owner, element T, int Rank, layout Layout>
[[nodiscard]] result<managed_tensor> try_make_managed(Owner&& owner,
                                                      typed_view<T, Rank, access_from::host, Layout> const& view,
                                                      flags bits = flags::none, version max_version = version::current,
                                                      std::source_location where = std::source_location::current()) {
    return try_make_managed(std::move(owner), detail::untyped(view), bits, max_version, where);
}

// Without the default of View, these overloads would not be selected for a view in braces.
// clang-format off
FERRY_DELETED_BOTH(make_managed, try_make_managed, (Owner&, View&&, Rest&&...), "the tensor takes ownership: pass std::move(owner), or a copy",
    template <class Owner, class View = tensor_view, class... Rest>
        requires(!detail::owns_nothing<std::remove_cv_t<Owner>>));
FERRY_DELETED_BOTH(make_managed, try_make_managed, (Owner&&, typed_view<T, Rank, access_from::device, Layout> const&, Rest&&...), "a view with access_from::device does not store its device: pass the tensor_view from which it was made",
    template <detail::movable_owner Owner, class T, int Rank, layout Layout, class... Rest>);
FERRY_DELETED_BOTH(make_managed, try_make_managed, (Other&&, View&&, Rest&&...), "pointers, numbers and views own no memory: pass the owner, such as a std::shared_ptr, or call ferry::borrow(view); for memory that outlives the tensor, pass an object of an empty class",
    template <class Other, class View = tensor_view, class... Rest>
        requires detail::owns_nothing<std::remove_cvref_t<Other>>);
FERRY_DELETED_BOTH(make_managed, try_make_managed, (Owner&&, Other&&, Rest&&...), "the function must return a view of the owner: pass a lambda, not a pointer to a member, that returns a ferry::tensor_view or a ferry::inplace_view<N>",
    template <detail::movable_owner Owner, class Other, class... Rest>
        requires(std::invocable<Other&, Owner&> && !detail::view_function<Other, Owner> &&
                 !std::convertible_to<Other, tensor_view const&>));
// clang-format on

}  // namespace FERRY_NAMESPACE
