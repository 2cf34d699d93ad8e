#include <ferry/cuda/ipc.hpp>
#include <support/fails.hpp>

#include <doctest/doctest.h>

TEST_CASE("without a driver, sharing and opening fail with an error that says so") {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) == cudaSuccess) return;  // the GPU tests look at the rest
    static_cast<void>(cudaGetLastError());
    support::fails(ferry::errc::no_driver, [] { static_cast<void>(ferry::cuda::device_with({})); });
    support::fails(ferry::errc::no_driver, [] { ferry::cuda::ipc_memory const m{{}, 0}; });
    support::fails(ferry::errc::no_driver, [&] { static_cast<void>(ferry::cuda::allocation_of(&devices)); });
}
