// ferry: the device of a pointer (R35, R38).
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/cuda/detail/driver.hpp>
#include <ferry/cuda/error.hpp>

#include <optional>
#include <source_location>

namespace FERRY_NAMESPACE::cuda {

/// Queries the driver for the device of the memory at an address. This device may differ from the device in a DLTensor
/// (R38). For pinned and managed memory, its id may differ from the id in an export, which is 0 (R35). Does not
/// synchronise.
///
/// \param p      any address
/// \return       cpu for pageable memory; cuda_host, cuda_managed or cuda with the id of the device
/// \throws error  errc::device for memory of a context other than the primary context of its device, which ferry does
///                not support; errc::no_driver; errors of CUDA
[[nodiscard]] inline device device_of_pointer(void const* p,
                                              std::source_location where = std::source_location::current()) {
    cudaPointerAttributes facts{};
    check(cudaPointerGetAttributes(&facts, p), "cudaPointerGetAttributes", where);
    switch (facts.type) {
        case cudaMemoryTypeHost: return {device_type::cuda_host, facts.device};
        case cudaMemoryTypeManaged: return {device_type::cuda_managed, facts.device};
        case cudaMemoryTypeDevice:
            if (detail::is_of_foreign_context(p, facts.device))
                ferry::detail::fail(errc::device, "ferry::cuda::device_of_pointer",
                                    message{"the memory belongs to a context other than the primary context of cuda:"}
                                        << facts.device
                                        << ": copy it to memory of the primary context with the driver API",
                                    where);
            return {device_type::cuda, facts.device};
        default: return cpu;
    }
}

}  // namespace FERRY_NAMESPACE::cuda
