// ferry: imports from any producer.
#pragma once

#include <ferry/exchange/consumer.hpp>
#include <ferry/exchange/detail/execute.hpp>
#include <ferry/exchange/producer.hpp>
#include <ferry/exchange/request.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/tensor/detail/make_raw.hpp>
#include <ferry/tensor/managed.hpp>
#include <ferry/tensor/validate.hpp>

#include <concepts>
#include <source_location>
#include <type_traits>
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

   private:
    DLManagedTensor* raw_;
};

/// Carries out the part of a request that the producer ignored: `copy` and `device` (R56, R58). The data is ready on
/// the stream `ready`. On failure `got` is unchanged.
template <class Consumer, class BackEnd>
[[nodiscard]] managed_tensor copy_if_needed(managed_tensor&& got, request req, stream_token ready, BackEnd& b,
                                            std::source_location where) {
    constexpr auto api = "ferry::from_dlpack";
    require_tensor(got, api, where);
    require_lanes<Consumer>(got.view(), where);  // before a copy
    req.max_version = version::current;          // applies to the producer only: `adopt` takes a versioned tensor
    // mutant: r12_copied_already
    if (req.copy == copy_policy::always && got.is_copied()) req.copy = copy_policy::if_needed;
    auto const d = decide<Consumer>(got.view(), ready, true, req);
    return execute_owned<Consumer>(std::move(got), d, ready, b, api, where);
}

/// Returns the stream on which a tensor on `dev` is ready after a handshake: the stream of the request, else the
/// default stream (R44). Returns already_ready for no_sync, and for devices without a default stream, where the
/// producer has synchronised (R48, R49).
///
/// A producer that ignored the requested device cannot have used a stream of another family. It has interpreted a
/// default stream as the default stream of its own device.
[[nodiscard]] constexpr stream_token ready_after(request const& req, device dev) noexcept {
    bool const is_used =
        req.stream.is_no_sync() || (req.stream.names_stream() && orders(req.stream.family(), dev.type));
    // mutant: ready_after_default, ready_after_number
    stream_token const on = is_used ? req.stream.without_device() : default_stream(dev);
    return on.names_stream() ? on : already_ready;  // mutant: ready_after
}

/// Returns the stream on which data on `dev` is ready at the end of an import: the stream of the request, which was
/// ordered after the producer's, else the default stream; already_ready if the host has waited. With no_sync, no stream
/// was ordered, and the data is ready on `before`.
[[nodiscard]] constexpr stream_token ready_for(request const& req, stream_token before, device dev) noexcept {
    if (!req.stream.is_no_sync()) return ready_after(req, dev).on_device(dev);
    // mutant: ready_for_no_sync
    return before.names_stream() && orders(before.family(), dev.type) ? before : already_ready;
}

/// Carries out the rest of `req` for a tensor that is ready on `ready`, and passes the tensor to its consumer.
template <class Consumer, class BackEnd>
[[nodiscard]] Consumer finish_import(managed_tensor&& got, request const& req, stream_token ready, BackEnd& b,
                                     std::source_location where) {
    if constexpr (adopts_with_stream<Consumer>) {
        stream_token const before = got ? ready.on_device(got.device()) : ready;
        auto result = copy_if_needed<Consumer>(std::move(got), req, ready, b, where);
        stream_token const now = ready_for(req, before, result.device());
        return consume<Consumer>(std::move(result), now, where);
    } else {
        return consume<Consumer>(copy_if_needed<Consumer>(std::move(got), req, ready, b, where), {}, where);
    }
}

}  // namespace detail

/// Validates a foreign tensor and takes ownership of it (R2, R3, R16–R32).
///
/// Reads metadata only, not the data. Does not synchronise: device data is ready on the stream of the handshake with
/// the producer. Thread-safe.
///
/// \param raw    struct; owned by the result on success; on failure its deleter has run exactly once. For a struct of
///               another major version, only the version and the deleter are accessed (R2).
/// \param where  source location for errors
/// \return       tensor
/// \throws error  errc::null_struct, version, device, dtype, rank, shape, overflow or null_data: the message contains
///                the field, its value and the fix
[[nodiscard]] inline managed_tensor from_dlpack(DLManagedTensorVersioned* raw,
                                                std::source_location where = std::source_location::current()) {
    if (raw == nullptr)
        detail::fail(errc::null_struct, "ferry::from_dlpack",
                     message{"the DLManagedTensorVersioned* is null: pass a struct"}, where);
    try {
        static_cast<void>(detail::check_managed(raw, {"ferry::from_dlpack", where}));
    } catch (...) {
        if (raw->deleter != nullptr) raw->deleter(raw);  // mutant: r62_failed_import
        throw;
    }
    return detail::trusted::adopt(raw);
}

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
    tensor_view const v{raw->dl_tensor, assumed};
    return detail::trusted::adopt(detail::make_valid_raw<DLManagedTensorVersioned>(
        std::move(owner), [v](auto&) { return v; }, v, v.device(), assumed, version::current, api, where));
}

/// Imports a managed_tensor, whose producer can no longer order a stream: the caller passes the stream on which the
/// data is ready.
///
/// \tparam Consumer  managed_tensor, or an array type with array_traits<T>::adopt
/// \param tensor    tensor; consumed on success, unchanged on failure before `adopt`
/// \param req       request
/// \param b         back end; required for copies of device memory, and for waits
/// \param ready_on  stream on which the data is ready; ferry::already_ready if no work is pending; not needed for
///                  devices of type cpu
/// \param where     source location for errors
/// \return          the tensor or its copy, as the consumer's type
/// \throws error  errors of to_dlpack for a managed_tensor; errc::dtype for short vectors (`accepts_vectors`); errors
///                of `adopt`
template <class Consumer, class BackEnd>
    requires(detail::may_import<Consumer> && back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] Consumer from_dlpack(managed_tensor&& tensor, request const& req, BackEnd&& b, stream_token ready_on,
                                   std::source_location where = std::source_location::current()) {
    auto const complete = detail::with_stream<Consumer>(req, tensor.device());
    return detail::finish_import<Consumer>(std::move(tensor), complete, ready_on, b, where);
}

/// Imports a tensor from any producer (R43, R48, R53, R56–R58).
///
/// Passes the request to the producer, validates the result, performs the copy and the waits that the producer did not,
/// and calls array_traits<Consumer>::adopt. The result has the flag is_copied if either side copied. A request with a
/// stream does not block; for a request with device = cpu, the data is complete on return. Exceptions of an exporter
/// and of `adopt` propagate.
///
/// \tparam Consumer  managed_tensor, or an array type with array_traits<T>::adopt
/// \param from   producer. An array is shared as an lvalue and moved as an rvalue, as in to_dlpack. A raw struct is
///               consumed on success and on failure; its deleter is called exactly once. If the memory of a raw
///               struct or managed_tensor is not of type cpu, use the overload with `ready_on`; it takes a
///               managed_tensor, which from_dlpack(raw) returns.
/// \param req    request
/// \param b      back end; required for copies of device memory, and for waits
/// \param where  source location for errors
/// \return       the tensor or its copy, as the consumer's type
/// \throws error           errc::dtype for short vectors (`accepts_vectors`); errors of from_dlpack for a raw struct,
///                         and of to_dlpack
/// \throws std::bad_alloc  when an allocation fails
template <class Consumer, class Producer, class BackEnd = host_back_end const&>
    requires(detail::may_import<Consumer> && detail::may_export<Producer> && back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] Consumer from_dlpack(Producer&& from, request const& req, BackEnd&& b = host_only,
                                   std::source_location where = std::source_location::current()) {
    using P = std::remove_cvref_t<Producer>;
    static_assert(detail::is_consumer<Consumer>());
    if constexpr (std::same_as<P, managed_tensor>) {
        return from_dlpack<Consumer>(std::move(from), req, b, stream_token{}, where);
    } else if constexpr (std::is_pointer_v<P>) {
        auto const take = [&] {
            if constexpr (std::same_as<P, DLManagedTensor*>) return from_dlpack(from, flags::read_only, where);
            else return from_dlpack(from, where);  // mutant: r58_stale_error_place
        };
        return from_dlpack<Consumer>(take(), req, b, stream_token{}, where);
    } else if constexpr (exporter<std::remove_reference_t<Producer>>) {
        request asked = detail::for_producer(req);
        if (asked.device) asked = detail::with_stream<Consumer>(asked, *asked.device);
        managed_tensor got = from.ferry_export(asked);
        auto const ready = detail::ready_after(asked, got.device());
        asked = detail::with_stream<Consumer>(asked, got.device());  // mutant: current_stream_of_exporter
        return detail::finish_import<Consumer>(std::move(got), asked, ready, b, where);
    } else if constexpr (detail::is_adapted<std::remove_reference_t<Producer>>()) {
        tensor_view const& v = view_of(from);
        device const dev = v.device();
        constexpr auto api = "ferry::from_dlpack";
        // A copy of an array that cannot be shared is complete on return if the caller named no stream.
        bool const can_share = detail::is_shareable<Producer>(from, v, api, where);
        auto const complete = can_share ? detail::with_stream<Consumer>(req, dev) : req;
        auto const ready = detail::ready_on(from);
        managed_tensor got = detail::export_for<Consumer>(std::forward<Producer>(from), v, can_share, complete, ready,
                                                          b, api, where);
        auto const now = detail::ready_for(complete, ready.on_device(dev), got.device());
        return detail::consume<Consumer>(std::move(got), now, where);
    }
}

/// Imports a tensor from any producer, with the default request: shares on the device of the data if possible.
///
/// Copies only an array that cannot be shared. All other producers are imported with ferry::share_only, which never
/// copies. To import padded elements that the consumer does not support (R13, `accepts_padded`), pass a request.
///
/// \tparam Consumer  managed_tensor, or an array type with array_traits<T>::adopt
/// \param from   producer; ownership as in the overload with a request
/// \param where  source location for errors
/// \return       the tensor, as the consumer's type
/// \throws error  errors of the overload with a request
template <class Consumer, class Producer>
    requires(detail::may_import<Consumer> && detail::may_export<Producer>)
[[nodiscard]] Consumer from_dlpack(Producer&& from, call_site where = std::source_location::current()) {
    if constexpr (!viewable<std::remove_reference_t<Producer>>)
        return from_dlpack<Consumer>(std::forward<Producer>(from), request{}, share_only, where.location);
    else return from_dlpack<Consumer>(std::forward<Producer>(from), request{}, host_only, where.location);
}

// clang-format off
template <class Consumer, class Tensor, class... Rest>
    requires(std::same_as<std::remove_cvref_t<Tensor>, managed_tensor> && !producer<Tensor>)
Consumer from_dlpack(Tensor&&, request const& = {}, Rest&&...) FERRY_DELETED("a managed_tensor has one owner and cannot be shared: pass std::move(tensor)");
template <class Other, class From, class... Rest>
    requires(!detail::may_import<Other> && detail::may_export<From>)
Other from_dlpack(From&&, request const& = {}, Rest&&...) FERRY_DELETED("this type cannot import a tensor: add static T adopt(ferry::managed_tensor) to ferry::array_traits<T>");
template <class Consumer, class View, class... Rest>
    requires(std::derived_from<std::remove_cvref_t<View>, tensor_view> && !detail::may_export<View>)
Consumer from_dlpack(View&&, Rest&&...) FERRY_DELETED("a view owns no memory that a tensor could share: import its owner, or a copy, from_dlpack<T>(to_dlpack(view, {.copy = ferry::copy_policy::always}))");
template <class Consumer, class Other, class... Rest>
    requires(!detail::may_export<Other> && !std::same_as<std::remove_cvref_t<Other>, managed_tensor> &&
             !std::derived_from<std::remove_cvref_t<Other>, tensor_view>)
Consumer from_dlpack(Other&&, Rest&&...) FERRY_DELETED("unknown array type: specialise ferry::array_traits<T> with static tensor_view view(T&), or give T a member ferry_view() or ferry_export()");
template <class Consumer, class From, class Other, class... Rest>
    requires(detail::may_import<Consumer> && detail::may_export<From> && !back_end<std::remove_reference_t<Other>>)
Consumer from_dlpack(From&&, request const&, Other&&, Rest&&...) FERRY_DELETED("the argument is not a back end: it must satisfy ferry::back_end of ferry/space/back_end.hpp");
// clang-format on

}  // namespace ferry::inline v0
