#include <ferry/exchange/borrow.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/to_host.hpp>
#include <ferry/tensor/inplace_view.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace {

using ferry::array_traits;
using ferry::managed_tensor;
using ferry::request;
using ferry::stream_token;
using ferry::tensor_view;

struct unknown {};
struct mutable_only {};
struct both {};
struct shares {};
struct shares_badly {};
struct streams {};
struct streams_by_number {};
struct adopts {};
struct adopts_another {};
struct adopts_told {};
struct adopts_told_another {};
struct adopts_told_by_const_reference {};
struct adopts_handle {};
struct fresh {};
struct fresh_elsewhere {};
struct fresh_on_stream {};
struct event {};
struct ahead {};
struct vectors {};
struct no_vectors {};
struct member {
    tensor_view ferry_view() const;
};
struct wrong_member {
    int ferry_view() const;
};
struct std_view {
    tensor_view view() const;  // not used by ferry (D12)
};
struct exports {
    managed_tensor ferry_export(request const&);
};
struct exports_result {
    ferry::result<managed_tensor> ferry_export(request const&);
};
struct results {};
struct results_of_others {};
struct member_result {
    ferry::result<ferry::inplace_view<2>> ferry_view() const;
};
struct exports_without_request {
    managed_tensor ferry_export();
};

}  // namespace

template <>
struct ferry::array_traits<mutable_only> {
    static tensor_view view(mutable_only&);
};
template <>
struct ferry::array_traits<both> {
    static tensor_view view(both&);
    static tensor_view view(both const&);
};
template <>
struct ferry::array_traits<shares> {
    static tensor_view view(shares const&);
    static shares share(shares const&);
};
template <>
struct ferry::array_traits<shares_badly> {
    static tensor_view view(shares_badly const&);
    static int share(shares_badly const&);
};
template <>
struct ferry::array_traits<streams> {
    static stream_token ready_on(streams const&);
    static stream_token current_stream(device);
};
template <>
struct ferry::array_traits<streams_by_number> {
    static long ready_on(streams_by_number const&);
    static void* current_stream(device);
};
template <>
struct ferry::array_traits<adopts> {
    static adopts adopt(managed_tensor);
};
template <>
struct ferry::array_traits<adopts_told> {
    static adopts_told adopt(managed_tensor, stream_token);
};
template <>
struct ferry::array_traits<adopts_told_another> {
    static adopts_told_another adopt(managed_tensor);
    static int adopt(managed_tensor, stream_token);
};
template <>
struct ferry::array_traits<adopts_told_by_const_reference> {
    static adopts_told_by_const_reference adopt(managed_tensor const&, stream_token);
};
template <>
struct ferry::array_traits<adopts_handle> {
    static adopts_handle adopt(managed_tensor, std::uintptr_t);
};
template <>
struct ferry::array_traits<adopts_another> {
    static int adopt(managed_tensor);
};
template <>
struct ferry::array_traits<fresh> {
    static tensor_view view(fresh const&);
    static fresh allocate(data_type, shape_view, device);
};
template <>
struct ferry::array_traits<fresh_on_stream> {
    static tensor_view view(fresh_on_stream const&);
    static fresh_on_stream allocate(data_type, shape_view, device, stream_token);
};
template <>
struct ferry::array_traits<ahead> {
    static event ready_on(ahead const&);
};
template <>
struct ferry::array_traits<fresh_elsewhere> {
    static tensor_view view(fresh_elsewhere const&);
    static int allocate(data_type, shape_view, device);
};
template <>
struct ferry::array_traits<results> {
    static result<tensor_view> view(results const&);
    static result<results> share(results const&);
    static result<results> adopt(managed_tensor&&, stream_token);
    static result<results> allocate(data_type, shape_view, device);
};
template <>
struct ferry::array_traits<results_of_others> {
    static result<tensor_view> view(results_of_others const&);
    static result<int> share(results_of_others const&);
    static result<results> adopt(managed_tensor);
    static result<int> allocate(data_type, shape_view, device);
};
template <>
struct ferry::array_traits<vectors> {
    static constexpr bool vector_elements = true, padded_elements = true;
};
template <>
struct ferry::array_traits<no_vectors> {
    static constexpr bool vector_elements = false, padded_elements = false;
};

namespace {

// ---- viewable: by traits, else by member ----
static_assert(ferry::has_traits_view<both> && ferry::has_traits_view<both const>);
static_assert(ferry::has_traits_view<mutable_only> && !ferry::viewable<mutable_only const>);
static_assert(!ferry::has_member_view<both>);
static_assert(ferry::has_member_view<member> && ferry::has_member_view<member const> &&
              !ferry::has_traits_view<member>);
static_assert(ferry::viewable<both> && ferry::viewable<member>);
static_assert(!ferry::viewable<unknown> && !ferry::viewable<wrong_member> && !ferry::viewable<std_view> &&
              !ferry::viewable<int>);
static_assert(!ferry::viewable<managed_tensor>);  // a tensor is not an array
static_assert(std::is_invocable_v<ferry::view_of_t, member&> && !std::is_invocable_v<ferry::view_of_t, member>);
static_assert(!std::is_invocable_v<ferry::view_of_t, unknown&> && !std::is_invocable_v<ferry::view_of_t, int>);
static_assert(std::is_invocable_v<ferry::device_of_t, member> && std::is_invocable_v<ferry::try_device_of_t, member const>);
static_assert(!std::is_invocable_v<ferry::device_of_t, unknown> && !std::is_invocable_v<ferry::try_device_of_t, int>);

// ---- optional members ----
static_assert(ferry::shareable<shares> && ferry::shareable<shares const>);
static_assert(!ferry::shareable<shares_badly> && !ferry::shareable<both> && !ferry::shareable<member>);
static_assert(ferry::has_ready_on<streams> && ferry::has_ready_on<streams const>);
static_assert(!ferry::has_ready_on<streams_by_number> && !ferry::has_ready_on<both>);
static_assert(ferry::has_current_stream<streams> && !ferry::has_current_stream<streams_by_number> &&
              !ferry::has_current_stream<managed_tensor>);
static_assert(ferry::allocates<fresh_on_stream> && ferry::allocates_with_stream<fresh_on_stream> &&
              !ferry::allocates_with_stream<fresh>);
static_assert(ferry::has_ready_event<ahead> && !ferry::has_ready_on<ahead> && !ferry::has_ready_event<streams> &&
              !ferry::has_ready_event<streams_by_number> && !ferry::has_ready_event<both>);
static_assert(ferry::allocates<fresh> && !ferry::allocates<fresh_elsewhere> && !ferry::allocates<both> &&
              !ferry::allocates<managed_tensor>);

// ---- members that return a result ----
static_assert(ferry::viewable<results> && ferry::shareable<results> && ferry::allocates<results>);
static_assert(ferry::adopting<results> && ferry::adopts_with_stream<results> && ferry::exporter<exports_result>);
static_assert(!ferry::shareable<results_of_others> && !ferry::allocates<results_of_others> &&
              !ferry::adopting<results_of_others>);
static_assert(ferry::viewable<member_result> && ferry::viewable<member_result const>);
static_assert(std::is_same_v<std::invoke_result_t<ferry::view_of_t, member_result&>, ferry::inplace_view<2>>);

// ---- exporter, producer ----
static_assert(ferry::exporter<exports> && !ferry::exporter<exports const>);
static_assert(!ferry::exporter<exports_without_request> && !ferry::exporter<member>);
static_assert(ferry::producer<both> && ferry::producer<both&> && ferry::producer<exports&> &&
              ferry::producer<member const&>);
static_assert(ferry::producer<managed_tensor> && !ferry::producer<managed_tensor&> && ferry::producer<DLManagedTensor*> &&
              ferry::producer<DLManagedTensorVersioned*&>);
// Const rvalues cannot be moved.
static_assert(!ferry::producer<managed_tensor const> && !ferry::producer<managed_tensor const&&> &&
              !ferry::producer<member const> && ferry::producer<DLManagedTensor* const>);
static_assert(!ferry::producer<unknown> && !ferry::producer<DLTensor*> && !ferry::producer<int>);

// ---- adopting, consumer ----
static_assert(ferry::adopting<adopts> && ferry::consumer<adopts> && !ferry::adopts_with_stream<adopts>);
static_assert(ferry::adopting<adopts_told> && ferry::consumer<adopts_told> && ferry::adopts_with_stream<adopts_told>);
static_assert(!ferry::adopts_with_stream<adopts_told_another>);
static_assert(!ferry::adopting<adopts_told_by_const_reference> && !ferry::adopting<adopts_handle>);
static_assert(!ferry::adopting<adopts_another> && !ferry::adopting<both>);
static_assert(ferry::consumer<managed_tensor> && !ferry::adopting<managed_tensor>);
static_assert(!ferry::consumer<unknown> && !ferry::consumer<adopts&>);
static_assert(ferry::accepts_vectors<vectors> && ferry::accepts_vectors<managed_tensor>);
static_assert(!ferry::accepts_vectors<no_vectors> && !ferry::accepts_vectors<adopts>);
static_assert(ferry::accepts_padded<vectors> && ferry::accepts_padded<managed_tensor>);
static_assert(!ferry::accepts_padded<no_vectors> && !ferry::accepts_padded<adopts>);

// ---- request: an aggregate whose order is frozen ----
static_assert(std::is_aggregate_v<request>);
constexpr request in_order{
    .device = ferry::cpu, .copy = ferry::copy_policy::never, .stream = stream_token::no_sync(), .max_version = {1, 0}};
constexpr request by_position{ferry::cpu, ferry::copy_policy::never, stream_token::no_sync(), ferry::version{1, 0}};
static_assert(in_order.device == by_position.device && in_order.copy == by_position.copy &&
              in_order.stream == by_position.stream && in_order.max_version == by_position.max_version);
constexpr request nothing{};
static_assert(!nothing.device && nothing.copy == ferry::copy_policy::if_needed && nothing.stream.is_none() &&
              nothing.max_version == ferry::version::current);
static_assert(static_cast<int>(ferry::copy_policy::if_needed) == 0);

// ---- decisions are values ----
static_assert(std::regular<ferry::decision> && std::is_aggregate_v<ferry::tensor_properties>);
static_assert(noexcept(ferry::negotiate({}, {})));

// ---- invalid calls ----
template <class T>
concept can_export = requires(T&& t) { ferry::to_dlpack(std::forward<T>(t), request{}); };
static_assert(can_export<managed_tensor> && can_export<managed_tensor const&>);  // a kept tensor is copied
static_assert(can_export<tensor_view> && can_export<member&> && !can_export<int> && !can_export<unknown&>);
static_assert(can_export<member const&> && !can_export<member const>);
template <class T>
concept can_move_out = requires(T&& t) { ferry::to_dlpack(std::forward<T>(t)); };
static_assert(can_move_out<member> && !can_move_out<managed_tensor&> && !can_move_out<tensor_view>);
static_assert(!can_move_out<int> && !can_move_out<unknown>);
static_assert(can_move_out<results&> && can_move_out<results const&> && !can_move_out<member&> &&
              !can_move_out<member const>);
static_assert(!can_move_out<ferry::typed_view<float, 2>> && !can_move_out<ferry::typed_view<float, 2>&>);
template <class T, class BackEnd>
concept can_export_by = requires(T&& t, BackEnd& b) { ferry::to_dlpack(std::forward<T>(t), request{}, b); };
static_assert(can_export_by<member, ferry::host_back_end const> && can_export_by<managed_tensor, ferry::host_back_end>);
static_assert(!can_export_by<member, int> && !can_export_by<managed_tensor, int> && !can_export_by<tensor_view, int>);
template <class T>
concept can_borrow = requires(T&& t) { ferry::borrow(std::forward<T>(t)); };
static_assert(can_borrow<member&> && can_borrow<member const&> && !can_borrow<member> && !can_borrow<member const>);
static_assert(can_borrow<managed_tensor&> && can_borrow<managed_tensor const&> && !can_borrow<managed_tensor>);
// Temporaries that reference the elements of another object can be borrowed.
static_assert(can_borrow<ferry::inplace_view<2>> && can_borrow<ferry::inplace_view<2> const&>);
static_assert(can_borrow<ferry::typed_view<float, 2>> && can_borrow<ferry::typed_view<float const> const>);
static_assert(can_borrow<tensor_view> && can_borrow<tensor_view const&> && !can_borrow<int&> && !can_borrow<int>);
template <class... A>
concept can_to_host = requires(A&&... a) { ferry::to_host(std::forward<A>(a)...); };
static_assert(can_to_host<managed_tensor> && can_to_host<managed_tensor, ferry::host_back_end const&, stream_token>);
static_assert(can_to_host<managed_tensor const&, ferry::host_back_end const&, stream_token>);
static_assert(!can_to_host<managed_tensor, ferry::host_back_end const&>);  // a stream is required
static_assert(!can_to_host<managed_tensor const&, ferry::host_back_end const&> && !can_to_host<managed_tensor&>);
static_assert(can_to_host<member&> && !can_to_host<member const> && !can_to_host<int> && !can_to_host<unknown&>);
template <class T, class From>
concept can_import = requires(From&& from) { ferry::from_dlpack<T>(std::forward<From>(from)); };
static_assert(can_import<managed_tensor, DLManagedTensorVersioned*> && !can_import<int, DLManagedTensorVersioned*>);
static_assert(!can_import<unknown, managed_tensor> && can_import<managed_tensor, managed_tensor>);
// As `producer` states: a managed_tensor is moved, and cannot be shared.
static_assert(!can_import<managed_tensor, managed_tensor&> && !can_import<managed_tensor, managed_tensor const&> &&
              !can_import<managed_tensor, managed_tensor const>);
static_assert(can_import<managed_tensor, member const&> && !can_import<managed_tensor, member const>);

}  // namespace
