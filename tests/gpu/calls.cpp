#include <gpu/calls.hpp>

#include <ferry/cuda/api.hpp>

#include <support/toolkit.hpp>

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
std::atomic<failure> now = failure::invalid;
std::atomic<of> failed = of::count;

template <class Function>
Function* real(char const* name) {
    void* const found = dlsym(RTLD_NEXT, name);
    if (found == nullptr) {
        std::fprintf(stderr, "%s: not in a shared libcudart\n", name);
        std::abort();
    }
    return reinterpret_cast<Function*>(found);
}

bool can_fail(of kind, failure how) {
    if (how == failure::unwaited) return kind == of::synchronize;
    switch (kind) {
        case of::free:
        case of::unload:
        case of::close:
        case of::destroy_event:
        case of::destroy_stream:
        case of::destroy_pool: return false;
        case of::current: return how == failure::current;
        case of::advice: return how == failure::advice;
        case of::record:
        case of::wait_event:
        case of::synchronize:
        case of::copy:
        case of::launch: return how == failure::invalid || how == failure::lost;
        case of::allocate:
        case of::create_event:
        case of::create_stream:
        case of::create_pool:
        case of::load: return how == failure::invalid || how == failure::out_of_memory;
        default: return how == failure::invalid;
    }
}

/// Counts a call, and returns the error that it must return.
cudaError_t pass(of kind) {
    ++counts[static_cast<std::size_t>(kind)];
    failure const how = now;
    if (countdown == 0 || !can_fail(kind, how) || --countdown != 0) return cudaSuccess;
    failed = kind;
    switch (how) {
        case failure::out_of_memory: return cudaErrorMemoryAllocation;
        case failure::lost: return cudaErrorLaunchFailure;
        case failure::current: return cudaErrorInvalidDevice;
        default: return cudaErrorInvalidValue;
    }
}

bool leaves_at_once() { return now == failure::unwaited; }

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
void fail_at(int n, failure how) {
    if (n != 0) failed = of::count;
    now = how;
    countdown = n;
}
bool has_failed() { return failed != of::count; }
bool has_failed(of which) { return failed == which; }

std::int64_t leaves(std::int64_t blocks) {
    static std::atomic<std::int64_t> all = 0;
    return all += blocks;
}

}  // namespace support::calls

using support::calls::of;

// With per-thread default streams the names are macros for other functions.
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

// Weak, so that another interposer in the same program takes precedence; are_seen() is false then.
#define COUNTED(kind, name, parameters, arguments)                                              \
    extern "C" __attribute__((weak)) cudaError_t CUDARTAPI name parameters {                    \
        static auto* const next = support::calls::real<decltype(name)>(TEXT(name));             \
        if (auto const code = support::calls::pass(of::kind); code != cudaSuccess) return code; \
        return next arguments;                                                                  \
    }
#define COUNTED_WAIT(name, parameters, arguments)                                   \
    extern "C" __attribute__((weak)) cudaError_t CUDARTAPI name parameters {        \
        static auto* const next = support::calls::real<decltype(name)>(TEXT(name)); \
        cudaError_t const code = support::calls::pass(of::synchronize);             \
        if (code != cudaSuccess && support::calls::leaves_at_once()) return code;   \
        cudaError_t const result = next arguments;                                  \
        return code != cudaSuccess ? code : result;                                 \
    }

// Functions of the driver that are looked up are returned as wrappers.
#define COUNTED_DRIVER(kind, name, parameters, arguments)                                                              \
    namespace {                                                                                                        \
    CUresult(CUDAAPI* next_##name) parameters = nullptr;                                                               \
    CUresult CUDAAPI counted_##name parameters {                                                                       \
        if (auto const code = support::calls::pass(of::kind); code != cudaSuccess) return static_cast<CUresult>(code); \
        return next_##name arguments;                                                                                  \
    }                                                                                                                  \
    }
#define HAND_OUT(name)                                                 \
    if (std::strcmp(symbol, #name) == 0) {                             \
        next_##name = reinterpret_cast<decltype(next_##name)>(*entry); \
        *entry = reinterpret_cast<void*>(&counted_##name);             \
    }

COUNTED_DRIVER(record, cuEventRecord, (CUevent e, CUstream s), (e, s))
COUNTED_DRIVER(wait_event, cuStreamWaitEvent, (CUstream s, CUevent e, unsigned flags), (s, e, flags))
COUNTED_DRIVER(query, cuStreamIsCapturing, (CUstream s, CUstreamCaptureStatus* status), (s, status))
COUNTED_DRIVER(query, cuStreamGetDevice, (CUstream s, CUdevice* id), (s, id))
COUNTED_DRIVER(query, cuStreamGetCtx, (CUstream s, CUcontext* c), (s, c))
COUNTED_DRIVER(query, cuStreamGetId, (CUstream s, unsigned long long* id), (s, id))
COUNTED_DRIVER(query, cuMemGetAddressRange, (CUdeviceptr * base, std::size_t* n, CUdeviceptr p), (base, n, p))
COUNTED_DRIVER(advice, cuPointerGetAttribute, (void* out, CUpointer_attribute what, CUdeviceptr p), (out, what, p))
COUNTED_DRIVER(advice, cuMemGetAccess, (unsigned long long* leave, CUmemLocation const* where, CUdeviceptr p),
               (leave, where, p))
COUNTED_DRIVER(query, cuDeviceGetUuid, (CUuuid * found, CUdevice id), (found, id))
COUNTED_DRIVER(advice, cuDevicePrimaryCtxGetState, (CUdevice id, unsigned* flags, int* active), (id, flags, active))
COUNTED_DRIVER(advice, cuDevicePrimaryCtxRetain, (CUcontext * c, CUdevice id), (c, id))
COUNTED_DRIVER(close, cuDevicePrimaryCtxRelease, (CUdevice id), (id))
COUNTED_DRIVER(advice, cuCtxGetCurrent, (CUcontext * c), (c))
COUNTED_DRIVER(advice, cuCtxSetCurrent, (CUcontext c), (c))
COUNTED_DRIVER(advice, cuCtxGetId, (CUcontext c, unsigned long long* id), (c, id))
COUNTED_DRIVER(advice, cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode), (mode))
COUNTED_DRIVER(load, cuLibraryLoadData,
               (CUlibrary * l, void const* data, CUjit_option* o, void** values, unsigned n, CUlibraryOption* lo,
                void** lvalues, unsigned ln),
               (l, data, o, values, n, lo, lvalues, ln))
COUNTED_DRIVER(load, cuLibraryGetKernel, (CUkernel * k, CUlibrary l, char const* name), (k, l, name))
COUNTED_DRIVER(unload, cuLibraryUnload, (CUlibrary l), (l))
COUNTED_DRIVER(launch, cuLaunchKernel,
               (CUfunction f, unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned tz,
                unsigned shared, CUstream s, void** parameters, void** more),
               (f, bx, by, bz, tx, ty, tz, shared, s, parameters, more))

extern "C" __attribute__((weak)) cudaError_t CUDARTAPI
cudaGetDriverEntryPointByVersion(char const* symbol, void** entry, unsigned version, unsigned long long flags,
                                 cudaDriverEntryPointQueryResult* found) {
    static auto* const next =
        support::calls::real<decltype(cudaGetDriverEntryPointByVersion)>(TEXT(cudaGetDriverEntryPointByVersion));
    if (auto const code = support::calls::pass(of::load); code != cudaSuccess) return code;
    cudaError_t const result = next(symbol, entry, version, flags, found);
    if (result != cudaSuccess || *entry == nullptr) return result;
    HAND_OUT(cuEventRecord)
    HAND_OUT(cuStreamWaitEvent)
    HAND_OUT(cuStreamIsCapturing)
    HAND_OUT(cuStreamGetDevice)
    HAND_OUT(cuStreamGetCtx)
    HAND_OUT(cuStreamGetId)
    HAND_OUT(cuMemGetAddressRange)
    HAND_OUT(cuPointerGetAttribute)
    HAND_OUT(cuMemGetAccess)
    HAND_OUT(cuDeviceGetUuid)
    HAND_OUT(cuDevicePrimaryCtxGetState)
    HAND_OUT(cuDevicePrimaryCtxRetain)
    HAND_OUT(cuDevicePrimaryCtxRelease)
    HAND_OUT(cuCtxGetCurrent)
    HAND_OUT(cuCtxSetCurrent)
    HAND_OUT(cuCtxGetId)
    HAND_OUT(cuThreadExchangeStreamCaptureMode)
    HAND_OUT(cuLibraryLoadData)
    HAND_OUT(cuLibraryGetKernel)
    HAND_OUT(cuLibraryUnload)
    HAND_OUT(cuLaunchKernel)
    return result;
}

COUNTED(record, cudaEventRecord, (cudaEvent_t e, cudaStream_t s), (e, s))
COUNTED(wait_event, cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t e, unsigned flags), (s, e, flags))
COUNTED_WAIT(cudaStreamSynchronize, (cudaStream_t s), (s))
COUNTED_WAIT(cudaEventSynchronize, (cudaEvent_t e), (e))
COUNTED(device_synchronize, cudaDeviceSynchronize, (), ())
COUNTED(create_event, cudaEventCreateWithFlags, (cudaEvent_t * e, unsigned flags), (e, flags))
COUNTED(destroy_event, cudaEventDestroy, (cudaEvent_t e), (e))
COUNTED(query, cudaEventQuery, (cudaEvent_t e), (e))
COUNTED(create_stream, cudaStreamCreateWithFlags, (cudaStream_t * s, unsigned flags), (s, flags))
COUNTED(destroy_stream, cudaStreamDestroy, (cudaStream_t s), (s))

COUNTED(copy, cudaMemcpyAsync, (void* d, void const* f, std::size_t n, cudaMemcpyKind k, cudaStream_t s),
        (d, f, n, k, s))
COUNTED(copy, cudaMemcpy2DAsync,
        (void* d, std::size_t dp, void const* f, std::size_t fp, std::size_t w, std::size_t h, cudaMemcpyKind k,
         cudaStream_t s),
        (d, dp, f, fp, w, h, k, s))
COUNTED(copy, cudaMemcpy3DAsync, (cudaMemcpy3DParms const* p, cudaStream_t s), (p, s))
COUNTED(copy, cudaMemcpyPeerAsync, (void* d, int to, void const* f, int from, std::size_t n, cudaStream_t s),
        (d, to, f, from, n, s))
COUNTED(copy, cudaMemcpy3DPeerAsync, (cudaMemcpy3DPeerParms const* p, cudaStream_t s), (p, s))
#if CUDART_VERSION >= 13000
COUNTED(copy, cudaMemcpyBatchAsync,
        (void* const* d, void const* const* f, std::size_t const* n, std::size_t count, cudaMemcpyAttributes* how,
         std::size_t* first, std::size_t hows, cudaStream_t s),
        (d, f, n, count, how, first, hows, s))
#elif CUDART_VERSION >= 12080
COUNTED(copy, cudaMemcpyBatchAsync,
        (void** d, void** f, std::size_t* n, std::size_t count, cudaMemcpyAttributes* how, std::size_t* first,
         std::size_t hows, std::size_t* failed, cudaStream_t s),
        (d, f, n, count, how, first, hows, failed, s))
#endif
COUNTED(launch, cudaMemsetAsync, (void* d, int value, std::size_t n, cudaStream_t s), (d, value, n, s))
COUNTED(launch, cudaLaunchKernel,
        (void const* f, dim3 blocks, dim3 threads, void** parameters, std::size_t shared, cudaStream_t s),
        (f, blocks, threads, parameters, shared, s))
#if CUDART_VERSION >= 12080
COUNTED(load, cudaLibraryLoadData,
        (cudaLibrary_t * l, void const* data, cudaJitOption* o, void** values, unsigned n, cudaLibraryOption* lo,
         void** lvalues, unsigned ln),
        (l, data, o, values, n, lo, lvalues, ln))
COUNTED(load, cudaLibraryGetKernel, (cudaKernel_t * k, cudaLibrary_t l, char const* name), (k, l, name))
COUNTED(unload, cudaLibraryUnload, (cudaLibrary_t l), (l))
COUNTED(query, cudaStreamGetDevice, (cudaStream_t s, int* id), (s, id))
#endif

COUNTED(allocate, cudaMallocFromPoolAsync, (void** p, std::size_t n, cudaMemPool_t pool, cudaStream_t s),
        (p, n, pool, s))
COUNTED(allocate, cudaMalloc, (void** p, std::size_t n), (p, n))
COUNTED(allocate, cudaHostAlloc, (void** p, std::size_t n, unsigned flags), (p, n, flags))
COUNTED(allocate, cudaMallocManaged, (void** p, std::size_t n, unsigned flags), (p, n, flags))
COUNTED(free, cudaFreeAsync, (void* p, cudaStream_t s), (p, s))
COUNTED(free, cudaFree, (void* p), (p))
COUNTED(free, cudaFreeHost, (void* p), (p))
COUNTED(create_pool, cudaMemPoolCreate, (cudaMemPool_t * p, cudaMemPoolProps const* props), (p, props))
COUNTED(destroy_pool, cudaMemPoolDestroy, (cudaMemPool_t p), (p))
COUNTED(query, cudaMemPoolSetAttribute, (cudaMemPool_t p, cudaMemPoolAttr what, void* value), (p, what, value))
COUNTED(query, cudaDeviceGetMemPool, (cudaMemPool_t * p, int id), (p, id))
COUNTED(query, cudaDeviceGetDefaultMemPool, (cudaMemPool_t * p, int id), (p, id))

COUNTED(current, cudaGetDevice, (int* id), (id))
COUNTED(current, cudaSetDevice, (int id), (id))
COUNTED(current, cudaStreamIsCapturing, (cudaStream_t s, cudaStreamCaptureStatus* status), (s, status))
COUNTED(query, cudaStreamGetId, (cudaStream_t s, unsigned long long* id), (s, id))
COUNTED(query, cudaPointerGetAttributes, (cudaPointerAttributes * a, void const* p), (a, p))
COUNTED(query, cudaGetDeviceCount, (int* n), (n))
COUNTED(query, cudaGetDeviceProperties, (cudaDeviceProp * facts, int id), (facts, id))

COUNTED(graph, cudaStreamGetCaptureInfo,
        (cudaStream_t s, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
         cudaGraphNode_t const** nodes, cudaGraphEdgeData const** edges, std::size_t* n),
        (s, status, id, graph, nodes, edges, n))
COUNTED(graph, cudaStreamUpdateCaptureDependencies,
        (cudaStream_t s, cudaGraphNode_t* nodes, cudaGraphEdgeData const* edges, std::size_t n, unsigned flags),
        (s, nodes, edges, n, flags))
COUNTED(advice, cudaThreadExchangeStreamCaptureMode, (cudaStreamCaptureMode * mode), (mode))

COUNTED(advice, cudaDeviceCanAccessPeer, (int* can, int id, int peer), (can, id, peer))
COUNTED(advice, cudaDeviceEnablePeerAccess, (int peer, unsigned flags), (peer, flags))
COUNTED(advice, cudaMemPoolGetAccess, (cudaMemAccessFlags * now, cudaMemPool_t p, cudaMemLocation* where),
        (now, p, where))
COUNTED(advice, cudaMemPoolSetAccess, (cudaMemPool_t p, cudaMemAccessDesc const* to, std::size_t n), (p, to, n))

COUNTED(share, cudaIpcGetMemHandle, (cudaIpcMemHandle_t * h, void* p), (h, p))
COUNTED(share, cudaIpcOpenMemHandle, (void** p, cudaIpcMemHandle_t h, unsigned flags), (p, h, flags))
COUNTED(close, cudaIpcCloseMemHandle, (void* p), (p))
COUNTED(share, cudaIpcGetEventHandle, (cudaIpcEventHandle_t * h, cudaEvent_t e), (h, e))
COUNTED(share, cudaIpcOpenEventHandle, (cudaEvent_t * e, cudaIpcEventHandle_t h), (e, h))
COUNTED(share, cudaMemPoolExportToShareableHandle,
        (void* h, cudaMemPool_t p, cudaMemAllocationHandleType type, unsigned flags), (h, p, type, flags))
COUNTED(share, cudaMemPoolImportFromShareableHandle,
        (cudaMemPool_t * p, void* h, cudaMemAllocationHandleType type, unsigned flags), (p, h, type, flags))
COUNTED(share, cudaMemPoolExportPointer, (cudaMemPoolPtrExportData * data, void* p), (data, p))
COUNTED(share, cudaMemPoolImportPointer, (void** p, cudaMemPool_t pool, cudaMemPoolPtrExportData* data),
        (p, pool, data))
