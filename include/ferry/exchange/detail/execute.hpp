// ferry: carries out the decision about an exchange.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/error.hpp>
#include <ferry/config.hpp>
#include <ferry/exchange/array_traits.hpp>
#include <ferry/exchange/consumer.hpp>
#include <ferry/exchange/negotiate.hpp>
#include <ferry/exchange/producer.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/copy_plan.hpp>
#include <ferry/space/detail/check_copy.hpp>
#include <ferry/space/detail/operations.hpp>
#include <ferry/tensor/detail/make_raw.hpp>
#include <ferry/tensor/managed.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace ferry::inline FERRY_ABI_NAMESPACE::detail {

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
[[nodiscard, gnu::noinline]] inline decision negotiate_at_run_time(tensor_properties const& props,
                                                                   request const& req) noexcept {
    bool const is_plain = props.device.type == device_type::cpu && !req.device &&
                          req.copy == copy_policy::if_needed && req.stream.is_none();
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
template <class Consumer, class Array = managed_tensor, bool AtRunTime = false>
[[nodiscard]] FERRY_ALWAYS_INLINE decision decide(tensor_view const& v, stream_token ready, bool is_shareable,
                                                  request const& req) noexcept {
    auto props = properties_of<Array>(v, ready, is_shareable);
    // mutant: r13_padded_consumer
    if constexpr (!accepts_padded<Consumer>) props.is_describable = !v.is_padded() || !is_packed(v.dtype());
    auto d = AtRunTime ? negotiate_at_run_time(props, req) : negotiate(props, req);
    if constexpr (!accepts_padded<Consumer>) d.bits &= ~flags::subbyte_padded;
    return d;
}

/// The memory of a copy, and its source, which a stream may still read.
template <class Owner, class Mark>
struct copy_with_source {
    Owner memory;
    managed_tensor source;
    FERRY_NO_UNIQUE_ADDRESS Mark queued{};  // last member: waits before the others are destroyed
};

/// Returns whether a copy may still read `source` after the exchange has returned. Host memory has been read by then;
/// see `back_end`.
[[nodiscard]] constexpr bool reads_after_return(decision const& d, device source) noexcept {
    // mutant: reads_later_host
    return d.action == action::copy && d.on.names_stream() && d.wait != wait::host && source.type != device_type::cpu;
}

/// Returns the device of a source to pass to the back end: cpu if the memory is host-accessible, has no pending work,
/// and is copied to the CPU by a back end that does not reach its device (R39); otherwise `dev`.
[[nodiscard]] device source_for(auto& b, decision const& d, device dev) {
    bool const host_copies = d.to.type == device_type::cpu && is_host_accessible(dev) && !d.on.names_stream();
    return host_copies && !b.reaches(dev) ? cpu : dev;  // mutant: r39_host_copies
}

/// Returns whether the elements are in memory without gaps, in any order of the dimensions.
[[nodiscard]] inline bool is_dense(tensor_view const& v) noexcept {
    std::int64_t step = 1;
    for (int k = 0; k < v.rank(); ++k) {  // finds the dimension whose stride is `step`
        if (v.extent(k) == 1) continue;
        int i = 0;
        while (i < v.rank() && (v.extent(i) == 1 || v.stride(i) != step)) ++i;
        if (i == v.rank()) return false;
        step *= v.extent(i);
    }
    return true;
}

/// Returns the strides of the copy of a view: those of a dense source, unless the decision requires the row-major
/// order; otherwise implicit ones. A copy of packed elements is row-major.
[[nodiscard]] inline strides_view strides_of_copy(tensor_view const& v, decision const& d) noexcept {
    // mutant: copy_order_request, copy_order_packed, copy_order_gap
    bool const keeps = d.layout == layout::strided && !v.is_contiguous() && !is_packed(v.dtype()) && is_dense(v);
    return keeps ? v.strides() : strides_view{};
}

/// Returns the view of memory that a back end allocated for a dense tensor. Not a lambda, so that exchanges share the
/// code of `copy_into`.
struct describe_memory {
    tensor_view const& sized;  // its data is not used
    [[nodiscard]] tensor_view operator()(auto& memory) const noexcept {
        return {static_cast<void*>(memory.data()), sized.dtype(), sized.shape(), sized.strides(), sized.device(),
                sized.flags()};
    }
};

/// Fails unless the memory of a copy is on the requested device, and a struct of type `Raw` can describe its packing.
template <managed_struct Raw>
[[nodiscard]] inline bool check_fresh(tensor_view const& fresh, device to, reporter r) {
    if (!is_same_device(fresh.device(), to))  // mutant: r41_place
        return report(r, errc::device,
                      message{"array_traits::allocate returned memory on "}
                          << name(fresh.device().type) << ":" << fresh.device().id << ", expected " << name(to.type)
                          << ":" << to.id << ": it must fail for unsupported devices");
    if (std::same_as<Raw, DLManagedTensor> && fresh.is_padded())
        return report(r, errc::flags,
                      "the legacy struct has no flag for padded sub-byte elements (R13): request max_version=(1, 0)");
    return true;
}

/// Makes the stream of the decision wait for `ready_on`, the stream on which data on `from` is ready.
template <class BackEnd>
[[nodiscard]] bool order_after(stream_token ready_on, device from, decision const& d, BackEnd& b, reporter r) {
    return order_streams(ready_on.bound_to(from), d.on, b, r);  // mutant: r43_bound_producer
}

/// Copies `v` into the new memory that `owner` holds and `view_of_owner` describes, and performs the waits of the
/// decision. Returns null on failure.
///
/// Creates the struct before it queues the copy, so that a failed allocation cannot free memory that a queued copy
/// writes. The result owns `source`, if not null, while a stream may read it (R50); its deleter waits for an incomplete
/// copy (`marking_back_end`). On failure `source` is unchanged.
template <managed_struct Raw, class Owner, class ViewOf, class BackEnd>
[[nodiscard]] Raw* copy_into(Owner&& owner, ViewOf view_of_owner, tensor_view const& v, decision const& d,
                             stream_token ready_on, BackEnd& b, managed_tensor* source, reporter r) {
    using contents_type = copy_with_source<Owner, queued_by<BackEnd>>;
    contents_type contents{std::move(owner), {}};
    raw_owner<Raw> made{nullptr};
    stream_memory_guard guard{b, d.on, d.to};  // mutant: copy_failed_struct
    auto const described = view_of_owner(contents.memory);
    if (!check_result(described, r)) return nullptr;
    tensor_view const& fresh = unwrapped(described);
    if (!check_fresh<Raw>(fresh, d.to, r)) return nullptr;
    if (std::same_as<ViewOf, describe_t> && !check_view(fresh, r)) return nullptr;  // from an adapter
    auto const packing = fresh.flags() & flags::subbyte_padded;
    auto const view_at = [&](contents_type& c) { return view_of_owner(c.memory); };
    // mutant: r13_packing
    auto const bits = (d.bits & ~flags::subbyte_padded) | packing;
    Raw* const raw = make_valid_raw<Raw>(std::move(contents), view_at, fresh, d.to, bits, d.stamp, r);
    if (raw == nullptr) return nullptr;
    made.reset(raw);
    auto& copy = static_cast<block<Raw, contents_type>*>(raw->manager_ctx)->owner;
    tensor_view const dst{raw->dl_tensor, fresh.flags()};
    std::int64_t count = 0;
    if (!check_copy(dst, v, count, r)) return nullptr;  // also compares the shapes and types of empty tensors
    if (auto const plan = plan_copy(dst, v, count); plan.kind != copy_kind::empty) {
        // mutant: copy_into_order
        if (d.wait == wait::order && !order_after(ready_on, v.device(), d, b, r)) return nullptr;
        auto const from = source_for(b, d, v.device());
        bool is_complete = false;
        bool const is_queued =
            d.wait == wait::host  // mutant: copy_into_wait
                ? copy_and_wait(b, plan, untyped_data(dst), d.to, v.data(), from, d.on, r)
                : queue_copy(b, plan, untyped_data(dst), d.to, v.data(), from, d.on, is_complete, r) &&
                      (is_complete || mark_queued(b, d.on, copy.queued, r));  // mutant: copy_queued_mark
        if (!is_queued) return nullptr;
    }
    guard.done();
    if (source != nullptr && reads_after_return(d, v.device()))  // mutant: keep_source
        copy.source = std::move(*source);
    return made.release();
}

/// Reports that an exchange through ferry::share_only requires a copy.
[[nodiscard]] FERRY_COLD inline bool report_share_only(device from, device to, reporter r) {
    bool const host = from.type == device_type::cpu && to.type == device_type::cpu;
    return report(r, errc::copy_needed,
                  message{"a copy from "} << name(from.type) << ":" << from.id << " to " << name(to.type) << ":"
                                          << to.id << " is needed, and ferry::share_only does not copy: pass "
                                          << (host ? "ferry::host_only" : "a back end for the device")
                                          << ", or request no copy");
}

/// Fails for a decision to refuse, and for a decision that the back end cannot carry out.
template <class BackEnd>
[[nodiscard]] FERRY_ALWAYS_INLINE bool check_decision(decision const& d, device from, BackEnd& b, reporter r) {
    if (d.action == action::refuse) return report(r, d.reason, d.text);
    bool const copies = d.action == action::copy;
    if constexpr (never_copies<BackEnd>)
        if (copies) return report_share_only(from, d.to, r);
    // mutant: r40_reach
    if ((d.wait != wait::none || copies) && !check_support(b, source_for(b, d, from), r)) return false;
    return !copies || check_support(b, d.to, r);  // mutant: r40_reach_target
}

/// Carries out a decision for a tensor `v` that is ready on `ready_on`. Returns null on failure. `Checked`: the caller
/// has called `check_decision`.
///
/// Copies into memory from array_traits<Array>::allocate, if defined, else from the back end. `share()` returns the
/// struct for a decision to share. If `source` is not null, it owns `v`, which has been validated; otherwise, the
/// caller keeps `v` alive until a queued copy has run.
template <managed_struct Raw, class Array, bool Checked = false, class BackEnd, class Share>
[[nodiscard]] FERRY_ALWAYS_INLINE Raw* execute(decision const& d, tensor_view const& v, stream_token ready_on,
                                              BackEnd& b, Share share, reporter r, managed_tensor* source = nullptr) {
    if (!Checked && !check_decision(d, v.device(), b, r)) return nullptr;
    if (d.action == action::share) {
        // mutant: apply_wait_order
        if (d.wait == wait::order && !order_after(ready_on, v.device(), d, b, r)) return nullptr;
        // mutant: apply_wait_host, apply_wait_none
        if (d.wait == wait::host && !perform(r, [&] { return b.wait(d.on); })) return nullptr;
        return share();
    }
    if constexpr (never_copies<BackEnd>) {
        return nullptr;  // not reached: a copy was refused above
    } else {
        if (source == nullptr && !check_view(v, r)) return nullptr;
        auto const copy = [&](auto memory, auto view_of_memory) -> Raw* {
            if (!check_memory(memory, r)) return nullptr;
            return copy_into<Raw>(std::move(unwrapped(memory)), view_of_memory, v, d, ready_on, b, source, r);
        };
        if constexpr (allocates<Array>) {
            return copy(allocate_array<Array>(v.dtype(), v.shape(), d.to, d.on), describe);
        } else {
            auto const packing = d.bits & flags::subbyte_padded;
            tensor_view const sized{static_cast<void*>(nullptr), v.dtype(), v.shape(), strides_of_copy(v, d), d.to,
                                    packing};
            return copy(b.allocate(d.to, static_cast<std::size_t>(sized.nbytes()), d.on), describe_memory{sized});
        }
    }
}

/// Carries out a decision for a tensor of the caller: returns the tensor itself, a struct that owns it, or a copy. On
/// failure, returns an empty object, and `tensor` is unchanged.
template <class Consumer, class BackEnd>
[[nodiscard]] FERRY_ALWAYS_INLINE managed_tensor execute_owned(managed_tensor&& tensor, decision const& d,
                                                              stream_token ready_on, BackEnd& b, reporter r) {
    tensor_view const v = trusted::view(tensor);
    // R24: a tensor of minor version 2 or later must have strides; a new struct adds those that are missing.
    bool const lacks_strides = v.strides().is_implicit() && v.rank() != 0 && tensor.stamped().minor >= 2;
    bool is_unchanged = false;
    auto const share = [&]() -> DLManagedTensorVersioned* {
        is_unchanged = is_same_device(d.to, v.device()) && !lacks_strides;  // mutant: r24_pass_on
        if (is_unchanged) return nullptr;
        auto const bits = d.bits | (v.flags() & flags::is_copied);  // mutant: r12_relabel_keeps
        return make_valid_raw<DLManagedTensorVersioned, calls_functions<BackEnd>>(
            std::move(tensor), fixed_view{v}, v, d.to, bits, d.stamp, r);
    };
    auto* const raw = execute<DLManagedTensorVersioned, Consumer>(d, v, ready_on, b, share, r, &tensor);
    if (is_unchanged) return std::move(tensor);  // keeps the checked fields; does not read the struct again (R33)
    if (raw == nullptr) return {};
    // mutant: r68_released
    managed_tensor const released{std::move(tensor)};  // the copy no longer reads the source
    return trusted::adopt(raw);
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::detail
