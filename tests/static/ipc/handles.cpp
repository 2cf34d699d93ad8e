#include <ferry/ipc/handles.hpp>

// The back end of the host exports nothing: segments carry its memory.
static_assert(!ferry::ipc::handle_back_end<ferry::host_back_end const>);
