// ferry: a CUDA back end with what only imports from Python need.
#pragma once

#include <ferry/python/cuda_array_interface.hpp>
#include <ferry/python/import.hpp>

#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/system.hpp>
#include <ferry/space/back_end.hpp>

#include <optional>

namespace ferry::python {

/// The back end to install the protocol with: copies, orders and waits as `BackEnd` does, asks producers on their own device
/// (R42), and takes objects that have only `__cuda_array_interface__`.
template <back_end BackEnd = cuda::system_back_end>
struct cuda_back_end : BackEnd {
    [[nodiscard]] cuda::device_guard make_current(device where) const { return cuda::device_guard{where.id}; }
    [[nodiscard]] std::optional<detail::arrival> fetch_otherwise(PyObject* x) const { return from_cuda_array_interface(x); }
};

}  // namespace ferry::python
