// ferry: what the driver knows of a pointer (R35, R38).
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/cuda/driver.hpp>
#include <ferry/cuda/error.hpp>

#include <optional>
#include <source_location>

namespace ferry::inline v0::cuda {

/// Where memory really is, whatever a struct says: cpu for ordinary memory; cuda_host, cuda_managed or cuda with the id
/// of the device that it belongs to, which exporters of pinned and managed memory leave out (R35).
///
/// \throws error  errc::device for memory of a context that is not its device's primary one, which the runtime cannot
///                use; errc::no_driver; what the driver reports
[[nodiscard]] inline device where_is(void const* p, std::source_location where = std::source_location::current()) {
    cudaPointerAttributes facts{};
    check(cudaPointerGetAttributes(&facts, p), "cudaPointerGetAttributes", where);
    switch (facts.type) {
        case cudaMemoryTypeHost: return {device_type::cuda_host, facts.device};
        case cudaMemoryTypeManaged: return {device_type::cuda_managed, facts.device};
        case cudaMemoryTypeDevice:
            if (detail::is_of_foreign_context(p, facts.device))
                ferry::detail::fail(errc::device, "ferry::cuda::where_is",
                                    message{"the memory belongs to a context that is not the primary one of device "}
                                        << facts.device << ": copy it there, with the driver API",
                                    where);
            return {device_type::cuda, facts.device};
        default: return cpu;
    }
}

}  // namespace ferry::inline v0::cuda
