// ferry: a back end that lets other Python threads run while it works.
#pragma once

#include <ferry/python/gil.hpp>

#include <ferry/space/back_end.hpp>

#include <cstdint>

namespace ferry::inline v0::python::detail {

/// Waits always, and copies of some size, happen without the GIL: the thread that a stream waits for may need it.
/// Borrows the back end underneath.
template <back_end BackEnd>
class gil_releasing_back_end : public ferry::detail::forwarding<BackEnd> {
    using base = ferry::detail::forwarding<BackEnd>;

   public:
    using base::base;

    decltype(auto) copy(copy_plan const& plan, void* dst, device to, void const* src, device from,
                        stream_token on) const {
        if (from.type == device_type::cpu && to.type == device_type::cpu && plan.total_bytes < worth_yielding)
            return base::copy(plan, dst, to, src, from, on);
        without_gil const others_run;
        return base::copy(plan, dst, to, src, from, on);
    }
    void wait(stream_token on) const {
        without_gil const others_run;
        base::wait(on);
    }

   private:
    /// Below this a copy is over before another thread could have taken the GIL.
    static constexpr std::int64_t worth_yielding = 64 * 1024;
};
template <class BackEnd>
gil_releasing_back_end(BackEnd&) -> gil_releasing_back_end<BackEnd>;

}  // namespace ferry::inline v0::python::detail
