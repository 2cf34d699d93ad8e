#include <gpu/calls.hpp>

#include <ferry/cuda/api.hpp>

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace support::calls {
namespace {

std::array<std::atomic<int>, static_cast<std::size_t>(of::count)> counts{};
std::atomic<int> countdown = 0;
std::atomic<bool> failed = false;

template <class Function>
Function* real(char const* name) {
    void* const found = dlsym(RTLD_NEXT, name);
    if (found == nullptr) {
        std::fprintf(stderr, "%s: not in a shared libcudart\n", name);
        std::abort();
    }
    return reinterpret_cast<Function*>(found);
}

/// Counts a call; whether it is to fail.
bool pass(of kind) {
    ++counts[static_cast<std::size_t>(kind)];
    if (kind == of::free || kind == of::current || countdown == 0) return false;
    if (--countdown != 0) return false;
    failed = true;
    return true;
}

}  // namespace

bool are_seen() {
    int const before = count(of::current);
    int id = 0;
    static_cast<void>(cudaGetDevice(&id));
    return count(of::current) == before + 1;
}
int count(of which) { return counts[static_cast<std::size_t>(which)]; }
int count() {
    int all = 0;
    for (std::size_t i = 0; i < counts.size(); ++i)
        if (i < static_cast<std::size_t>(of::query)) all += counts[i];
    return all;
}
void reset() {
    for (auto& c : counts) c = 0;
}
void fail_at(int n) {
    failed = false;
    countdown = n;
}
bool has_failed() { return failed; }

}  // namespace support::calls

using support::calls::of;

// With per-thread default streams the names are macros for others.
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

// Weak, so that another interposer in the same program wins; are_seen() then says that nothing is counted here.
#define COUNTED(kind, name, parameters, arguments)                                  \
    extern "C" __attribute__((weak)) cudaError_t CUDARTAPI name parameters {        \
        static auto* const next = support::calls::real<decltype(name)>(TEXT(name)); \
        if (support::calls::pass(kind)) return cudaErrorInvalidValue;               \
        return next arguments;                                                      \
    }
#define COUNTED_WAIT(name, parameters, arguments)                                   \
    extern "C" __attribute__((weak)) cudaError_t CUDARTAPI name parameters {        \
        static auto* const next = support::calls::real<decltype(name)>(TEXT(name)); \
        bool const fails = support::calls::pass(of::synchronize);                   \
        cudaError_t const result = next arguments;                                  \
        return fails ? cudaErrorInvalidValue : result;                              \
    }

// Functions of the driver that are looked up. They are handed out as wrappers, under the names that are asked for.
#define COUNTED_DRIVER(kind, name, parameters, arguments)                \
    namespace {                                                          \
    CUresult(CUDAAPI* next_##name) parameters = nullptr;                 \
    CUresult CUDAAPI counted_##name parameters {                         \
        if (support::calls::pass(kind)) return CUDA_ERROR_INVALID_VALUE; \
        return next_##name arguments;                                    \
    }                                                                    \
    }
#define HAND_OUT(name)                                                 \
    if (std::strcmp(symbol, #name) == 0) {                             \
        next_##name = reinterpret_cast<decltype(next_##name)>(*entry); \
        *entry = reinterpret_cast<void*>(&counted_##name);             \
    }

COUNTED_DRIVER(of::record, cuEventRecord, (CUevent e, CUstream s), (e, s))
COUNTED_DRIVER(of::wait_event, cuStreamWaitEvent, (CUstream s, CUevent e, unsigned flags), (s, e, flags))
COUNTED_DRIVER(of::query, cuStreamIsCapturing, (CUstream s, CUstreamCaptureStatus* status), (s, status))
COUNTED_DRIVER(of::query, cuStreamGetDevice, (CUstream s, CUdevice* id), (s, id))
COUNTED_DRIVER(of::query, cuStreamGetId, (CUstream s, unsigned long long* id), (s, id))

extern "C" __attribute__((weak)) cudaError_t CUDARTAPI
cudaGetDriverEntryPointByVersion(char const* symbol, void** entry, unsigned version, unsigned long long flags,
                                 cudaDriverEntryPointQueryResult* found) {
    static auto* const next =
        support::calls::real<decltype(cudaGetDriverEntryPointByVersion)>(TEXT(cudaGetDriverEntryPointByVersion));
    cudaError_t const result = next(symbol, entry, version, flags, found);
    if (result != cudaSuccess || *entry == nullptr) return result;
    HAND_OUT(cuEventRecord)
    HAND_OUT(cuStreamWaitEvent)
    HAND_OUT(cuStreamIsCapturing)
    HAND_OUT(cuStreamGetDevice)
    HAND_OUT(cuStreamGetId)
    return result;
}

COUNTED(of::record, cudaEventRecord, (cudaEvent_t e, cudaStream_t s), (e, s))
COUNTED(of::wait_event, cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t e, unsigned flags), (s, e, flags))
COUNTED_WAIT(cudaStreamSynchronize, (cudaStream_t s), (s))
COUNTED_WAIT(cudaEventSynchronize, (cudaEvent_t e), (e))
COUNTED(of::device_synchronize, cudaDeviceSynchronize, (), ())
COUNTED(of::create_event, cudaEventCreateWithFlags, (cudaEvent_t * e, unsigned flags), (e, flags))
COUNTED(of::copy, cudaMemcpyAsync, (void* d, void const* f, std::size_t n, cudaMemcpyKind k, cudaStream_t s),
        (d, f, n, k, s))
COUNTED(of::copy, cudaMemcpy2DAsync,
        (void* d, std::size_t dp, void const* f, std::size_t fp, std::size_t w, std::size_t h, cudaMemcpyKind k,
         cudaStream_t s),
        (d, dp, f, fp, w, h, k, s))
COUNTED(of::copy, cudaMemcpy3DAsync, (cudaMemcpy3DParms const* p, cudaStream_t s), (p, s))
COUNTED(of::copy, cudaMemcpyPeerAsync, (void* d, int to, void const* f, int from, std::size_t n, cudaStream_t s),
        (d, to, f, from, n, s))
COUNTED(of::copy, cudaMemcpy3DPeerAsync, (cudaMemcpy3DPeerParms const* p, cudaStream_t s), (p, s))
COUNTED(of::launch, cudaLaunchKernel,
        (void const* f, dim3 blocks, dim3 threads, void** parameters, std::size_t shared, cudaStream_t s),
        (f, blocks, threads, parameters, shared, s))
COUNTED(of::allocate, cudaMallocFromPoolAsync, (void** p, std::size_t n, cudaMemPool_t pool, cudaStream_t s),
        (p, n, pool, s))
COUNTED(of::allocate, cudaMalloc, (void** p, std::size_t n), (p, n))
COUNTED(of::allocate, cudaHostAlloc, (void** p, std::size_t n, unsigned flags), (p, n, flags))
COUNTED(of::allocate, cudaMallocManaged, (void** p, std::size_t n, unsigned flags), (p, n, flags))
COUNTED(of::free, cudaFreeAsync, (void* p, cudaStream_t s), (p, s))
COUNTED(of::free, cudaFree, (void* p), (p))
COUNTED(of::free, cudaFreeHost, (void* p), (p))
COUNTED(of::current, cudaGetDevice, (int* id), (id))
COUNTED(of::query, cudaStreamGetDevice, (cudaStream_t s, int* id), (s, id))
COUNTED(of::query, cudaPointerGetAttributes, (cudaPointerAttributes * a, void const* p), (a, p))
COUNTED(of::query, cudaDeviceGetMemPool, (cudaMemPool_t * p, int id), (p, id))
