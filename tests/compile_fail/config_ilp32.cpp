// expect: ferry/ipc needs 64-bit Linux: ask FERRY_HAS_IPC
// with: -U__LP64__
#include <ferry/ipc.hpp>
// next case
// with: -U__linux__
#include <ferry/ipc.hpp>
