// ferry: umbrella header for leases: tensors that can be spilled to the host, and tensors that are copied when written.
#pragma once

#include <ferry/lease/options.hpp>
#include <ferry/lease/retrying_space.hpp>
#include <ferry/lease/shared_tensor.hpp>
#include <ferry/lease/spill_manager.hpp>
#include <ferry/lease/spillable.hpp>
#include <ferry/lease/spillable_column.hpp>
