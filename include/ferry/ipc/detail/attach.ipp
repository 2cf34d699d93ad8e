// ferry: the engine of ipc/attach.hpp.
#pragma once

#include <ferry/ipc/attach.hpp>

#include <ferry/ipc/detail/attach_tensor.hpp>

namespace FERRY_NAMESPACE::ipc {

FERRY_INLINE managed_tensor attach(wire::descriptor const& from, attach_options const& options, handle_ref b,
                                   std::source_location where) {
    return detail::attach_tensor(from, options, b, where);
}

}  // namespace FERRY_NAMESPACE::ipc
