#include <minitensor/error.hpp>

#include "cuda.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <vector>

namespace mt::cuda {
namespace {

void check(cudaError_t e, char const* call) {
    if (e == cudaSuccess) return;
    static_cast<void>(cudaGetLastError());
    if (e == cudaErrorMemoryAllocation) throw std::bad_alloc{};
    throw buffer_error{std::string{"CUDA: "} + call + ": " + cudaGetErrorName(e) + " (" +
                       cudaGetErrorString(e) + ")"};
}

class on_device {
   public:
    explicit on_device(int id) {
        check(cudaGetDevice(&before_), "cudaGetDevice");
        if (before_ != id) check(cudaSetDevice(id), "cudaSetDevice");
        changed_ = before_ != id;
    }
    on_device(on_device const&) = delete;
    on_device& operator=(on_device const&) = delete;
    ~on_device() {
        if (changed_) static_cast<void>(cudaSetDevice(before_));
    }

   private:
    int before_ = 0;
    bool changed_ = false;
};

cudaStream_t handle_of(stream const& s) { return reinterpret_cast<cudaStream_t>(s.handle); }

/// Returns the number of devices, or the error of the driver. Queries the driver until it reports a device.
cudaError_t count_devices(int& count) noexcept {
    static std::mutex mutex;
    static int known = 0;
    std::lock_guard const lock{mutex};
    cudaError_t e = cudaSuccess;
    if (known == 0) {
        e = cudaGetDeviceCount(&known);
        if (e != cudaSuccess) {
            static_cast<void>(cudaGetLastError());
            known = 0;
        }
    }
    count = known;
    return e;
}

/// The memory pool of one device, and a stream that is used only for allocations. Allocations wait for no work: memory
/// that was freed on a stream is reused once that stream has reached the free.
struct heap {
    cudaMemPool_t pool = nullptr;
    cudaStream_t allocations = nullptr;

    explicit heap(int id) {
        on_device const current{id};
        cudaMemPoolProps facts{};
        facts.allocType = cudaMemAllocationTypePinned;
        facts.location = {cudaMemLocationTypeDevice, id};
        check(cudaStreamCreateWithFlags(&allocations, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
        check(cudaMemPoolCreate(&pool, &facts), "cudaMemPoolCreate");
        int no = 0;
        check(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &no), "cudaMemPoolSetAttribute");
        for (int other = 0; other < device_count(); ++other) {
            int can = 0;
            check(cudaDeviceCanAccessPeer(&can, other, id), "cudaDeviceCanAccessPeer");
            cudaMemAccessDesc const access{{cudaMemLocationTypeDevice, other}, cudaMemAccessFlagsProtReadWrite};
            if (can != 0) check(cudaMemPoolSetAccess(pool, &access, 1), "cudaMemPoolSetAccess");
        }
        std::uint64_t kept = std::uint64_t{1} << 30;  // bytes
        check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept), "cudaMemPoolSetAttribute");
    }
};

/// Never destroyed: at the end of the program CUDA may shut down first.
heap& heap_of(int id) {
    static std::mutex mutex;
    static auto& heaps = *new std::map<int, heap>;
    std::lock_guard const lock{mutex};
    return heaps.try_emplace(id, id).first->second;
}

/// Pieces of pinned memory through which `upload` copies; a piece is free again once its copy has run.
class stage {
   public:
    static constexpr std::size_t piece = 256 * 1024;
    static constexpr std::size_t most = 256;

    /// Fills a piece, and queues its copy, on the current device.
    void send(void* to, void const* from, std::size_t bytes, cudaStream_t s) {
        std::lock_guard const lock{mutex_};
        slot& free = take();
        std::memcpy(free.memory, from, bytes);
        check(cudaMemcpyAsync(to, free.memory, bytes, cudaMemcpyHostToDevice, s), "cudaMemcpyAsync");
        check(cudaEventRecord(free.sent, s), "cudaEventRecord");
    }

   private:
    struct slot {
        void* memory = nullptr;
        cudaEvent_t sent = nullptr;
    };

    slot& take() {
        for (auto& s : slots_) {
            cudaError_t const e = cudaEventQuery(s.sent);
            if (e == cudaSuccess) return s;
            if (e != cudaErrorNotReady) check(e, "cudaEventQuery");
        }
        if (slots_.size() < most) {
            slot fresh;
            check(cudaEventCreateWithFlags(&fresh.sent, cudaEventDisableTiming), "cudaEventCreateWithFlags");
            check(cudaHostAlloc(&fresh.memory, piece, cudaHostAllocPortable), "cudaHostAlloc");
            return slots_.emplace_back(fresh);
        }
        auto& next = slots_[turn_++ % most];
        check(cudaEventSynchronize(next.sent), "cudaEventSynchronize");
        return next;
    }

    std::mutex mutex_;
    std::vector<slot> slots_;
    std::size_t turn_ = 0;
};

stage& stage_of(int id) {
    static std::mutex mutex;
    static auto& stages = *new std::map<int, stage>;
    std::lock_guard const lock{mutex};
    return stages[id];
}

}  // namespace

int device_count() noexcept {
    int count = 0;
    static_cast<void>(count_devices(count));
    return count;
}

void require(device d) {
    int count = 0;
    if (auto const e = count_devices(count); count == 0) {
        throw buffer_error{name(d) + " memory is not available: there is no CUDA driver or device here (" +
                           cudaGetErrorName(e) + ")"};
    }
    if (d.type == device::cuda && (d.id < 0 || d.id >= count)) {
        throw buffer_error{name(d) + " memory is not available: CUDA has " + std::to_string(count) + " device(s) here"};
    }
}

void* allocate(std::size_t bytes, device d) {
    require(d);
    void* p = nullptr;
    if (bytes == 0) return p;
    if (d.type == device::cuda_host) {
        check(cudaHostAlloc(&p, bytes, cudaHostAllocPortable), "cudaHostAlloc");
    } else if (d.type == device::cuda_managed) {
        check(cudaMallocManaged(&p, bytes, cudaMemAttachGlobal), "cudaMallocManaged");
    } else {
        on_device const current{d.id};
        auto const& heap = heap_of(d.id);
        check(cudaMallocFromPoolAsync(&p, bytes, heap.pool, heap.allocations), "cudaMallocFromPoolAsync");
        check(cudaStreamSynchronize(heap.allocations), "cudaStreamSynchronize");
    }
    return p;
}

void deallocate(void* p, device d, stream const& last) noexcept {
    cudaError_t e = cudaSuccess;
    if (d.type == device::cuda_host) {
        e = cudaFreeHost(p);
    } else if (d.type == device::cuda_managed) {
        e = cudaFree(p);
    } else {
        try {
            on_device const current{last.handle == 0 ? d.id : last.device};
            e = cudaFreeAsync(p, last.handle == 0 ? cudaStreamLegacy : handle_of(last));
        } catch (...) {  // CUDA has shut down, which has freed the memory
        }
    }
    if (e != cudaSuccess) static_cast<void>(cudaGetLastError());
}

std::int32_t device_of(std::uintptr_t stream_handle) {
    int id = 0;
    if (stream_handle == 1 || stream_handle == 2) {
        check(cudaGetDevice(&id), "cudaGetDevice");
        return id;
    }
    auto const s = reinterpret_cast<cudaStream_t>(stream_handle);
    auto capture = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(s, &capture), "cudaStreamIsCapturing");
    // A query of its device would invalidate the capture.
    if (capture != cudaStreamCaptureStatusNone) throw buffer_error{"the stream is being captured into a graph"};
    check(cudaStreamGetDevice(s, &id), "cudaStreamGetDevice");
    return id;
}

void order(stream const& earlier, stream const& later) {
    if (earlier == later || earlier.handle == 0 || later.handle == 0) return;
    auto const reached = mark(earlier);
    on_device const current{later.device};
    check(cudaStreamWaitEvent(handle_of(later), static_cast<cudaEvent_t>(reached.get()), 0), "cudaStreamWaitEvent");
}

void wait(stream const& s) {
    if (s.handle == 0) return;
    on_device const current{s.device};
    check(cudaStreamSynchronize(handle_of(s)), "cudaStreamSynchronize");
}

void synchronize(std::int32_t id) {
    require({device::cuda, id});
    on_device const current{id};
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

std::shared_ptr<void> mark(stream const& s) {
    on_device const current{s.device};
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    std::shared_ptr<void> owned{event, [](void* e) { static_cast<void>(cudaEventDestroy(static_cast<cudaEvent_t>(e))); }};
    check(cudaEventRecord(event, handle_of(s)), "cudaEventRecord");
    return owned;
}

bool passed(void* mark) noexcept {
    cudaError_t const e = cudaEventQuery(static_cast<cudaEvent_t>(mark));
    if (e == cudaErrorNotReady) return false;
    if (e != cudaSuccess) static_cast<void>(cudaGetLastError());
    return true;  // also after the device has failed: it runs no work
}

void copy(void* to, void const* from, std::size_t bytes, stream const& s) {
    on_device const current{s.device};
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, handle_of(s)), "cudaMemcpyAsync");
}

void spread(void* to, void const* from, box const& b, stream const& s) {
    on_device const current{s.device};
    cudaMemcpy3DParms all{};
    all.dstPtr = {to, b.pitch, b.width, b.slice};
    all.srcPtr = {const_cast<void*>(from), b.width, b.width, b.rows};
    all.extent = {b.width, b.rows, b.slices};
    all.kind = cudaMemcpyDefault;
    check(cudaMemcpy3DAsync(&all, handle_of(s)), "cudaMemcpy3DAsync");
}

void set(void* to, unsigned char value, std::size_t bytes, stream const& s) {
    on_device const current{s.device};
    check(cudaMemsetAsync(to, value, bytes, handle_of(s)), "cudaMemsetAsync");
}

void upload(void* to, void const* from, std::size_t bytes, stream const& s) {
    on_device const current{s.device};
    auto& stage = stage_of(s.device);
    for (std::size_t at = 0; at < bytes; at += stage::piece) {
        stage.send(static_cast<char*>(to) + at, static_cast<char const*>(from) + at, std::min(stage::piece, bytes - at), handle_of(s));
    }
}

}  // namespace mt::cuda
