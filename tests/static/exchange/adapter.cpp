// Valid and invalid adapters, in different forms.
#include <ferry/exchange/from_dlpack.hpp>

#include <source_location>
#include <type_traits>

namespace {

using ferry::array_traits;
using ferry::data_type;
using ferry::device;
using ferry::managed_tensor;
using ferry::shape_view;
using ferry::stream_token;
using ferry::tensor_view;

struct base {};
struct derived : base {};
struct whole {};
struct generic {};
struct forwarding {};
struct function_objects {};
struct overloaded {};
struct further_arguments {};
struct inheriting : base {};
struct by_value {};
struct by_value_generic {};
struct by_value_object {};
struct member_behind_by_value {
    tensor_view ferry_view();
};
struct by_const_reference {};
struct by_const_reference_generic {};
struct by_lvalue {};

struct adopts_as_object {
    further_arguments operator()(managed_tensor) const;
};

}  // namespace

template <>
struct ferry::array_traits<whole> {
    static tensor_view view(whole&) noexcept;
    static tensor_view view(whole const&) noexcept;
    static whole share(whole const&) noexcept;
    static whole adopt(managed_tensor) noexcept;
    static whole allocate(data_type, shape_view, ferry::device) noexcept;
    static stream_token ready_on(whole const&) noexcept;
    static stream_token current_stream(ferry::device) noexcept;
    static ferry::device device(whole const&) noexcept;
    static constexpr bool owns = true;
};
template <>
struct ferry::array_traits<generic> {
    static tensor_view view(auto& a);
    static auto share(auto const& a) { return a; }
    template <class M>
        requires std::is_same_v<M, managed_tensor>
    static generic adopt(M);
    template <class... A>
    static generic allocate(A const&...);
    static stream_token ready_on(auto const&);
    static stream_token current_stream(auto);
};
template <>
struct ferry::array_traits<forwarding> {
    static tensor_view view(auto&& a);
    static forwarding share(auto&& a);
    static forwarding adopt(auto&& m);
    static forwarding allocate(auto&&...);
    static stream_token ready_on(auto&&);
    static stream_token current_stream(auto&&);
};
template <>
struct ferry::array_traits<function_objects> {
    static constexpr auto view = [](function_objects const&) -> tensor_view { return {}; };
    static constexpr auto share = [](function_objects const& a) { return a; };
    static constexpr auto adopt = [](managed_tensor) { return function_objects{}; };
    static constexpr auto allocate = [](data_type, shape_view, device) { return function_objects{}; };
    static constexpr auto ready_on = [](function_objects const&) { return ferry::already_ready; };
    static constexpr auto current_stream = [](device) { return stream_token{}; };
};
template <>
struct ferry::array_traits<overloaded> {
    static tensor_view view(overloaded&);
    static tensor_view view(overloaded const&);
    static tensor_view view(int);
    static overloaded share(overloaded const&);
    static overloaded share(overloaded&&);
    static overloaded adopt(managed_tensor&&);
    static overloaded adopt(managed_tensor const&);  // not called by ferry, which passes an rvalue
    static overloaded allocate(data_type, shape_view, device);
    static overloaded allocate(std::size_t);
    static stream_token ready_on(overloaded const&);
    static stream_token ready_on(overloaded&);
    static stream_token current_stream(device);
    static stream_token current_stream();
};
template <>
struct ferry::array_traits<further_arguments> {
    static tensor_view view(further_arguments const&, int = 0);
    static further_arguments share(further_arguments, int = 0);
    static constexpr adopts_as_object adopt{};
    static further_arguments allocate(data_type, shape_view, device, std::size_t alignment = 64);
    static stream_token ready_on(further_arguments const&, int = 0);
    static stream_token current_stream(device, int = 0);
};
template <>
struct ferry::array_traits<base> {
    static tensor_view view(base const&);
    static base share(base const&);
    static bool const owns = false;
};
template <>
struct ferry::array_traits<derived> : array_traits<base> {};
template <>
struct ferry::array_traits<inheriting> : array_traits<base> {
    static inheriting adopt(managed_tensor, std::source_location = std::source_location::current());
};
template <>
struct ferry::array_traits<by_value> {
    static tensor_view view(by_value);
};
template <>
struct ferry::array_traits<by_value_generic> {
    static tensor_view view(auto a);
};
template <>
struct ferry::array_traits<by_value_object> {
    static constexpr auto view = [](by_value_object) -> tensor_view { return {}; };
};
template <>
struct ferry::array_traits<member_behind_by_value> {
    static tensor_view view(member_behind_by_value);
};
template <>
struct ferry::array_traits<by_const_reference> {
    static by_const_reference adopt(managed_tensor const&);
};
template <>
struct ferry::array_traits<by_const_reference_generic> {
    static by_const_reference_generic adopt(auto const&);
};
template <>
struct ferry::array_traits<by_lvalue> {
    static by_lvalue adopt(managed_tensor&);
};

namespace {

template <class T>
constexpr bool is_whole =
    ferry::viewable<T> && ferry::viewable<T const> && ferry::shareable<T> && ferry::adopting<T> &&
    ferry::allocates<T> && ferry::has_ready_on<T> && ferry::has_current_stream<T> &&
    ferry::detail::is_adapted<T>() && ferry::detail::is_adapted<T const>() && ferry::detail::is_consumer<T>();

// ---- valid adapters ----
static_assert(is_whole<whole>);
static_assert(ferry::has_device<whole> && ferry::has_device<whole const> && !ferry::has_device<generic>);
static_assert(is_whole<generic>);
static_assert(is_whole<forwarding>);
static_assert(is_whole<function_objects>);
static_assert(is_whole<overloaded>);
static_assert(is_whole<further_arguments>);
static_assert(ferry::detail::is_adapted<derived>() && ferry::shareable<derived>);
static_assert(ferry::non_owning<derived> && ferry::non_owning<inheriting> && !ferry::non_owning<whole>);
static_assert(ferry::detail::is_adapted<inheriting>() && ferry::detail::is_consumer<inheriting>());

// ---- view by value: the extents would be destroyed ----
static_assert(!ferry::viewable<by_value> && !ferry::viewable<by_value_generic> && !ferry::viewable<by_value_object>);
static_assert(ferry::detail::declares_view<member_behind_by_value> && !ferry::has_traits_view<member_behind_by_value>);

// ---- adopt by reference: the tensor would be destroyed after the call ----
static_assert(!ferry::adopting<by_const_reference> && !ferry::adopting<by_const_reference_generic> &&
              !ferry::adopting<by_lvalue>);

}  // namespace
