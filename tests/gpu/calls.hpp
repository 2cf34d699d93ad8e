// Counts the calls that ferry makes of CUDA's runtime, and of the driver by functions that it looked up, and makes the
// n-th of them fail. calls.cpp puts itself before the shared libcudart; in a program that links it statically nothing
// is counted, and tests that count say so. tests/layers/cuda_calls.py holds it against what the headers call.
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
    advice,  ///< what ferry does without where it cannot be had: access of peers, capture modes, a pointer's facts
    count
};

/// What a call that is made to fail says, and which calls those are.
enum class failure : std::uint8_t {
    invalid,        ///< cudaErrorInvalidValue: all but those that give back, `current` and `advice`
    out_of_memory,  ///< cudaErrorMemoryAllocation: what allocates, creates and loads
    lost,           ///< cudaErrorLaunchFailure, as of a kernel that failed before: waits, events, copies and launches
    advice,         ///< cudaErrorInvalidValue: `advice`
    current,        ///< cudaErrorInvalidDevice: `current`
    unwaited,       ///< cudaErrorInvalidValue: waits, which then have not waited
};

/// Whether calls pass here at all.
[[nodiscard]] bool are_seen();
/// Since the last reset, over all threads.
[[nodiscard]] int count(of which);
/// Of the kinds before queries.
[[nodiscard]] int count();
void reset();

/// The n-th of the calls that can fail so fails from now on (1: the next; 0: none, and what has failed stays known).
/// Waits that fail have waited all the same, but for `unwaited`, so that no memory is freed under a copy.
void fail_at(int n, failure how = failure::invalid);
/// Whether it has failed.
[[nodiscard]] bool has_failed();
/// Whether it was of this kind, so that it made nothing.
[[nodiscard]] bool has_failed(of which);

/// Notes blocks that a test leaves behind by design; how many that are so far. A program may look for others at its
/// end.
std::int64_t leaves(std::int64_t blocks = 0);

}  // namespace support::calls
