// ferry: performs the waits and the copy of a decision.
#pragma once

#include <ferry/base/detail/catching.hpp>
#include <ferry/exchange/negotiate.hpp>
#include <ferry/exchange/producer.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/copy_plan.hpp>
#include <ferry/space/detail/check_copy.hpp>
#include <ferry/space/detail/operations.hpp>

#include <cstddef>

namespace FERRY_NAMESPACE::detail {

/// Makes the stream of the decision wait for `ready_on`, the stream on which data on `from` is ready.
template <class BackEnd>
[[nodiscard]] bool order_after(stream_token ready_on, device from, decision const& d, BackEnd& b, reporter r) {
    return order_streams(ready_on.bound_to(from), d.on, b, r);
}

/// Performs the wait of a decision to share data on `from` that is ready on `ready_on`.
template <class BackEnd>
[[nodiscard]] FERRY_ALWAYS_INLINE bool wait_to_share(stream_token ready_on, device from, decision const& d, BackEnd& b,
                                                     reporter r) {
    if (d.wait == wait::order && !order_after(ready_on, from, d, b, r)) return false;
    return d.wait != wait::host || perform(r, [&] { return b.wait(d.on); });
}

/// Returns whether a copy may still read `source` after the exchange has returned. Host memory has been read by then;
/// see `back_end`.
[[nodiscard]] constexpr bool reads_after_return(decision const& d, device source) noexcept {
    return d.action == action::copy && d.on.names_stream() && d.wait != wait::host && source.type != device_type::cpu;
}

/// Returns the device of a source to pass to the back end: cpu if the memory is host-accessible, has no pending work,
/// and is copied to the CPU by a back end that does not reach its device (R39); otherwise `dev`.
[[nodiscard]] device source_for(auto& b, decision const& d, device dev) {
    bool const host_copies = d.to.type == device_type::cpu && is_host_accessible(dev) && !d.on.names_stream();
    return host_copies && !b.reaches(dev) ? cpu : dev;
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
    bool const keeps = d.layout == layout::strided && !v.is_contiguous() && !is_packed(v.dtype()) && is_dense(v);
    return keeps ? v.strides() : strides_view{};
}

/// Returns the view of memory that a back end allocated for a dense tensor. Not a lambda, so that exchanges share the
/// code of `copy_into`.
struct describe_memory {
    tensor_view const& sized;  // its data is not used
    [[nodiscard]] tensor_view operator()(auto& memory) const noexcept {
        return {static_cast<void*>(memory.data()),
                sized.dtype(),
                sized.shape(),
                sized.strides(),
                sized.device(),
                sized.flags()};
    }
};

/// Fails unless the memory of a copy is on the requested device, and a struct of type `Raw` can describe its packing.
template <managed_struct Raw>
[[nodiscard]] inline bool check_fresh(tensor_view const& fresh, device to, reporter r) {
    if (!is_same_device(fresh.device(), to))
        return report(r, errc::device,
                      message{"array_traits::allocate returned memory on "}
                          << name(fresh.device().type) << ":" << fresh.device().id << ", expected " << name(to.type)
                          << ":" << to.id << ": report an error for unsupported devices");
    return !std::same_as<Raw, DLManagedTensor> || check_legacy_flags(fresh.flags() & flags::subbyte_padded, r);
}

/// The source of a copy: a tensor, whose view has been validated; or, if null, memory that the caller keeps.
struct tensor_source {
    using kept_type = managed_tensor;
    managed_tensor* tensor = nullptr;

    [[nodiscard]] bool is_validated() const noexcept { return tensor != nullptr; }
    /// Moves the source into the copy that a stream still makes from it.
    template <class BackEnd>
    [[nodiscard]] bool keep(managed_tensor& kept, void const*, stream_token, BackEnd&, reporter) const noexcept {
        if (tensor != nullptr) kept = std::move(*tensor);
        return true;
    }
};

/// The source of a copy: an array that is moved, after all that can fail (D25).
template <class Array>
struct array_source {
    using kept_type = std::optional<Array>;
    Array& array;

    [[nodiscard]] static constexpr bool is_validated() noexcept { return false; }
    /// Moves the array, whose elements are at `data`, into the copy that `on` still makes from it. If the elements do
    /// not keep their address, waits for the copy instead.
    template <class BackEnd>
    [[nodiscard]] bool keep(std::optional<Array>& kept, void const* data, stream_token on, BackEnd& b,
                            reporter r) const {
        if (!is_within(data, &reinterpret_cast<unsigned char const&>(array), sizeof array)) {
            bool const is_kept = on_exception(
                [&] {
                    kept.emplace(std::move(array));
                    auto const described = describe(*kept);
                    if constexpr (is_result<std::remove_const_t<decltype(described)>>)
                        if (!described) return false;
                    return unwrapped(described).data() == data;
                },
                [&] { static_cast<void>(b.wait(on)); });
            if (is_kept) return true;
        }
        return perform(r, [&] { return b.wait(on); });
    }
};

/// Copies `v` into the new memory that `owner` holds and `view_of_owner` describes, and performs the waits of the
/// decision. Returns null on failure.
///
/// Creates the struct before it queues the copy, so that a failed allocation cannot free memory that a queued copy
/// writes. The result owns `source` while a stream may read it (R50); its deleter waits for an incomplete copy
/// (`marking_back_end`). On failure `source` is unchanged (D25).
template <managed_struct Raw, class Owner, class ViewOf, class BackEnd, class Source>
[[nodiscard]] Raw* copy_into(Owner&& owner, ViewOf view_of_owner, tensor_view const& v, decision const& d,
                             stream_token ready_on, BackEnd& b, Source source, reporter r) {
    using contents_type = copy_with_source<Owner, typename Source::kept_type, queued_by<BackEnd>>;
    contents_type contents{std::move(owner)};
    raw_owner<Raw> made{nullptr};
    stream_memory_guard guard{b, d.on, d.to};
    auto const described = view_of_owner(contents.memory);
    if (!check_result(described, r)) return nullptr;
    tensor_view const& fresh = unwrapped(described);
    if (!check_fresh<Raw>(fresh, d.to, r)) return nullptr;
    if (std::same_as<ViewOf, describe_t> && !check_view(fresh, r)) return nullptr;  // from an adapter
    auto const packing = fresh.flags() & flags::subbyte_padded;
    auto const view_at = [&](contents_type& c) { return view_of_owner(c.memory); };
    auto const bits = (d.bits & ~flags::subbyte_padded) | packing;
    Raw* const raw = make_valid_raw<Raw>(std::move(contents), view_at, fresh, d.to, bits, d.stamp, r);
    if (raw == nullptr) return nullptr;
    made.reset(raw);
    auto& copy = static_cast<block<Raw, contents_type>*>(raw->manager_ctx)->owner;
    tensor_view const dst{raw->dl_tensor, fresh.flags()};
    std::int64_t count = 0;
    if (!check_copy(dst, v, count, r)) return nullptr;  // also compares the shapes and types of empty tensors
    if (auto const plan = plan_copy(dst, v, count); plan.kind != copy_kind::empty) {
        if (d.wait == wait::order && !order_after(ready_on, v.device(), d, b, r)) return nullptr;
        auto const from = source_for(b, d, v.device());
        bool is_complete = false;
        bool const is_queued =
            d.wait == wait::host ? copy_and_wait(b, plan, untyped_data(dst), d.to, v.data(), from, d.on, r)
                                 : queue_copy(b, plan, untyped_data(dst), d.to, v.data(), from, d.on, is_complete, r) &&
                                       (is_complete || mark_queued(b, d.on, copy.queued, r));
        if (!is_queued) return nullptr;
        if (reads_after_return(d, v.device()) && !source.keep(copy.source, v.data(), d.on, b, r)) return nullptr;
    }
    guard.done();
    return made.release();
}

}  // namespace FERRY_NAMESPACE::detail
