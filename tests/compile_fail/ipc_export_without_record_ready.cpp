// expect: returns is no ferry::ipc::exported_memory: add the operation that the compiler names
// expect: record_ready
// An operation of exported memory is missing: the back end would be used without its handles.
#include <ferry/ipc/attach.hpp>
#include <support/sim_ipc.hpp>

struct memory {
    [[nodiscard]] ferry::wire::memory const& description() const;
    void wait_ready(ferry::stream_token);
#ifndef FERRY_COMPILE_FAIL
    void record_ready(ferry::stream_token);
#endif
    bool order_after(ferry::ipc::event_handle const&, ferry::stream_token);
};

struct back_end : support::sim_shareable {
    using sim_shareable::sim_shareable;
    memory export_memory(ferry::ipc::byte_range const&, ferry::device, ferry::stream_token) const;
};

auto attached(ferry::wire::descriptor const& from, back_end& b) { return ferry::ipc::attach(from, b); }
