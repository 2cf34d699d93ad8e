// ferry: peer access between GPUs.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/detail/driver.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/facts.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace FERRY_NAMESPACE::cuda::detail {

/// The pairs of devices whose peer access this thread has queried. Keyed by context ids, because a device reset creates
/// a new context, which has no peers and matches no older entry.
class peer_pairs {
   public:
    struct pair {
        unsigned long long reader = 0, owner = 0;
        bool reaches = false;
    };
    [[nodiscard]] pair const* find(unsigned long long reader, unsigned long long owner) const noexcept {
        for (auto const& known : known_)
            if (known.reader == reader && known.owner == owner) return &known;
        return nullptr;
    }
    void add(pair const& p) noexcept {
        for (auto& known : known_)
            if (known.reader == p.reader && known.owner == p.owner) return void(known = p);
        known_[next_++ % known_.size()] = p;
    }

    [[nodiscard]] FERRY_HIDDEN static peer_pairs& of_this_thread() {
        thread_local peer_pairs mine;
        return mine;
    }

   private:
    std::array<pair, 64> known_{};  // both directions between the eight GPUs of a host
    std::size_t next_ = 0;
};

/// Enables peer access from `reader` to memory of `owner`, except memory of pools. Returns whether `reader` has access.
/// The next call repeats an attempt that failed, unless the devices do not support peer access or have too many peers.
/// With `recheck`, a successful attempt is also repeated, because the program may have disabled the access.
[[nodiscard]] inline bool enable_devices(std::int32_t reader, std::int32_t owner, bool recheck = false) {
    auto& pairs = peer_pairs::of_this_thread();
    peer_pairs::pair now{primary_context_id(reader), primary_context_id(owner)};
    bool const has_numbers = now.reader != 0 && now.owner != 0;
    auto const* const known = has_numbers ? pairs.find(now.reader, now.owner) : nullptr;
    if (known != nullptr && !(recheck && known->reaches)) return known->reaches;
    int can = known != nullptr ? 1 : 0;
    cudaError_t e = known != nullptr ? cudaSuccess : cudaDeviceCanAccessPeer(&can, reader, owner);
    if (e == cudaSuccess && can != 0) {
        device_guard const on{reader};
        e = cudaDeviceEnablePeerAccess(owner, 0);
        now.reaches = e == cudaSuccess || e == cudaErrorPeerAccessAlreadyEnabled;
    }
    ignore(e);
    bool const may_change = !now.reaches && e != cudaSuccess && e != cudaErrorTooManyPeers;
    if (has_numbers && !may_change) pairs.add(now);
    return now.reaches;
}

/// Returns whether a peer with peer access can access memory that belongs to no pool: true for memory allocated by
/// cudaMalloc, and for virtual memory to which the peer has been given access. IPC memory is mapped for one device
/// only, and access by a kernel on another device would corrupt the context.
[[nodiscard]] inline bool is_accessible_by(std::int32_t reader, void const* p) {
    if (is_of_malloc(p)) return true;
    CUmemLocation location{};
    location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = reader;
    unsigned long long flags = 0;
    return driver().memory_access(&flags, &location, reinterpret_cast<CUdeviceptr>(p)) == CUDA_SUCCESS &&
           flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

/// Enables access from `reader` to the memory at `p` on `owner`. Returns whether `reader` has access. Each thread
/// queries peer access once for each pair of devices. Access to a pool is checked at each call, and set if needed,
/// because the address may have been reused by another pool.
inline bool enable_peer(std::int32_t reader, std::int32_t owner, void const* p, bool recheck = false) {
    if (reader == owner) return true;
    relaxed_capture_mode const relaxed;
    if (!enable_devices(reader, owner, recheck)) return false;
    cudaMemPool_t const pool = pool_of(p);
    if (pool == nullptr) return is_accessible_by(reader, p);
    cudaMemLocation location{};
    location.type = cudaMemLocationTypeDevice;
    location.id = reader;
    cudaMemAccessFlags now = cudaMemAccessFlagsProtNone;
    ignore(cudaMemPoolGetAccess(&now, pool, &location));
    if (now == cudaMemAccessFlagsProtReadWrite) return true;
    cudaMemAccessDesc access{};
    access.location = location;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    cudaError_t const e = cudaMemPoolSetAccess(pool, &access, 1);
    ignore(e);
    return e == cudaSuccess;
}

/// Enables peer access in both directions for a copy, and returns whether both have it. Without it the driver stages
/// copies that name both devices (cudaMemcpyPeerAsync and its variants), which is not an error.
inline bool enable_peers(device to, void const* dst, device from, void const* src) {
    if (to.type != device_type::cuda || from.type != device_type::cuda || to.id == from.id) return true;
    bool const writes = enable_peer(from.id, to.id, dst);
    return enable_peer(to.id, from.id, src) && writes;
}

/// Throws for memory that kernels of the current device cannot access, because an access would corrupt the context.
inline void require_peer(void const* p, char const* api) {
    int here = 0, owner = 0;
    check(cudaGetDevice(&here), "cudaGetDevice");
    if (driver().pointer_get_attribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, reinterpret_cast<CUdeviceptr>(p)) !=
            CUDA_SUCCESS ||
        owner == here)
        return;
    if (device_of_pointer(p).type != device_type::cuda || enable_peer(here, owner, p, true)) return;
    ferry::detail::fail(errc::no_peer_access, api,
                        message{"cuda:"} << here << " cannot access memory of cuda:" << owner
                                         << ": use ferry::copy, which stages the copy, or a stream of cuda:" << owner);
}

}  // namespace FERRY_NAMESPACE::cuda::detail
