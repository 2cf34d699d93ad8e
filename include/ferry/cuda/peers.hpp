// ferry: GPUs that read each other's memory.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/driver.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/facts.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace ferry::inline v0::cuda::detail {

/// The pairs of devices that this thread has dealt with. They go by the numbers of their contexts, which a reset of a
/// device makes anew, with no peer: a pair is asked once and never taken for one that is gone.
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
    std::array<pair, 64> known_{};  // both ways between the eight GPUs of a host
    std::size_t next_ = 0;
};

/// Lets `reader` reach the memory of `owner`, but that of pools, where the machine allows it. Whether it does. What
/// failed is tried again the next time; `anew`: what was open, too, for the program may have closed it since.
[[nodiscard]] inline bool enable_devices(std::int32_t reader, std::int32_t owner, bool anew = false) {
    auto& pairs = peer_pairs::of_this_thread();
    peer_pairs::pair now{primary_context_id(reader), primary_context_id(owner)};  // mutant: cuda_peer_reset
    bool const has_numbers = now.reader != 0 && now.owner != 0;
    auto const* const known = has_numbers ? pairs.find(now.reader, now.owner) : nullptr;
    if (known != nullptr && !(anew && known->reaches)) return known->reaches;  // mutant: cuda_peer_once
    int can = known != nullptr ? 1 : 0;
    cudaError_t e = known != nullptr ? cudaSuccess : cudaDeviceCanAccessPeer(&can, reader, owner);
    if (e == cudaSuccess && can != 0) {
        device_guard const on{reader};
        e = cudaDeviceEnablePeerAccess(owner, 0);  // mutant: cuda_peer_device
        now.reaches = e == cudaSuccess || e == cudaErrorPeerAccessAlreadyEnabled;
    }
    ignore(e);
    bool const may_change = !now.reaches && e != cudaSuccess && e != cudaErrorTooManyPeers;
    if (has_numbers && !may_change) pairs.add(now);
    return now.reaches;
}

/// Whether memory of no pool is there for a peer whose devices reach each other: what cudaMalloc gave is, and virtual
/// memory that was opened to it. What was opened from another process is mapped for one device: a kernel of another
/// that touched it would end the context.
[[nodiscard]] inline bool is_open_to(std::int32_t reader, void const* p) {
    auto const at = reinterpret_cast<CUdeviceptr>(p);
    int is_of_malloc = 0;
    if (driver().pointer_get_attribute(&is_of_malloc, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at) ==
            CUDA_SUCCESS &&
        is_of_malloc != 0)
        return true;
    CUmemLocation where{};
    where.type = CU_MEM_LOCATION_TYPE_DEVICE;
    where.id = reader;
    unsigned long long leave = 0;
    return driver().memory_access(&leave, &where, at) == CUDA_SUCCESS && leave == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

/// Lets `reader` reach the memory behind `p` on `owner` where the machine allows it, and says whether it does: asked
/// once for each pair of devices and thread. Memory of pools needs leave of its pool as well, which is looked up each
/// time: another pool may come to have the address.
inline bool enable_peer(std::int32_t reader, std::int32_t owner, void const* p, bool anew = false) {
    if (reader == owner) return true;
    beside_captures const quietly;
    if (!enable_devices(reader, owner, anew)) return false;
    cudaMemPool_t const pool = pool_of(p);
    if (pool == nullptr) return is_open_to(reader, p);  // mutant: cuda_peer_open
    cudaMemLocation where{};
    where.type = cudaMemLocationTypeDevice;
    where.id = reader;
    cudaMemAccessFlags now = cudaMemAccessFlagsProtNone;
    ignore(cudaMemPoolGetAccess(&now, pool, &where));
    if (now == cudaMemAccessFlagsProtReadWrite) return true;
    cudaMemAccessDesc leave{};
    leave.location = where;
    leave.flags = cudaMemAccessFlagsProtReadWrite;
    cudaError_t const e = cudaMemPoolSetAccess(pool, &leave, 1);  // mutant: cuda_peer_pool
    ignore(e);
    return e == cudaSuccess;
}

/// For a copy between two places. Two GPUs reach each other from then on, and the result says that both do; where they
/// cannot, the driver stages what names both (cudaMemcpyPeerAsync and its like), and nothing is an error.
inline bool enable_peers(device to, void const* dst, device from, void const* src) {
    if (to.type != device_type::cuda || from.type != device_type::cuda || to.id == from.id) return true;
    bool const writes = enable_peer(from.id, to.id, dst);
    return enable_peer(to.id, from.id, src) && writes;
}

/// Refuses memory that no kernel of the current device reaches: one that tried would end the context.
/// \throws error  errc::no_peer_access
inline void require_peer(void const* p, char const* api) {
    int here = 0, owner = 0;
    check(cudaGetDevice(&here), "cudaGetDevice");
    if (driver().pointer_get_attribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, reinterpret_cast<CUdeviceptr>(p)) !=
            CUDA_SUCCESS ||
        owner == here)
        return;
    if (where_is(p).type != device_type::cuda || enable_peer(here, owner, p, true)) return;
    ferry::detail::fail(
        errc::no_peer_access, api,
        message{"cuda:"} << here << " cannot reach the memory of cuda:" << owner
                         << ": copy by ferry::copy, which stages it, or work on a stream of cuda:" << owner);
}

}  // namespace ferry::inline v0::cuda::detail
