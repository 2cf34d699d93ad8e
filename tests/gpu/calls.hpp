// Counts ferry's calls of the CUDA runtime, and of driver functions that it looked up, and makes the n-th of them fail.
// calls.cpp interposes the shared libcudart; in a program that links it statically no call is counted, and tests that
// count report that. tests/layers/cuda_calls.py compares it with the calls in the headers.
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
    current,  ///< what deleters, too, ask or set first: the current device, and whether a capture is in the way
    create_stream,
    create_pool,
    destroy_event,
    destroy_stream,
    destroy_pool,
    load,  ///< kernels, and functions of the driver
    unload,
    share,  ///< handles for other processes, and what was opened by one
    close,
    graph,   ///< what a capture holds
    advice,  ///< optional: ferry continues without peer access, capture modes or pointer attributes
    count
};

/// The error that a call returns when it is made to fail, and which calls those are.
enum class failure : std::uint8_t {
    invalid,        ///< cudaErrorInvalidValue: all but those that give back, `current` and `advice`
    out_of_memory,  ///< cudaErrorMemoryAllocation: what allocates, creates and loads
    lost,           ///< cudaErrorLaunchFailure, as of a kernel that failed before: waits, events, copies and launches
    advice,         ///< cudaErrorInvalidValue: `advice`
    current,        ///< cudaErrorInvalidDevice: `current`
    unwaited,       ///< cudaErrorInvalidValue: waits, which then have not waited
};

/// Whether calls are interposed.
[[nodiscard]] bool are_seen();
/// Since the last reset, over all threads.
[[nodiscard]] int count(of which);
/// Of the kinds listed before queries.
[[nodiscard]] int count();
void reset();

/// Makes the n-th of the calls that can fail in this way fail from now on (1: the next; 0: none, and earlier failures
/// stay recorded). Waits that fail have waited nevertheless, except for `unwaited`, so that no memory is freed during a
/// copy.
void fail_at(int n, failure how = failure::invalid);
/// Whether that call has failed.
[[nodiscard]] bool has_failed();
/// Whether it was of this kind, and so created nothing.
[[nodiscard]] bool has_failed(of which);

/// Records blocks that a test leaves allocated by design; returns their number so far. A program may check for others
/// at its end.
std::int64_t leaves(std::int64_t blocks = 0);

}  // namespace support::calls
