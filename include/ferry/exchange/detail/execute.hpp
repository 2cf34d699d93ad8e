// ferry: carries out the decision about an exchange.
#pragma once

#include <ferry/exchange/array_traits.hpp>
#include <ferry/exchange/consumer.hpp>
#include <ferry/exchange/negotiate.hpp>
#include <ferry/exchange/order.hpp>
#include <ferry/exchange/producer.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/copy_plan.hpp>
#include <ferry/space/detail/operations.hpp>
#include <ferry/tensor/detail/make_raw.hpp>
#include <ferry/tensor/managed.hpp>

#include <concepts>
#include <cstddef>
#include <source_location>
#include <utility>

namespace ferry::inline v0::detail {

/// Returns the properties of a view whose data is ready on `ready`.
[[nodiscard]] inline tensor_properties properties_of(tensor_view const& v, stream_token ready,
                                                     bool is_shareable) noexcept {
    return {.where = v.device(), .bits = v.flags(), .type = v.dtype(), .ready_on = ready, .is_shareable = is_shareable};
}

/// Returns the decision about a view whose data is ready on `ready`, for a consumer: managed_tensor, or an array whose
/// traits state which elements it supports.
template <class Consumer>
[[nodiscard]] FERRY_ALWAYS_INLINE decision decide(tensor_view const& v, stream_token ready, bool is_shareable,
                                                  request const& req) noexcept {
    auto props = properties_of(v, ready, is_shareable);
    if constexpr (accepts_padded<Consumer>) return negotiate(props, req);
    // mutant: r13_padded_consumer
    props.is_describable = !v.is_padded() || !is_packed(v.dtype());
    auto d = negotiate(props, req);
    d.bits &= ~flags::subbyte_padded;
    return d;
}

/// The memory of a copy, and its source, which a stream may still read.
template <class Owner, class Mark>
struct copy_with_source {
    Owner memory;
    managed_tensor source;
    [[no_unique_address]] Mark queued{};  // last member: waits before the others are destroyed
};

/// Returns whether a copy may still read `source` after the exchange has returned. Host memory has been read by then;
/// see `back_end`.
[[nodiscard]] constexpr bool reads_after_return(decision const& d, device source) noexcept {
    // mutant: reads_later_host
    return d.act == action::copy && d.on.names_stream() && d.how != wait::host && source.type != device_type::cpu;
}

/// Returns the device of a source to pass to the back end: cpu if the memory is host-accessible, has no pending work,
/// and is copied to the CPU by a back end that does not reach its device (R39); otherwise `dev`.
[[nodiscard]] device source_for(auto& b, decision const& d, device dev) {
    bool const host_copies = d.to.type == device_type::cpu && is_host_accessible(dev) && !d.on.names_stream();
    return host_copies && !b.reaches(dev) ? cpu : dev;  // mutant: r39_host_copies
}

/// Copies `v` into the new memory that `owner` holds and `view_of_owner` describes, and performs the waits of the
/// decision.
///
/// Creates the struct before it queues the copy, so that a failed allocation cannot free memory that a queued copy
/// writes. The result owns `source`, if not null, while a stream may read it (R50); its deleter waits for an incomplete
/// copy (`marking_back_end`). On failure `source` is unchanged.
template <managed_struct Raw, class Owner, class ViewOf, class BackEnd>
[[nodiscard]] Raw* copy_into(Owner owner, ViewOf view_of_owner, tensor_view const& v, decision const& d,
                             stream_token ready, BackEnd& b, managed_tensor* source, char const* api,
                             std::source_location where) {
    using contents_type = copy_with_source<Owner, queued_by<BackEnd>>;
    contents_type contents{std::move(owner), {}};
    stream_memory_guard guard{b, d.on, d.to};  // mutant: copy_failed_struct
    tensor_view const& fresh = view_of_owner(contents.memory);
    if (!is_same_device(fresh.device(), d.to))  // mutant: r41_place
        fail(errc::device, api,
             message{"array_traits::allocate returned memory on "}
                 << name(fresh.device().type) << ":" << fresh.device().id << ", expected " << name(d.to.type) << ":"
                 << d.to.id << ": it must throw for unsupported devices",
             where);
    if (std::same_as<Raw, DLManagedTensor> && fresh.is_padded())
        fail(errc::flags, api,
             message{"the legacy struct has no flag for padded sub-byte elements (R13): request max_version=(1, 0)"},
             where);
    auto const packing = fresh.flags() & flags::subbyte_padded;
    auto const view_at = [&](contents_type& c) { return view_of_owner(c.memory); };
    if constexpr (std::same_as<ViewOf, view_of_t>) validate_view(fresh, api, where);  // an adapter's, not ferry's
    // mutant: r13_packing
    auto const bits = (d.bits & ~flags::subbyte_padded) | packing;
    Raw* const raw = make_valid_raw<Raw>(std::move(contents), view_at, fresh, d.to, bits, d.stamp, api, where);
    auto& copy = static_cast<block<Raw, contents_type>*>(raw->manager_ctx)->owner;
    try {
        tensor_view const dst{raw->dl_tensor, fresh.flags()};
        auto const plan = make_copy_plan(dst, v, api, where);  // also compares the shapes and types of empty tensors
        if (plan.kind != copy_kind::empty) {
            if (d.how == wait::order) ferry::order(ready, d.on, b);  // mutant: copy_into_order
            auto const from = source_for(b, d, v.device());
            // mutant: copy_into_wait
            if (d.how == wait::host) copy_and_wait(b, plan, dst.data(), d.to, v.data(), from, d.on);
            else if (!queue_copy(b, plan, dst.data(), d.to, v.data(), from, d.on))
                copy.queued = mark_queued(b, d.on);  // mutant: copy_queued_mark
        }
    } catch (...) {
        guard.wait();
        raw->deleter(raw);  // mutant: r68_failed_copy
        throw;
    }
    guard.done();
    if (source != nullptr && reads_after_return(d, v.device()))  // mutant: keep_source
        copy.source = std::move(*source);
    return raw;
}

/// Reports a copy that is needed with ferry::share_only.
[[noreturn]] FERRY_COLD inline void fail_share_only(device from, device to, char const* api,
                                                    std::source_location where) {
    bool const host = from.type == device_type::cpu && to.type == device_type::cpu;
    fail(errc::copy_needed, api,
         message{"a copy from "} << name(from.type) << ":" << from.id << " to " << name(to.type) << ":" << to.id
                                 << " is needed, and ferry::share_only does not copy: pass "
                                 << (host ? "ferry::host_only" : "a back end for the device")
                                 << ", or request no copy",
         where);
}

/// Carries out a decision for a tensor `v` that is ready on `ready_on`.
///
/// Copies into memory from array_traits<Array>::allocate, if defined, else from the back end. `share()` returns the
/// struct for a decision to share. `source` owns `v`, which is then valid; if it is null, the caller keeps `v` alive
/// until a queued copy has run.
template <managed_struct Raw, class Array, class BackEnd, class Share>
[[nodiscard]] FERRY_ALWAYS_INLINE Raw* execute(decision const& d, tensor_view const& v, stream_token ready_on,
                                              BackEnd& b, Share share, char const* api, std::source_location where,
                                              managed_tensor* source = nullptr) {
    if (d.act == action::refuse) fail(d.reason, api, message{d.text}, where);
    if constexpr (never_copies<BackEnd>)
        if (d.act == action::copy) fail_share_only(v.device(), d.to, api, where);
    stream_token const ready = ready_on.bound_to(v.device());  // mutant: r43_bound_producer
    if (d.how != wait::none || d.act == action::copy)
        require_reach(b, source_for(b, d, v.device()), api, where);  // mutant: r40_reach
    if (d.act == action::share) {
        if (d.how == wait::order) ferry::order(ready, d.on, b);  // mutant: apply_wait_order
        else if (d.how == wait::host) b.wait(d.on);              // mutant: apply_wait_host, apply_wait_none
        return share();
    }
    require_reach(b, d.to, api, where);  // mutant: r40_reach_target
    if (source == nullptr) validate_view(v, api, where);
    if constexpr (never_copies<BackEnd>) {
        return nullptr;  // not reached: a copy was refused above
    } else if constexpr (allocates<Array>) {
        return copy_into<Raw>(array_traits<Array>::allocate(v.dtype(), v.shape(), d.to), view_of, v, d, ready, b,
                              source, api, where);
    } else {
        auto const packing = d.bits & flags::subbyte_padded;
        tensor_view const sized{static_cast<void*>(nullptr), v.dtype(), v.shape(), {}, d.to, packing};
        auto memory = b.allocate(d.to, static_cast<std::size_t>(sized.nbytes()), d.on);
        auto const view_of_memory = [&](auto& m) {
            return tensor_view{static_cast<void*>(m.data()), v.dtype(), v.shape(), {}, d.to, sized.flags()};
        };
        return copy_into<Raw>(std::move(memory), view_of_memory, v, d, ready, b, source, api, where);
    }
}

/// Carries out a decision for a tensor of the caller: returns the tensor itself, a struct that owns it, or a copy. On
/// failure `tensor` is unchanged.
template <class Consumer, class BackEnd>
[[nodiscard]] FERRY_ALWAYS_INLINE managed_tensor execute_owned(managed_tensor&& tensor, decision const& d,
                                                              stream_token ready_on, BackEnd& b, char const* api,
                                                              std::source_location where) {
    tensor_view const v = tensor.view();
    // R24: a tensor of minor version 2 or later must have strides; a new struct adds those that are missing.
    bool const lacks_strides = v.strides().is_implicit() && v.rank() != 0 && tensor.stamped().minor >= 2;
    auto const share = [&]() -> DLManagedTensorVersioned* {
        if (is_same_device(d.to, v.device()) && !lacks_strides) return nullptr;  // mutant: r24_pass_on
        auto const bits = d.bits | (v.flags() & flags::is_copied);               // mutant: r12_relabel_keeps
        return make_valid_raw<DLManagedTensorVersioned>(
            std::move(tensor), [v](auto&) { return v; }, v, d.to, bits, d.stamp, api, where);
    };
    auto* const raw = execute<DLManagedTensorVersioned, Consumer>(d, v, ready_on, b, share, api, where, &tensor);
    if (raw == nullptr) return std::move(tensor);  // unchanged, with the fields that were checked (R33)
    // mutant: r68_released
    managed_tensor const released{std::move(tensor)};  // the copy no longer reads the source
    return trusted::adopt(raw);
}

}  // namespace ferry::inline v0::detail
