// The driver's facts about a pointer, whatever a struct states.
#include <ferry/cuda/copier.hpp>
#include <gpu/world.hpp>

#include <vector>

namespace {

using namespace support;
using ferry::device;
using ferry::device_type;
using ferry::errc;

template <class Function>
Function* driver_function(char const* name) {
    Function* f = nullptr;
    ferry::cuda::detail::find_driver_function(f, name);
    return f;
}

}  // namespace

TEST_CASE("cuda R35, R38: the device of memory by its address") {
    for (auto const where : cuda_memory) {
        auto const array = make_array(where, ferry::already_ready, {10});
        auto const is = ferry::cuda::device_of_pointer(array.first() + 3);
        CHECK(is.type == where.type);
        CHECK(is.id == 0);
    }
    float local = 0;
    auto const heap = std::vector<float>(10);
    CHECK(ferry::cuda::device_of_pointer(&local) == ferry::cpu);
    CHECK(ferry::cuda::device_of_pointer(heap.data()) == ferry::cpu);
    void* const mallocked = ferry::cuda::device_space{}.allocate(64);
    CHECK(ferry::cuda::device_of_pointer(mallocked) == gpu);
    ferry::cuda::device_space{}.deallocate(mallocked, 64);
    std::vector<char> registered(1 << 16);
    must(cudaHostRegister(registered.data(), registered.size(), cudaHostRegisterDefault));
    CHECK(ferry::cuda::device_of_pointer(registered.data()).type == device_type::cuda_host);
    must(cudaHostUnregister(registered.data()));
    CHECK(left_no_error());
}

TEST_CASE("cuda: memory on another device than its struct states is refused before it is read") {
    float near[4] = {};
    float out[4] = {};
    auto const far = make_array(gpu, ferry::already_ready, {4});
    auto const copy = [&](void* dst, device to, void const* src, device from) {
        std::int64_t const shape[] = {4};
        auto const plan = ferry::make_copy_plan(ferry::tensor_view{out, shape}, ferry::tensor_view{out, shape});
        ferry::cuda::system.copy(plan, dst, to, src, from, {});
    };
    auto const cure = {"correct the device that the producer reports"};
    fails(errc::foreign_pointer, [&] { copy(out, ferry::cpu, near, gpu); }, cure);
    fails(errc::foreign_pointer, [&] { copy(out, ferry::cpu, near, pinned); }, cure);
    fails(errc::foreign_pointer, [&] { copy(far.first(), gpu, far.first(), pinned); }, cure);
    fails(errc::foreign_pointer, [&] { copy(near, gpu, far.first(), gpu); }, cure);
    fails(errc::foreign_pointer, [&] { copy(far.first(), ferry::cpu, far.first(), gpu); }, cure);
    fails(errc::device, [&] { copy(out, ferry::cpu, far.first(), {device_type::cuda, 1}); }, {"cuda:1", "cuda:0"});
    void* const freed = ferry::cuda::device_space{}.allocate(std::size_t{64} << 20);
    ferry::cuda::device_space{}.deallocate(freed, 0);
    fails(errc::foreign_pointer, [&] { copy(out, ferry::cpu, freed, gpu); }, {"freed"});
    ferry::cuda::copier copier;
    std::int64_t const shape[] = {4};
    auto const plan = ferry::make_copy_plan(ferry::tensor_view{out, shape}, ferry::tensor_view{out, shape});
    fails(errc::foreign_pointer, [&] { copier.copy(plan, out, ferry::cpu, near, gpu, {}); }, {"ferry::cuda::copier"});
    CHECK(left_no_error());
}

TEST_CASE("cuda R38: memory described as cpu may be pinned") {
    auto const array = make_array(pinned, ferry::already_ready, {4});
    auto out = make_poisoned(gpu, {4});
    auto const plan = ferry::make_copy_plan(ferry::view_of(out), ferry::view_of(array));
    ferry::cuda::system.copy(plan, out.first(), gpu, array.first(), ferry::cpu, {});
    CHECK(is_iota(read(out.first(), 4)));
}

TEST_CASE("cuda: memory of a context other than the primary one is refused") {
    int count = 0;
    must(cudaGetDeviceCount(&count));
    must(cudaSetDevice(0));
    must(cudaFree(nullptr));
    auto* const destroy = driver_function<CUresult(CUcontext)>("cuCtxDestroy");
    auto* const allocate = driver_function<CUresult(CUdeviceptr*, std::size_t)>("cuMemAlloc");
    auto* const release = driver_function<CUresult(CUdeviceptr)>("cuMemFree");
    auto* const set_current = driver_function<CUresult(CUcontext)>("cuCtxSetCurrent");
    auto* const create = driver_function<CUresult(CUcontext*, CUctxCreateParams*, unsigned, CUdevice)>("cuCtxCreate");
    CUcontext primary = nullptr, own = nullptr;
    REQUIRE(ferry::cuda::detail::driver().context_current(&primary) == CUDA_SUCCESS);
    REQUIRE(create(&own, nullptr, 0, 0) == CUDA_SUCCESS);
    CUdeviceptr p = 0;
    REQUIRE(allocate(&p, 4096) == CUDA_SUCCESS);
    REQUIRE(set_current(primary) == CUDA_SUCCESS);
    fails(errc::device, [&] { static_cast<void>(ferry::cuda::device_of_pointer(reinterpret_cast<void*>(p))); },
          {"other than the primary context"});
    CHECK(left_no_error());
    if (count > 1) {  // a scope on another device gives the context of the user's own making back
        REQUIRE(set_current(own) == CUDA_SUCCESS);
        {
            ferry::cuda::device_guard const on{1};
        }
        CUcontext now = nullptr;
        CHECK(ferry::cuda::detail::driver().context_current(&now) == CUDA_SUCCESS);
        CHECK(now == own);
    }
    REQUIRE(set_current(own) == CUDA_SUCCESS);
    CHECK(release(p) == CUDA_SUCCESS);
    CHECK(destroy(own) == CUDA_SUCCESS);
    REQUIRE(set_current(primary) == CUDA_SUCCESS);
}
