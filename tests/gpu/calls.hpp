// Counts the calls that ferry makes of CUDA's runtime, and of the driver by functions that it looked up, and makes the
// n-th of them fail. calls.cpp puts itself before the shared libcudart; in a program that links it statically nothing
// is counted, and tests that count say so.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace support::calls {

enum class of : std::uint8_t {
    record,
    wait_event,
    synchronize,
    copy,
    launch,
    allocate,
    free,
    create_event,
    device_synchronize,
    query,
    current,
    count
};

/// Whether calls pass here at all.
[[nodiscard]] bool are_seen();
/// Since the last reset, over all threads.
[[nodiscard]] int count(of which);
/// All of the kinds, of all but queries.
[[nodiscard]] int count();
void reset();

/// The n-th call of any kind but `free` and `current`, of which deleters make use, fails from now on with
/// cudaErrorInvalidValue (1: the next; 0: none). Waits that fail have waited all the same, so that no memory is freed
/// under a copy.
void fail_at(int n);
/// Whether it has failed.
[[nodiscard]] bool has_failed();

}  // namespace support::calls
