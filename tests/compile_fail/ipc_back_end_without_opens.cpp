// expect: and is no ferry::ipc::handle_back_end: add the operation that the compiler names
// expect: opens
// An operation of the back end is missing: it would be used without its handles.
#include <ferry/ipc/attach.hpp>
#include <support/sim_ipc.hpp>

struct back_end : support::sim_shareable {
    using sim_shareable::sim_shareable;
#ifdef FERRY_COMPILE_FAIL
    void opens() const;
#endif
};

auto attached(ferry::wire::descriptor const& from, back_end& b) { return ferry::ipc::attach(from, b); }
