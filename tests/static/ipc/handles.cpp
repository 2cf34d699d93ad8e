#include <ferry/ipc/attach.hpp>
#include <ferry/ipc/attach_column.hpp>
#include <ferry/ipc/handles.hpp>
#include <ferry/ipc/registry.hpp>
#include <ferry/ipc/share_column.hpp>

// The back end of the host exports no handles: host memory is shared in segments.
static_assert(!ferry::ipc::handle_back_end<ferry::host_back_end const>);

// A back end may be left out in braces, and braces in place of options are options.
template <class Descriptor>
constexpr bool takes_braces = requires(Descriptor const& d, ferry::column const& c) {
    ferry::ipc::attach(d, {});
    ferry::ipc::attach(d, {}, {});
    ferry::ipc::attach_column(d, {});
    ferry::ipc::attach_column(d, {}, {});
    ferry::ipc::share(c, {});
    ferry::ipc::share(c, {}, {});
    ferry::ipc::find_tensor("", "", {}, {}, {});
};
static_assert(takes_braces<ferry::wire::descriptor>);
