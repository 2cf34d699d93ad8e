// ferry: carries out the decision about an exchange.
#pragma once

#include <ferry/exchange/detail/copy_into.hpp>
#include <ferry/exchange/detail/decide.hpp>

namespace FERRY_NAMESPACE::detail {

/// Reports that an exchange through ferry::share_only requires a copy.
[[nodiscard]] FERRY_COLD inline bool report_share_only(device from, device to, reporter r) {
    bool const host = from.type == device_type::cpu && to.type == device_type::cpu;
    return report(r, errc::copy_needed,
                  message{"a copy from "} << name(from.type) << ":" << from.id << " to " << name(to.type) << ":"
                                          << to.id << " is needed and not permitted: pass "
                                          << (host ? "ferry::host_only" : "a back end for the device")
                                          << " instead of ferry::share_only, or request no copy");
}

/// Fails for a decision to refuse, and for a decision that the back end cannot carry out.
template <class BackEnd>
[[nodiscard]] FERRY_ALWAYS_INLINE bool check_decision(decision const& d, device from, BackEnd& b, reporter r) {
    if (d.action == action::refuse) return report(r, d.reason, d.text);
    bool const copies = d.action == action::copy;
    if constexpr (never_copies<BackEnd>)
        if (copies) return report_share_only(from, d.to, r);
    if ((d.wait != wait::none || copies) && !check_support(b, source_for(b, d, from), r)) return false;
    return !copies || check_support(b, d.to, r);
}

/// Copies a tensor into memory of the back end, as `execute` does.
template <managed_struct Raw, class BackEnd, class Source>
[[nodiscard]] FERRY_NOINLINE Raw* copy_to_buffer(decision const& d, tensor_view const& v, stream_token ready_on,
                                                 BackEnd& b, Source source, reporter r) {
    if (!source.is_validated() && !check_view(v, r)) return nullptr;
    tensor_view const sized{static_cast<void*>(nullptr), v.dtype(), v.shape(),
                            strides_of_copy(v, d),       d.to,      d.bits & flags::subbyte_padded};
    auto memory = b.allocate(d.to, static_cast<std::size_t>(sized.nbytes()), d.on);
    if (!check_memory(memory, r)) return nullptr;
    return copy_into<Raw>(std::move(unwrapped(memory)), describe_memory{sized}, v, d, ready_on, b, source, r);
}

/// Carries out a decision for a tensor `v` that is ready on `ready_on`. Returns null on failure. `Checked`: the caller
/// has called `check_decision`.
///
/// Copies into memory from array_traits<Array>::allocate, if defined, else from the back end; for placement::exact,
/// always from the back end. `share()` returns the struct for a decision to share. `source` is the owner of `v`, a
/// tensor_source or an array_source; without one, the caller keeps `v` alive until a queued copy has completed.
template <managed_struct Raw, class Array, bool Checked = false, class BackEnd, class Share,
          class Source = tensor_source>
[[nodiscard]] FERRY_ALWAYS_INLINE Raw* execute(decision const& d, tensor_view const& v, stream_token ready_on,
                                               BackEnd& b, Share share, reporter r, Source source = {}) {
    if (!Checked && !check_decision(d, v.device(), b, r)) return nullptr;
    if (d.action == action::share) return wait_to_share(ready_on, v.device(), d, b, r) ? share() : nullptr;
    if constexpr (never_copies<BackEnd>) {
        return nullptr;  // not reached: a copy was refused above
    } else {
        if constexpr (allocates<Array>) {
            if (!has_space<BackEnd> || d.placement == placement::any) {
                if (!source.is_validated() && !check_view(v, r)) return nullptr;
                auto memory = allocate_array<Array>(v.dtype(), v.shape(), d.to, d.on);
                if (!check_memory(memory, r)) return nullptr;
                return copy_into<Raw>(std::move(unwrapped(memory)), describe, v, d, ready_on, b, source, r);
            }
        }
        if constexpr (!allocates<Array> || has_space<BackEnd>) return copy_to_buffer<Raw>(d, v, ready_on, b, source, r);
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
        is_unchanged = is_same_device(d.to, v.device()) && !lacks_strides;
        if (is_unchanged) return nullptr;
        auto const bits = d.bits | (v.flags() & flags::is_copied);
        return make_valid_raw<DLManagedTensorVersioned, calls_functions<BackEnd>>(std::move(tensor), fixed_view{v}, v,
                                                                                  d.to, bits, d.stamp, r);
    };
    auto* const raw = execute<DLManagedTensorVersioned, Consumer>(d, v, ready_on, b, share, r, tensor_source{&tensor});
    if (is_unchanged) return std::move(tensor);  // keeps the checked fields; does not read the struct again (R33)
    if (raw == nullptr) return {};
    managed_tensor const released{std::move(tensor)};  // the copy no longer reads the source
    return trusted::adopt(raw);
}

}  // namespace FERRY_NAMESPACE::detail
