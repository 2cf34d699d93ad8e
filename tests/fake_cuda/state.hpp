// The state of the fake. One mutex guards all of it except the bytes; work on a stream runs without it.
#pragma once

#include <fake_cuda/arena.hpp>
#include <fake_cuda/fake.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace fake {

inline constexpr int devices = 2;

struct stream;
struct pool;

/// A capture in progress, and later the graph: its work in the sequence of capture.
struct capture {
    unsigned long long id = 0;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    std::uint64_t thread = 0;
    bool is_valid = true;
    std::vector<std::function<void()>> nodes;
    std::vector<cudaGraphNode_t> names;
    std::vector<cudaGraphEdgeData> edges;
};

/// One record of an event; waits refer to it, also after later records.
struct moment {
    bool is_reached = false;
    std::shared_ptr<capture> in;
};

struct event {
    int device = 0;
    std::shared_ptr<moment> latest;
    std::shared_ptr<shared_event> shared;  // with other processes
    pid_t whose = 0;                       // another process's
};

struct work {
    std::function<void()> run;
    std::vector<std::pair<std::shared_ptr<stream>, std::uint64_t>> after;  // as default streams wait for each other
    std::shared_ptr<moment> waits_for;
};

struct stream {
    int device = 0;
    bool is_blocking = false, is_legacy = false, has_thread = false, ends = false;
    unsigned long long id = 0;
    std::uint64_t queued = 0, done = 0;
    std::deque<work> todo;
    std::condition_variable more;
    std::shared_ptr<capture> in;
};

/// Pages of another process, mapped where no device accesses them.
struct window {
    std::byte* here = nullptr;  // byte 0 of the block
    void *pages = nullptr, *addresses = nullptr;
    std::size_t bytes = 0;  // of both
    pid_t whose = 0;
    std::uint64_t id = 0;  // there
    int opened = 1;
    void close();
};

/// Allocated memory.
struct block {
    enum class is { promised, alive, freed };  // promised: its stream has not got there
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;
    unsigned long long id = 0;
    cudaMemoryType type = cudaMemoryTypeDevice;
    int device = 0;
    is now = is::alive;
    std::shared_ptr<pool> from;
    bool is_registered = false;  // the host's own
    bool is_virtual = false;     // mapped by virtual memory calls
    std::shared_ptr<struct window> window;
    [[nodiscard]] bool is_imported() const { return window != nullptr; }
    /// Whether other GPUs can access it once they are peers: memory of cudaMalloc in this process.
    [[nodiscard]] bool is_for_peers() const { return from == nullptr && !is_virtual && !is_imported(); }
};

struct pool {
    struct rest {
        std::shared_ptr<block> memory;
        std::shared_ptr<stream> behind;  // which lends it again at once; others only once it is free
    };
    int device = 0;
    unsigned open_to = 0;  // a bit for each device
    cudaMemAllocationHandleType handle_types = cudaMemHandleTypeNone;
    std::uint64_t used = 0;
    bool is_gone = false;
    std::vector<rest> rests;
};

/// The allocation of an address when work on it was queued; null for pageable memory.
struct place {
    void const* p = nullptr;
    std::size_t bytes = 0;
    std::shared_ptr<block> of;
};

struct everything {
    std::mutex mutex;
    std::condition_variable progress;
    std::set<std::shared_ptr<stream>> running;  // those that have a thread, destroyed or not
    unsigned long long last_id = 16;
    std::map<cudaStream_t, std::shared_ptr<stream>> streams;
    std::map<cudaEvent_t, std::shared_ptr<event>> events;
    std::map<cudaMemPool_t, std::shared_ptr<pool>> pools;
    std::map<std::uintptr_t, std::shared_ptr<block>> blocks;
    std::set<std::shared_ptr<capture>> captures;
    std::shared_ptr<stream> legacy[devices];
    std::shared_ptr<pool> default_pool[devices], current_pool[devices];
    bool is_peer[devices][devices] = {};  // whether the first reads the second
    unsigned long long resets[devices] = {};

    everything();
};

/// Never destroyed: deleters run during the shutdown of the process.
[[nodiscard]] everything& all();

/// Of the calling thread.
struct of_thread {
    int device = 0;
    bool has_context = false;
    cudaError_t last = cudaSuccess;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    std::uint64_t id = 0;
    std::shared_ptr<stream> own[devices];
    of_thread();
    ~of_thread();
};
[[nodiscard]] of_thread& mine();

/// The result of a call of the runtime: an error stays pending until it is queried.
cudaError_t say(cudaError_t e);

// The functions below require the mutex, unless stated otherwise.
[[nodiscard]] std::shared_ptr<stream> find(cudaStream_t s);  // null, after a fault
[[nodiscard]] std::shared_ptr<block> block_of(void const* p);
/// Whether kernels of a device may access it, as far as its pool or its allocation determines.
[[nodiscard]] bool has_leave(block const& b, int device);
[[nodiscard]] std::shared_ptr<block> add(std::uintptr_t p, std::size_t n, cudaMemoryType type, int device);
[[nodiscard]] std::shared_ptr<event> find_event(cudaEvent_t e);  // null, after a fault
[[nodiscard]] std::shared_ptr<pool> find_pool(cudaMemPool_t p);  // null, after a fault
[[nodiscard]] place place_of(void const* p, std::size_t bytes);
/// Queues, or adds to the capture that the stream is in.
cudaError_t push(std::shared_ptr<stream> const& s, std::function<void()> run, std::shared_ptr<moment> waits_for = {});
/// For calls that fail during a capture on a thread whose mode is not relaxed. cudaSuccess, or the result of the call.
[[nodiscard]] cudaError_t refuse_beside_captures();
/// Blocks until the stream has run all work queued now.
void finish(std::unique_lock<std::mutex>& lock, stream const& s);
void finish_device(std::unique_lock<std::mutex>& lock, int id);
/// An event that other processes can open; null when there are too many.
[[nodiscard]] std::shared_ptr<shared_event> make_shared_event();
/// Without the mutex: waits for the latest record, but not for a process that has ended.
void wait_for(shared_event const& e, std::uint64_t turn, pid_t whose);
/// CUDA_VISIBLE_DEVICES: which of the fake's two devices this process sees under its ordinals.
[[nodiscard]] std::vector<int> const& visible();
/// Without the mutex: checks that queued work may access the memory now, and returns its host address.
[[nodiscard]] std::byte* open(place const& p);

}  // namespace fake
