// ferry: GPUs that read each other's memory.
#pragma once

#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/driver.hpp>
#include <ferry/cuda/error.hpp>

#include <cstdint>

namespace ferry::inline v0::cuda::detail {

/// Lets `reader` reach the memory behind `p` on `owner` where the machine allows it; told again, nothing happens.
/// Memory of pools needs leave of its pool, all other memory that of its device. Where it cannot be had, the driver
/// stages copies.
inline void enable_peer(std::int32_t reader, std::int32_t owner, void const* p) {
    int can = 0;
    if (reader == owner) return;
    if (cudaError_t const e = cudaDeviceCanAccessPeer(&can, reader, owner); e != cudaSuccess || can == 0)
        return ignore(e);
    beside_captures const quietly;
    {
        device_guard const on{reader};
        ignore(cudaDeviceEnablePeerAccess(owner, 0));
    }
    cudaMemPool_t const pool = pool_of(p);
    if (pool == nullptr) return;
    cudaMemLocation where{};
    where.type = cudaMemLocationTypeDevice;
    where.id = reader;
    cudaMemAccessFlags now = cudaMemAccessFlagsProtNone;
    ignore(cudaMemPoolGetAccess(&now, pool, &where));
    if (now == cudaMemAccessFlagsProtReadWrite) return;
    cudaMemAccessDesc leave{};
    leave.location = where;
    leave.flags = cudaMemAccessFlagsProtReadWrite;
    ignore(cudaMemPoolSetAccess(pool, &leave, 1));
}

}  // namespace ferry::inline v0::cuda::detail
