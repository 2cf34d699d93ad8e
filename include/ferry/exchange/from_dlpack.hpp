// ferry: imports: whatever produces a tensor, as the consumer's own type.
#pragma once

#include <ferry/exchange/consumer.hpp>
#include <ferry/exchange/producer.hpp>
#include <ferry/exchange/request.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/tensor/legacy.hpp>
#include <ferry/tensor/managed.hpp>

#include <concepts>
#include <source_location>
#include <type_traits>
#include <utility>

namespace ferry {
namespace detail {

/// What is left to do once a producer has answered: it may have ignored `copy` and `device`, which then are the consumer's
/// debts (R56, R58). The tensor is ready on the stream that the request named.
template <class Consumer, class BackEnd>
[[nodiscard]] managed_tensor settle_debts(managed_tensor&& got, request wish, BackEnd& b, std::source_location where) {
    stream_token ready = wish.stream.is_none() ? default_stream(got.device().type) : wish.stream;
    // R49: a producer that was asked for no stream has synchronised; R48: for the host it always has.
    if (!ready.names_stream() || !orders(ready.family(), got.device().type)) ready = already_ready;
    wish.max_version = version::current;  // said to the producer; between here and adopt nothing is legacy
    if (wish.copy == copy_policy::always && got.is_copied()) wish.copy = copy_policy::if_needed;
    if constexpr (allocates<Consumer>) {
        tensor_view const v = got.view();
        auto const d = negotiate(facts_of(v, ready, true), wish);
        if (d.act == action::copy)
            return trusted::adopt(fulfil<DLManagedTensorVersioned, Consumer>(
                d, v, ready, b, []() -> DLManagedTensorVersioned* { return nullptr; }, "ferry::from_dlpack", where));
    }
    return to_dlpack(std::move(got), wish, b, ready, where);
}

}  // namespace detail

/// Imports a tensor from any producer under a request: asks it for what the request says, makes up for what it does not
/// honour, validates what comes, and gives it to array_traits<Consumer>::adopt (R43, R48, R53, R56–R58).
///
/// Arrays come in as to_dlpack takes them (lvalues are shared, rvalues moved); raw structs and exporters are taken over,
/// and released exactly once whatever fails. The result is flagged is_copied when anybody copied. Synchronises as the request
/// says: nothing blocks when it names a stream; with device = cpu the data is there on return.
///
/// \throws error  as from_dlpack(raw) and to_dlpack;  what an exporter or adopt throws;  std::bad_alloc
template <class Consumer, class Producer, class BackEnd = host_back_end const&>
[[nodiscard]] Consumer from_dlpack(Producer&& from, request const& asked, BackEnd&& b = host_only,
                                   std::source_location where = std::source_location::current()) {
    using P = std::remove_cvref_t<Producer>;
    static_assert(consumer<Consumer>, "ferry: this type cannot take a tensor over: add static T adopt(ferry::managed_tensor) to ferry::array_traits<T>");
    static_assert(back_end<std::remove_reference_t<BackEnd>>, "ferry: this is no back end: see ferry::back_end in ferry/space/back_end.hpp");
    if constexpr (std::same_as<P, managed_tensor>) {
        static_assert(!std::is_lvalue_reference_v<Producer>, "ferry: a managed_tensor has one owner: move it in");
        auto const wish = detail::with_stream<Consumer>(asked, from.device());
        return detail::consume<Consumer>(detail::settle_debts<Consumer>(std::move(from), wish, b, where), where);
    } else if constexpr (std::is_pointer_v<P>) {
        managed_tensor got = from_dlpack(from);
        auto const wish = detail::with_stream<Consumer>(asked, got.device());
        return detail::consume<Consumer>(detail::settle_debts<Consumer>(std::move(got), wish, b, where), where);
    } else if constexpr (exporter<std::remove_reference_t<Producer>>) {
        managed_tensor got = from.ferry_export(asked);
        return detail::consume<Consumer>(detail::settle_debts<Consumer>(std::move(got), asked, b, where), where);
    } else if constexpr (detail::is_adapted<std::remove_reference_t<Producer>>()) {
        auto const wish = detail::with_stream<Consumer>(asked, view_of(from).device());
        return detail::consume<Consumer>(to_dlpack(std::forward<Producer>(from), wish, b, where), where);
    }
}

/// As above with the request left at its defaults: share when possible, where it is.
template <class Consumer, class Producer>
[[nodiscard]] Consumer from_dlpack(Producer&& from, call_site where = std::source_location::current()) {
    return from_dlpack<Consumer>(std::forward<Producer>(from), request{}, host_only, where.location);
}

}  // namespace ferry
