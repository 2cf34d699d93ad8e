// ferry: a CUDA back end with what only imports from Python need.
#pragma once

#include <ferry/python/cuda_array_interface.hpp>
#include <ferry/python/import.hpp>

#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/system.hpp>
#include <ferry/space/back_end.hpp>

#include <cstdint>
#include <optional>

namespace ferry::inline v0::python {
namespace detail {

/// Makes a device current for a scope; does nothing where there is no such device.
class current_if_there {
   public:
    explicit current_if_there(std::int32_t id) noexcept {
        try {
            on_.emplace(id);
        } catch (error const&) {  // whoever touches the device will say so
        }
    }

   private:
    std::optional<cuda::device_guard> on_;
};

}  // namespace detail

/// The back end to install the protocol with: copies, orders and waits as `BackEnd` does, asks producers on their own
/// device (R42), and takes objects that have only `__cuda_array_interface__`.
template <back_end BackEnd = cuda::system_back_end>
struct cuda_back_end : BackEnd {
    [[nodiscard]] detail::current_if_there make_current(device where) const noexcept {
        return detail::current_if_there{where.id};
    }
    [[nodiscard]] std::optional<detail::imported> fetch_otherwise(PyObject* x) const {
        return from_cuda_array_interface(x);
    }
};

}  // namespace ferry::inline v0::python
