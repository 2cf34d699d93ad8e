// ferry: umbrella header for the CUDA back end: streams, memory spaces and copies. The embedded kernels are in
// cuda/pack.hpp alone. Only *.cuh files require nvcc.
#pragma once

#include <ferry/cuda/batch.hpp>
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/event.hpp>
#include <ferry/cuda/event_ref.hpp>
#include <ferry/cuda/facts.hpp>
#include <ferry/cuda/huge_pages.hpp>
#include <ferry/cuda/memory.hpp>
#include <ferry/cuda/order.hpp>
#include <ferry/cuda/pending.hpp>
#include <ferry/cuda/recycled.hpp>
#include <ferry/cuda/pool.hpp>
#include <ferry/cuda/reaper.hpp>
#include <ferry/cuda/space.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/cuda/stream_resource_space.hpp>
#include <ferry/cuda/system.hpp>
#include <ferry/ferry.hpp>
