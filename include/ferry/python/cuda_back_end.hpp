// ferry: a CUDA back end with additional operations for imports from Python.
#pragma once

#include <ferry/python/cuda_array_interface.hpp>
#include <ferry/python/import.hpp>

#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/system.hpp>
#include <ferry/space/back_end.hpp>

#include <optional>

namespace FERRY_NAMESPACE::python {
namespace detail {

/// Makes a CUDA device current for a scope. Does nothing for other device types or if the device does not exist.
class optional_device_guard {
   public:
    explicit optional_device_guard(device dev) noexcept {
        if (dev.type != device_type::cuda) return;
        try {
            guard_.emplace(dev.id);
        } catch (error const&) {  // reported by the first operation on the device
        }
    }

   private:
    std::optional<cuda::device_guard> guard_;
};

}  // namespace detail

/// A back end for install_dlpack: copies, orders and waits as `BackEnd` does, makes the device of a producer current
/// while the producer is called (R42), and imports objects that have `__cuda_array_interface__` and no DLPack protocol.
///
/// \tparam BackEnd  CUDA back end
template <back_end BackEnd = cuda::system_back_end>
struct cuda_back_end : BackEnd {
    /// Makes the device of a producer current.
    ///
    /// \param dev  device of a producer
    /// \return     guard that keeps the device current while it exists; has no effect unless the device type is cuda
    [[nodiscard]] detail::optional_device_guard make_current(device dev) const noexcept {
        return detail::optional_device_guard{dev};
    }
    /// Imports an object that has `__cuda_array_interface__`.
    ///
    /// \param x  object without `__dlpack__`
    /// \return   the tensor and the stream on which it is ready; std::nullopt if the object has no
    ///           `__cuda_array_interface__`
    /// \throws error_is_set, error  errors of from_cuda_array_interface
    [[nodiscard]] std::optional<detail::imported> import_other_protocol(PyObject* x) const {
        return from_cuda_array_interface(x);
    }
};

}  // namespace FERRY_NAMESPACE::python
