// ferry: asks `negotiate` about the exchange of a view.
#pragma once

#include <ferry/exchange/consumer.hpp>
#include <ferry/exchange/negotiate.hpp>
#include <ferry/space/back_end.hpp>

namespace FERRY_NAMESPACE::detail {

/// Returns the properties of a view whose data is ready on `ready`. `Array`: the type of its owner, whose traits may
/// add properties; managed_tensor for a tensor.
template <class Array = managed_tensor>
[[nodiscard]] FERRY_ALWAYS_INLINE tensor_properties properties_of(tensor_view const& v, stream_token ready,
                                                                  bool is_shareable) noexcept {
    return {.device = v.device(),
            .bits = v.flags(),
            .type = v.dtype(),
            .ready_on = ready,
            .is_shareable = is_shareable,
            .is_behind_event = has_ready_event<Array>,
            .lends_read_only = lends_read_only<Array>};
}

/// Calls `negotiate` for a request that is known at run time only. One copy serves all such requests.
[[nodiscard]] FERRY_COLD inline decision negotiate_any(tensor_properties const& props, request const& req) noexcept {
    return negotiate(props, req);
}
[[nodiscard]] FERRY_NOINLINE inline decision negotiate_at_run_time(tensor_properties const& props,
                                                                   request const& req) noexcept {
    bool const is_plain = props.device.type == device_type::cpu && !req.device && req.copy == copy_policy::if_needed &&
                          req.placement == placement::any && req.stream.is_none();
    if (!is_plain) return negotiate_any(props, req);
    auto on_host = props;  // with constants, for which little of `negotiate` remains
    on_host.device = cpu;
    return negotiate(on_host, {.max_version = req.max_version, .layout = req.layout});
}

/// A back end of exchanges with requests that are known at run time only, for which the size of the code is more
/// important than the duration of a call.
template <class B>
concept calls_functions = requires { requires B::calls_functions; };

/// Returns the decision about a view whose data is ready on `ready`, for a consumer: managed_tensor, or an array whose
/// traits state which elements it supports. `Array`: see `properties_of`. `AtRunTime`: calls negotiate_at_run_time.
/// `b`: back end, which may be a `destination`. `takes_padded`: whether the consumer accepts padded elements.
template <class Consumer, class Array = managed_tensor, bool AtRunTime = false, class BackEnd>
[[nodiscard]] FERRY_ALWAYS_INLINE decision decide(tensor_view const& v, stream_token ready, bool is_shareable,
                                                  request const& req, [[maybe_unused]] BackEnd& b,
                                                  bool takes_padded = accepts_padded<Consumer>) noexcept {
    auto props = properties_of<Array>(v, ready, is_shareable);
    if constexpr (has_space<BackEnd>)
        if (req.placement == placement::exact) find_operations<locates>(b)->locate(v, props.space, props.is_in_space);
    if (!takes_padded) props.is_describable = !v.is_padded() || !is_packed(v.dtype());
    auto d = AtRunTime ? negotiate_at_run_time(props, req) : negotiate(props, req);
    if (!takes_padded) d.bits &= ~flags::subbyte_padded;
    return d;
}

}  // namespace FERRY_NAMESPACE::detail
