#include <ferry/ipc/handles.hpp>

// The back end of the host exports no handles: host memory is shared in segments.
static_assert(!ferry::ipc::handle_back_end<ferry::host_back_end const>);
