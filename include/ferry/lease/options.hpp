// ferry: the options and the statistics of a spill_manager.
#pragma once

#include <ferry/base/stream_token.hpp>
#include <ferry/config.hpp>

#include <cstddef>
#include <cstdint>

namespace FERRY_NAMESPACE {

/// Options of a spill_manager. The order of the members is stable, so that designated initialisers remain valid.
struct spill_options {
    /// Maximum number of bytes of device memory that the tensors and reservations of the manager occupy; at least 1.
    std::size_t limit = ~std::size_t{0};
    /// Maximum number of bytes of pinned memory for spilled tensors; further tensors are copied to pageable memory. Let
    /// the back end keep as much (`cuda::copier_options::most_kept`), because pinning takes longer than a copy.
    std::size_t most_pinned = 0;
    /// Stream of the memory space, on which tensors are copied; required if the space allocates in stream order. By
    /// default, the back end selects a stream.
    stream_token stream{};
};

/// Totals of a spill_manager since its construction, unless stated otherwise.
struct spill_statistics {
    std::uint64_t spills = 0;          ///< number of allocations copied to the host
    std::uint64_t spilled_bytes = 0;   ///< bytes copied to the host
    std::uint64_t returns = 0;         ///< number of allocations copied back
    std::uint64_t returned_bytes = 0;  ///< bytes copied back
    std::uint64_t failed_spills = 0;   ///< number of spills that failed; the tensors stayed on the device
    std::uint64_t freed_bytes = 0;     ///< bytes of device memory freed by spills and dropped tensors
    std::uint64_t resident_bytes = 0;  ///< number of bytes that are on the device now
    std::uint64_t leased_bytes = 0;    ///< number of bytes that leases use now
    std::uint64_t quarantined = 0;     ///< number of allocations in use by unknown work, kept until the manager ends
};

}  // namespace FERRY_NAMESPACE
