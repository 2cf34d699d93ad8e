// Devices, peers and pointer attributes; the functions of the driver that ferry looks up.
#include <fake_cuda/state.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

namespace fake {
namespace {

[[nodiscard]] bool is_device(int id) { return id >= 0 && id < static_cast<int>(visible().size()); }

[[nodiscard]] CUuuid uuid_of(int id) {
    CUuuid found{};
    found.bytes[0] = static_cast<char>(1 + visible()[static_cast<std::size_t>(id)]);
    return found;
}

/// A device keeps its context; a reset gives it a new id.
[[nodiscard]] CUcontext context_of(int id) { return reinterpret_cast<CUcontext>(&all().resets[id]); }

[[nodiscard]] CUresult without_context() { return mine().has_context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT; }

/// As the runtime's function of the same name, but leaves no error pending and does not initialise CUDA.
template <class Call>
CUresult as_driver(Call call) {
    if (auto const e = without_context(); e != CUDA_SUCCESS) return e;
    cudaError_t const before = mine().last;
    auto const result = static_cast<CUresult>(call());
    mine().last = before;
    return result;
}

CUresult is_capturing(CUstream s, CUstreamCaptureStatus* out) {
    auto status = cudaStreamCaptureStatusNone;
    auto const result = as_driver([&] { return cudaStreamIsCapturing(s, &status); });
    *out = static_cast<CUstreamCaptureStatus>(status);
    return result;
}
CUresult stream_device(CUstream s, CUdevice* id) {
    return as_driver([&] { return cudaStreamGetDevice(s, id); });
}
CUresult stream_context(CUstream s, CUcontext* c) {
    int id = 0;
    auto const result = as_driver([&] { return cudaStreamGetDevice(s, &id); });
    *c = context_of(id);
    return result;
}
CUresult load_library(CUlibrary* l, void const* data, CUjit_option*, void**, unsigned, CUlibraryOption*, void**,
                      unsigned) {
    return as_driver([&] { return cudaLibraryLoadData(l, data, nullptr, nullptr, 0, nullptr, nullptr, 0); });
}
CUresult get_kernel(CUkernel* k, CUlibrary l, char const* name) {
    return as_driver([&] { return cudaLibraryGetKernel(k, l, name); });
}
CUresult unload_library(CUlibrary l) {
    return as_driver([&] { return cudaLibraryUnload(l); });
}
CUresult launch(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned,
                CUstream s, void** arguments, void**) {
    return as_driver([&] { return cudaLaunchKernel(f, dim3{x, y, z}, dim3{tx, ty, tz}, arguments, 0, s); });
}
CUresult stream_id(CUstream s, unsigned long long* id) {
    return as_driver([&] { return cudaStreamGetId(s, id); });
}
CUresult wait_event(CUstream s, CUevent e, unsigned flags) {
    return as_driver([&] { return cudaStreamWaitEvent(s, e, flags); });
}
CUresult record(CUevent e, CUstream s) {
    return as_driver([&] { return cudaEventRecord(e, s); });
}
CUresult exchange_mode(CUstreamCaptureMode* mode) {
    auto now = static_cast<cudaStreamCaptureMode>(*mode);
    auto const result = as_driver([&] { return cudaThreadExchangeStreamCaptureMode(&now); });
    *mode = static_cast<CUstreamCaptureMode>(now);
    return result;
}
CUresult current(CUcontext* c) {
    *c = mine().has_context ? context_of(mine().device) : nullptr;
    return CUDA_SUCCESS;
}
CUresult set_current(CUcontext c) {
    mine().has_context = c != nullptr;
    if (c != nullptr) mine().device = c == context_of(1) ? 1 : 0;
    return CUDA_SUCCESS;
}
CUresult context_number(CUcontext c, unsigned long long* id) {
    std::lock_guard const lock{all().mutex};
    int const device = c == context_of(1) ? 1 : 0;
    *id = devices * all().resets[device] + unsigned(device) + 1;
    return CUDA_SUCCESS;
}
CUresult primary_state(CUdevice id, unsigned* flags, int* is_active) {
    if (!is_device(id)) return CUDA_ERROR_INVALID_DEVICE;
    *flags = 0;
    *is_active = 1;
    return CUDA_SUCCESS;
}
CUresult retain(CUcontext* c, CUdevice id) {
    if (!is_device(id)) return CUDA_ERROR_INVALID_DEVICE;
    *c = context_of(id);
    return CUDA_SUCCESS;
}
CUresult release(CUdevice) { return CUDA_SUCCESS; }

template <class T>
void put(void* out, T value) {
    std::memcpy(out, &value, sizeof value);
}

CUresult attribute(void* out, CUpointer_attribute what, CUdeviceptr p) {
    std::lock_guard const lock{all().mutex};
    auto const b = block_of(reinterpret_cast<void*>(p));
    if (b == nullptr) return CUDA_ERROR_INVALID_VALUE;
    switch (what) {
        case CU_POINTER_ATTRIBUTE_CONTEXT: put(out, b->from != nullptr ? nullptr : context_of(b->device)); break;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            put(out, b->type == cudaMemoryTypeHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
            break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: put(out, unsigned{b->type == cudaMemoryTypeManaged}); break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: put(out, b->device); break;
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: put(out, static_cast<void*>(b->from.get())); break;
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
            put(out, unsigned{b->type == cudaMemoryTypeDevice && b->is_for_peers()});
            break;
        case CU_POINTER_ATTRIBUTE_BUFFER_ID: put(out, b->id); break;
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
            put(out, std::uint64_t{b->from != nullptr ? unsigned{b->from->handle_types} : 0u});
            break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: put(out, CUdeviceptr{b->begin}); break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: put(out, b->bytes); break;
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}
CUresult range(CUdeviceptr* base, std::size_t* n, CUdeviceptr p) {
    std::lock_guard const lock{all().mutex};
    auto const b = block_of(reinterpret_cast<void*>(p));
    if (b == nullptr) return CUDA_ERROR_NOT_FOUND;
    *base = b->begin;
    *n = b->bytes;
    return CUDA_SUCCESS;
}

/// For pool memory and mapped memory; access to cudaMalloc memory follows from peer access.
CUresult access(unsigned long long* flags, CUmemLocation const* where, CUdeviceptr p) {
    std::lock_guard const lock{all().mutex};
    auto const b = block_of(reinterpret_cast<void*>(p));
    if (b == nullptr || (b->from == nullptr && !b->is_virtual)) return CUDA_ERROR_INVALID_VALUE;
    *flags = has_leave(*b, where->id) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

CUresult uuid(CUuuid* out, CUdevice id) {
    if (!is_device(id)) return CUDA_ERROR_INVALID_DEVICE;
    *out = uuid_of(id);
    return CUDA_SUCCESS;
}

// Virtual memory: an allocation has a device only; its pages come with the addresses.
CUresult make_virtual(CUmemGenericAllocationHandle* out, std::size_t, CUmemAllocationProp const* facts,
                      unsigned long long) {
    if (!is_device(facts->location.id)) return CUDA_ERROR_INVALID_DEVICE;
    *out = static_cast<CUmemGenericAllocationHandle>(facts->location.id);
    return CUDA_SUCCESS;
}
CUresult reserve(CUdeviceptr* out, std::size_t n, std::size_t, CUdeviceptr, unsigned long long) {
    std::lock_guard const lock{all().mutex};
    *out = arena::one().take(n);
    return *out != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult map(CUdeviceptr at, std::size_t n, std::size_t, CUmemGenericAllocationHandle memory, unsigned long long) {
    std::lock_guard const lock{all().mutex};
    add(at, n, cudaMemoryTypeDevice, static_cast<int>(memory))->is_virtual = true;
    return CUDA_SUCCESS;
}
CUresult give_access(CUdeviceptr, std::size_t, CUmemAccessDesc const*, std::size_t) { return CUDA_SUCCESS; }
CUresult unmap(CUdeviceptr at, std::size_t) {
    std::lock_guard const lock{all().mutex};
    auto const found = all().blocks.find(at);
    if (found == all().blocks.end() || !found->second->is_virtual) return CUDA_ERROR_INVALID_VALUE;
    found->second->now = block::is::freed;
    all().blocks.erase(found);
    return CUDA_SUCCESS;
}
CUresult give_back(CUdeviceptr at, std::size_t n) {
    std::lock_guard const lock{all().mutex};
    arena::one().give_back(at, n);
    return CUDA_SUCCESS;
}
CUresult let_go_of(CUmemGenericAllocationHandle) { return CUDA_SUCCESS; }

struct entry {
    char const* name;
    void* function;
};
entry const entries[] = {
    {"cuPointerGetAttribute", reinterpret_cast<void*>(attribute)},
    {"cuMemGetAccess", reinterpret_cast<void*>(access)},
    {"cuMemGetAddressRange", reinterpret_cast<void*>(range)},
    {"cuMemCreate", reinterpret_cast<void*>(make_virtual)},
    {"cuMemAddressReserve", reinterpret_cast<void*>(reserve)},
    {"cuMemMap", reinterpret_cast<void*>(map)},
    {"cuMemSetAccess", reinterpret_cast<void*>(give_access)},
    {"cuMemUnmap", reinterpret_cast<void*>(unmap)},
    {"cuMemAddressFree", reinterpret_cast<void*>(give_back)},
    {"cuMemRelease", reinterpret_cast<void*>(let_go_of)},
    {"cuDeviceGetUuid", reinterpret_cast<void*>(uuid)},
    {"cuDevicePrimaryCtxGetState", reinterpret_cast<void*>(primary_state)},
    {"cuDevicePrimaryCtxRetain", reinterpret_cast<void*>(retain)},
    {"cuDevicePrimaryCtxRelease", reinterpret_cast<void*>(release)},
    {"cuCtxGetCurrent", reinterpret_cast<void*>(current)},
    {"cuCtxSetCurrent", reinterpret_cast<void*>(set_current)},
    {"cuCtxGetId", reinterpret_cast<void*>(context_number)},
    {"cuThreadExchangeStreamCaptureMode", reinterpret_cast<void*>(exchange_mode)},
    {"cuStreamIsCapturing", reinterpret_cast<void*>(is_capturing)},
    {"cuStreamGetDevice", reinterpret_cast<void*>(stream_device)},
    {"cuStreamGetCtx", reinterpret_cast<void*>(stream_context)},
    {"cuLibraryLoadData", reinterpret_cast<void*>(load_library)},
    {"cuLibraryGetKernel", reinterpret_cast<void*>(get_kernel)},
    {"cuLibraryUnload", reinterpret_cast<void*>(unload_library)},
    {"cuLaunchKernel", reinterpret_cast<void*>(launch)},
    {"cuStreamGetId", reinterpret_cast<void*>(stream_id)},
    {"cuStreamWaitEvent", reinterpret_cast<void*>(wait_event)},
    {"cuEventRecord", reinterpret_cast<void*>(record)},
};

}  // namespace
}  // namespace fake

using namespace fake;

extern "C" {

cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(char const* symbol, void** entry, unsigned, unsigned long long,
                                                       cudaDriverEntryPointQueryResult* found) {
    auto const* const at = std::find_if(std::begin(entries), std::end(entries),
                                        [&](auto const& e) { return std::strcmp(e.name, symbol) == 0; });
    bool const is_known = at != std::end(entries);
    *entry = is_known ? at->function : nullptr;
    *found = is_known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetLastError() { return std::exchange(mine().last, cudaSuccess); }
cudaError_t CUDARTAPI cudaPeekAtLastError() { return mine().last; }
char const* CUDARTAPI cudaGetErrorName(cudaError_t e) {
    thread_local char text[32];
    static_cast<void>(std::snprintf(text, sizeof text, "cudaError%d", static_cast<int>(e)));
    return text;
}
char const* CUDARTAPI cudaGetErrorString(cudaError_t) { return "the fake of CUDA says no more"; }

cudaError_t CUDARTAPI cudaGetDeviceCount(int* n) {
    *n = static_cast<int>(visible().size());
    return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGetDevice(int* id) {
    *id = mine().device;
    return cudaSuccess;
}
cudaError_t CUDARTAPI cudaSetDevice(int id) {
    if (!is_device(id)) return say(cudaErrorInvalidDevice);
    mine().device = id;
    return say(cudaSuccess);
}
/// Forgets peers only: tests leave nothing else on the device.
cudaError_t CUDARTAPI cudaDeviceReset() {
    auto& g = all();
    std::lock_guard const lock{g.mutex};
    int const id = mine().device;
    ++g.resets[id];
    for (int other = 0; other < devices; ++other) g.is_peer[id][other] = g.is_peer[other][id] = false;
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaGetDeviceProperties(cudaDeviceProp* facts, int id) {
    if (!is_device(id)) return say(cudaErrorInvalidDevice);
    *facts = {};
    static_cast<void>(std::snprintf(facts->name, sizeof facts->name, "a fake"));
    facts->uuid = uuid_of(id);
    return say(cudaSuccess);
}

cudaError_t CUDARTAPI cudaPointerGetAttributes(cudaPointerAttributes* facts, void const* p) {
    std::lock_guard const lock{all().mutex};
    *facts = {};
    facts->type = cudaMemoryTypeUnregistered;
    facts->device = -2;
    auto const b = block_of(p);
    if (b == nullptr) return say(cudaSuccess);
    facts->type = b->type;
    facts->device = b->device;
    facts->devicePointer = const_cast<void*>(p);
    facts->hostPointer = b->type == cudaMemoryTypeDevice ? nullptr : const_cast<void*>(p);
    return say(cudaSuccess);
}

cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int* can, int id, int peer) {
    if (!is_device(id) || !is_device(peer)) return say(cudaErrorInvalidDevice);
    *can = id != peer;
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaDeviceEnablePeerAccess(int peer, unsigned) {
    std::lock_guard const lock{all().mutex};
    if (!is_device(peer) || peer == mine().device) return say(cudaErrorInvalidDevice);
    bool const before = std::exchange(all().is_peer[mine().device][peer], true);
    return say(before ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess);
}
cudaError_t CUDARTAPI cudaDeviceDisablePeerAccess(int peer) {
    std::lock_guard const lock{all().mutex};
    bool const before = std::exchange(all().is_peer[mine().device][peer], false);
    return say(before ? cudaSuccess : cudaErrorPeerAccessNotEnabled);
}

}  // extern "C"
