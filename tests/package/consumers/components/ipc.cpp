#include <ferry/ipc.hpp>
#include <ferry/ipc/server.hpp>

bool ipc_works();
bool ipc_works() { return !ferry::ipc::socket_directory().empty(); }
