// expect: add a member wait_for_event\(ferry::device, ferry::stream_token\) const to the event
// Neither the event nor the back end can make a stream wait for it.
#include <ferry/exchange/to_dlpack.hpp>

struct event {
#ifndef FERRY_COMPILE_FAIL
    void wait_for_event(ferry::device, ferry::stream_token) const {}
#endif
};
struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array const& a) { return {&a.value, {}}; }
    static event ready_on(array const&) { return {}; }
};

auto exported(array& a) { return ferry::to_dlpack(a, {.copy = ferry::copy_policy::always}); }
