#include <ferry/exchange/borrow.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/tensor/inplace_view.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>

using ferry::borrowed_tensor;
using ferry::managed_tensor;
using ferry::tensor_view;

static_assert(std::movable<managed_tensor> && std::default_initializable<managed_tensor>);
static_assert(std::is_nothrow_move_constructible_v<managed_tensor> &&
              std::is_nothrow_move_assignable_v<managed_tensor>);
static_assert(std::is_nothrow_swappable_v<managed_tensor> && std::is_nothrow_destructible_v<managed_tensor>);
static_assert(!std::is_copy_constructible_v<managed_tensor> && !std::is_copy_assignable_v<managed_tensor>);
static_assert(!std::is_constructible_v<managed_tensor, DLManagedTensorVersioned*>, "nothing comes in unchecked");
static_assert(!std::is_convertible_v<managed_tensor, bool> && std::is_constructible_v<bool, managed_tensor>);

static_assert(!std::is_move_constructible_v<borrowed_tensor> && !std::is_copy_constructible_v<borrowed_tensor>);
static_assert(!std::is_move_assignable_v<borrowed_tensor> && !std::is_copy_assignable_v<borrowed_tensor>);
static_assert(!std::is_convertible_v<tensor_view, borrowed_tensor> &&
              std::is_constructible_v<borrowed_tensor, tensor_view>);

namespace {

template <class T>
concept has_view = requires(T&& t) { std::forward<T>(t).view(); };
template <class T>
concept has_typed_view = requires(T&& t) { std::forward<T>(t).template as<float, 2>(); };
template <class T>
concept has_located_views = requires(T&& t, std::source_location where) {
    std::forward<T>(t).view(where);
    std::forward<T>(t).try_view(where);
    std::forward<T>(t).template as<float, 2>(where);
    std::forward<T>(t).template try_as<float, 2>(where);
};
template <class T>
concept has_one_located_view =
    requires(T&& t, std::source_location where) { std::forward<T>(t).view(where); } ||
    requires(T&& t, std::source_location where) { std::forward<T>(t).try_view(where); } ||
    requires(T&& t, std::source_location where) { std::forward<T>(t).template as<float, 2>(where); } ||
    requires(T&& t, std::source_location where) { std::forward<T>(t).template try_as<float, 2>(where); };
static_assert(has_located_views<managed_tensor&> && !has_one_located_view<managed_tensor>);
template <class T>
concept has_dltensor = requires(T&& t) { std::forward<T>(t).dltensor(); };
template <class T>
concept has_get = requires(T&& t) { std::forward<T>(t).get(); };
template <class Owner, class View>
concept managed_by = requires(Owner&& o, View v) { ferry::make_managed(std::forward<Owner>(o), v); };
struct raw_handle {
    int id;
    float* data;
};
struct view_with_owner : ferry::inplace_view<1> {
    std::shared_ptr<float[]> owner;
};
struct size_of_handle {
    int operator()(raw_handle&) const;
};
static_assert(!managed_by<raw_handle, size_of_handle>, "the function must return a view");

struct immovable {
    immovable(immovable&&) = delete;
};
struct lambda_of_pointer {
    tensor_view operator()(std::unique_ptr<float[]>&) const;
};

}  // namespace

// R7: a view of a temporary does not compile.
static_assert(has_view<managed_tensor&> && has_view<managed_tensor const&> && !has_view<managed_tensor> &&
              !has_view<managed_tensor const>);
static_assert(has_get<managed_tensor&> && has_get<managed_tensor const&> && !has_get<managed_tensor> &&
              !has_get<managed_tensor const>);
static_assert(has_typed_view<managed_tensor&> && !has_typed_view<managed_tensor> &&
              !has_typed_view<managed_tensor const>);
static_assert(has_view<borrowed_tensor const&> && !has_view<borrowed_tensor>);
static_assert(has_dltensor<borrowed_tensor const&> && !has_dltensor<borrowed_tensor>);
static_assert(has_get<borrowed_tensor const&> && !has_get<borrowed_tensor>);

// Owners are moved, not copied.
static_assert(managed_by<std::unique_ptr<float[]>, tensor_view> &&
              managed_by<std::unique_ptr<float[]>, lambda_of_pointer>);
static_assert(managed_by<managed_tensor, tensor_view> && managed_by<std::shared_ptr<void>, tensor_view>);
// Classes may own memory; pointers, numbers and views do not.
static_assert(managed_by<raw_handle, tensor_view> && managed_by<view_with_owner, tensor_view>);
static_assert(!managed_by<float*, tensor_view> && !managed_by<float (&)[2], tensor_view> &&
              !managed_by<std::nullptr_t, tensor_view> && !managed_by<int, tensor_view> &&
              !managed_by<tensor_view, tensor_view> && !managed_by<ferry::inplace_view<1>, tensor_view> &&
              !managed_by<ferry::typed_view<float, 2>, tensor_view> && !managed_by<std::span<float>, tensor_view>);
static_assert(!managed_by<std::unique_ptr<float[]>&, tensor_view> &&
              !managed_by<std::shared_ptr<float[]>&, tensor_view>);
static_assert(!managed_by<immovable, tensor_view>);
static_assert(!managed_by<std::unique_ptr<int>, lambda_of_pointer>);

// A class with operator* or get() may be an owner.
template <class Owner>
concept owned = requires(Owner&& owner, tensor_view const& v) { ferry::make_managed(std::move(owner), v); };
struct handle {
    using type = float;
    float& operator*() const;
    float& get() const;
    ~handle();
};
static_assert(owned<std::unique_ptr<float[]>> && owned<std::shared_ptr<float>> && owned<handle>);
static_assert(owned<std::unique_ptr<void, void (*)(void*)>>, "whose operator* does not compile");
struct converted {
    operator float*&();
    ~converted();
};
static_assert(owned<converted>, "++ increments the result of a conversion");
static_assert(!owned<std::reference_wrapper<handle>> && !owned<std::span<float>::iterator> && !owned<float*>);
