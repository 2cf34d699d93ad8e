// ferry: a back end that releases the GIL during waits, device copies and large host copies.
#pragma once

#include <ferry/python/gil.hpp>

#include <ferry/space/back_end_ref.hpp>
#include <ferry/space/detail/operations.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE::python::detail {

/// A back end that forwards to another one. Releases the GIL during waits and during copies from or to a device,
/// because the thread that queues the awaited work may need the GIL, and during host copies of 64 KiB or more, so that
/// other threads can run. Stores a pointer to the other back end, which must outlive this object. Requires the GIL.
template <back_end BackEnd>
class gil_releasing_back_end : public ferry::detail::changed_back_end<BackEnd> {
    using base = ferry::detail::changed_back_end<BackEnd>;

   public:
    static constexpr bool calls_functions = true;

    using base::base;

    decltype(auto) copy(copy_plan const& plan, void* dst, device to, void const* src, device from,
                        stream_token on) const {
        if (from.type == device_type::cpu && to.type == device_type::cpu && plan.total_bytes < release_threshold)
            return base::copy(plan, dst, to, src, from, on);
        without_gil const released;
        return base::copy(plan, dst, to, src, from, on);
    }
    decltype(auto) wait(stream_token on) const {
        without_gil const released;
        return base::wait(on);
    }
    template <class Event>
        requires(ferry::detail::waits_for<BackEnd, Event> || ferry::detail::waits_itself<Event>)
    decltype(auto) wait_for_event(Event const& event, device d, stream_token on) const {
        if (on.names_stream()) return ferry::detail::wait_for_event(this->underneath(), event, d, on);
        without_gil const released;
        return ferry::detail::wait_for_event(this->underneath(), event, d, on);
    }

   private:
    /// Minimum size, in bytes, of host copies that release the GIL. Smaller copies finish before another thread can
    /// acquire the GIL.
    static constexpr std::int64_t release_threshold = 64 * 1024;
};
template <class BackEnd>
gil_releasing_back_end(BackEnd&) -> gil_releasing_back_end<BackEnd>;

/// Returns the back end for code that is compiled once: the host back ends, and a reference to any other one, unless it
/// never copies.
template <class BackEnd>
[[nodiscard]] constexpr decltype(auto) compiled_back_end(BackEnd& b) noexcept {
    if constexpr (std::same_as<std::remove_const_t<BackEnd>, host_back_end>) return (host_only);
    else if constexpr (std::same_as<std::remove_const_t<BackEnd>, share_only_back_end>) return (share_only);
    else if constexpr (ferry::detail::never_copies<BackEnd>) return (b);
    else return back_end_ref{b};
}
template <class BackEnd>
using compiled_type = std::remove_cvref_t<decltype(compiled_back_end(std::declval<BackEnd&>()))>;

}  // namespace FERRY_NAMESPACE::python::detail
