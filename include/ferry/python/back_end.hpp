// ferry: a back end that lets other Python threads run while it works.
#pragma once

#include <ferry/python/gil.hpp>

#include <ferry/space/back_end.hpp>

#include <cstddef>

namespace ferry::inline v0::python::detail {

/// Waits always, and copies of some size, happen without the GIL: the thread that a stream waits for may need it.
/// Borrows the back end underneath.
template <back_end BackEnd>
class yielding {
   public:
    explicit yielding(BackEnd& underneath) noexcept : underneath_{&underneath} {}

    [[nodiscard]] bool reaches(device d) const { return underneath_->reaches(d); }
    [[nodiscard]] auto allocate(device d, std::size_t bytes, stream_token on) const {
        return underneath_->allocate(d, bytes, on);
    }
    decltype(auto) copy(copy_plan const& plan, void* dst, device to, void const* src, device from,
                        stream_token on) const {
        if (from.type == device_type::cpu && to.type == device_type::cpu && plan.total_bytes < worth_yielding)
            return underneath_->copy(plan, dst, to, src, from, on);
        without_gil const others_run;
        return underneath_->copy(plan, dst, to, src, from, on);
    }
    void order(stream_token from, stream_token to) const { underneath_->order(from, to); }
    void wait(stream_token on) const {
        without_gil const others_run;
        underneath_->wait(on);
    }

   private:
    /// Below this a copy is over before another thread could have taken the GIL.
    static constexpr std::int64_t worth_yielding = 64 * 1024;
    BackEnd* underneath_;
};

}  // namespace ferry::inline v0::python::detail
