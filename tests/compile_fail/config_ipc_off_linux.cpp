// expect: ferry/ipc needs Linux: ask FERRY_HAS_IPC
// with: -U__linux__
#include <ferry/ipc.hpp>
