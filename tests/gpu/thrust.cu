// Thrust's vectors through an exchange, and device views in its algorithms.
#include <ferry/cuda.hpp>
#include <ferry/cuda/mdspan.cuh>
#include <ferry/cuda/thrust.hpp>

#include <doctest/doctest.h>

#include <thrust/copy.h>
#include <thrust/equal.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/system/cuda/memory_resource.h>

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace {

template <class Vector>
Vector counted(int n) {
    Vector v(static_cast<std::size_t>(n));
    thrust::sequence(v.begin(), v.end());
    return v;
}

using pinned = thrust::host_vector<float, thrust::universal_host_pinned_vector<float>::allocator_type>;

template <class M>
__global__ void read_corner(M m, float* out) {
    *out = m(1, 2);
}

}  // namespace

TEST_CASE("a device_vector moves into an exchange and comes back to the host") {
    ferry::managed_tensor t = ferry::to_dlpack(ferry::cuda::shaped{counted<thrust::device_vector<float>>(12), {3, 4}},
                                               {}, ferry::cuda::system);
    CHECK(t.device().type == ferry::device_type::cuda);
    CHECK(t.rank() == 2);
    ferry::managed_tensor const h =
        ferry::to_host(std::move(t), ferry::cuda::system, ferry::stream_token::cuda_legacy_default());
    auto const m = h.as<float const, 2>();
    CHECK(m(2, 3) == 11.0f);
}

TEST_CASE("a vector alone is a tensor with one dimension, moved or copied") {
    // [export]
    thrust::device_vector<float> values(12);
    thrust::sequence(values.begin(), values.end());
    // A tensor with one dimension, which owns the moved vector; `shaped` gives it more.
    ferry::managed_tensor tensor = ferry::to_dlpack(std::move(values), {}, ferry::cuda::system);
    // [/export]
    CHECK(tensor.device().type == ferry::device_type::cuda);
    CHECK(tensor.rank() == 1);
    CHECK(tensor.view().extent(0) == 12);
    CHECK(!tensor.view().is_read_only());
    // [import]
    // Into a new vector, from any device and with any strides. The stream is the one on which the tensor is ready.
    auto const copied = ferry::cuda::to_vector<thrust::host_vector<float>>(
        tensor.view(), ferry::cuda::system, ferry::stream_token::cuda_legacy_default());
    // [/import]
    CHECK(copied[11] == 11.0f);

    thrust::device_vector<float> const kept(3, 2.0f);
    CHECK(ferry::view_of(kept).is_read_only());
    ferry::managed_tensor const on_host = ferry::to_host(kept, ferry::cuda::system);
    CHECK(on_host.as<float const, 1>()(2) == 2.0f);
    CHECK(kept.size() == 3);

    auto const type_of = [](auto const& v) { return ferry::view_of(v).device().type; };
    CHECK(type_of(thrust::universal_vector<int>(5)) == ferry::device_type::cuda_managed);
    CHECK(type_of(thrust::host_vector<int>(5)) == ferry::device_type::cpu);
    CHECK(type_of(thrust::device_vector<int>{}) == ferry::device_type::cuda);
    static_assert(!ferry::producer<std::vector<float>>, "which ferry::shaped exports");
}

TEST_CASE("a tensor is sorted by Thrust on the stream on which it is ready") {
    ferry::cuda::stream const own;
    cudaStream_t const stream = own.get();
    ferry::managed_tensor tensor = ferry::to_dlpack(thrust::device_vector<float>{std::vector<float>{3, 1, 2}},
                                                    {.stream = ferry::cuda::stream_ref{stream}}, ferry::cuda::system);
    // [algorithm]
    auto const view = tensor.as<float, 1, ferry::access_from::device, ferry::layout::contiguous>();
    thrust::sort(thrust::cuda::par.on(stream), ferry::cuda::device_begin(view), ferry::cuda::device_end(view));
    // [/algorithm]
    ferry::managed_tensor const host = ferry::to_host(std::move(tensor), ferry::cuda::system, ferry::cuda::stream_ref{stream});
    CHECK(host.as<float const, 1>()(0) == 1.0f);
    CHECK(host.as<float const, 1>()(2) == 3.0f);
}

TEST_CASE("R35: each vector reports the device of its elements") {
    auto const type_of = [](auto const& v) { return ferry::view_of(v).device().type; };
    CHECK(type_of(ferry::cuda::shaped{thrust::device_vector<int>(5)}) == ferry::device_type::cuda);
    CHECK(type_of(ferry::cuda::shaped{thrust::universal_vector<int>(5)}) == ferry::device_type::cuda_managed);
    CHECK(type_of(ferry::cuda::shaped{thrust::universal_host_pinned_vector<int>(5)}) == ferry::device_type::cuda_host);
    CHECK(type_of(ferry::cuda::shaped{thrust::host_vector<int>(5)}) == ferry::device_type::cpu);
    CHECK(type_of(ferry::cuda::shaped{pinned(5)}) == ferry::device_type::cuda_host);
    CHECK(type_of(ferry::cuda::shaped{thrust::device_vector<int>{}}) == ferry::device_type::cuda);
}

TEST_CASE("extents that do not fit the vector are refused; const vectors are read-only (R11)") {
    CHECK_THROWS_AS((ferry::cuda::shaped{thrust::host_vector<int>(5), {2, 3}}), ferry::error);
    ferry::cuda::shaped const s{thrust::host_vector<int>(6), {2, 3}};
    CHECK(ferry::view_of(s).is_read_only());
}

TEST_CASE("a tensor becomes a vector by a copy, whatever its strides") {
    std::vector<float> values(12);
    std::iota(values.begin(), values.end(), 0.0f);
    std::int64_t const shape[] = {4, 3}, turned[] = {1, 4};
    ferry::tensor_view const v{values.data(), shape, turned};
    auto const host = ferry::cuda::to_vector<thrust::host_vector<float>>(v, ferry::cuda::system, {});
    CHECK(host[1] == 4.0f);
    auto const there = ferry::cuda::to_vector<thrust::device_vector<float>>(v, ferry::cuda::system, {});
    thrust::host_vector<float> const back = there;
    CHECK(back == host);
    CHECK_THROWS_AS(static_cast<void>(ferry::cuda::to_vector<thrust::device_vector<int>>(v, ferry::cuda::system, {})),
                    ferry::error);
}

TEST_CASE("Thrust's algorithms run over a device view") {
    thrust::device_vector<int> numbers(1000);
    thrust::sequence(numbers.begin(), numbers.end(), 999, -1);
    ferry::cuda::shaped s{std::move(numbers), {10, 100}};
    auto const v = ferry::as<int, 2, ferry::access_from::device, ferry::layout::contiguous>(ferry::view_of(s));
    thrust::sort(ferry::cuda::device_begin(v), ferry::cuda::device_end(v));
    CHECK(thrust::reduce(ferry::cuda::device_begin(v), ferry::cuda::device_begin(v) + 10) == 45);
    auto const r =
        ferry::as<int const, 2, ferry::access_from::device, ferry::layout::contiguous>(
            ferry::view_of(std::as_const(s)));
    CHECK(thrust::reduce(ferry::cuda::device_begin(r), ferry::cuda::device_end(r)) == 999 * 1000 / 2);
}

TEST_CASE("a device view becomes an mdspan that a kernel reads") {
    ferry::cuda::shaped s{counted<thrust::device_vector<float>>(12), {3, 4}};
    thrust::device_vector<float> out(2);
    auto const contiguous =
        ferry::as<float const, 2, ferry::access_from::device, ferry::layout::contiguous>(
            ferry::view_of(std::as_const(s)));
    read_corner<<<1, 1, 0, cudaStreamLegacy>>>(ferry::to_mdspan<ferry::mdspan_family::cuda_device>(contiguous),
                                               thrust::raw_pointer_cast(out.data()));
    std::int64_t const shape[] = {4, 3}, turned[] = {1, 4};
    ferry::tensor_view const t{static_cast<float const*>(ferry::view_of(std::as_const(s)).data()), shape, turned,
                               ferry::view_of(s).device()};
    auto const strided = ferry::as<float const, 2, ferry::access_from::device>(t);
    read_corner<<<1, 1, 0, cudaStreamLegacy>>>(ferry::to_mdspan<ferry::mdspan_family::cuda_device>(strided),
                                               thrust::raw_pointer_cast(out.data()) + 1);
    ferry::cuda::check(cudaGetLastError(), "read_corner");
    ferry::cuda::check(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize");
    CHECK(float{out[0]} == 6.0f);
    CHECK(float{out[1]} == 9.0f);
}

TEST_CASE("R35: an mdspan of device memory is a producer, and reports its GPU") {
    auto values = counted<thrust::device_vector<float>>(12);
    ferry::cuda::device_mdspan<float, 2, ::cuda::std::layout_right> const m{thrust::raw_pointer_cast(values.data()), 3,
                                                                            4};
    ferry::shaped lent{m};
    auto const& v = ferry::view_of(lent);
    CHECK(v.device().type == ferry::device_type::cuda);
    CHECK(v.device().id == 0);
    CHECK(v.extent(1) == 4);
    CHECK(v.data() == m.data_handle());
    auto const host = ferry::to_host(lent, ferry::cuda::system);
    auto const h = host.as<float const, 2>();
    for (int y = 0; y < 3; ++y)
        for (int x = 0; x < 4; ++x) CHECK(h(y, x) == static_cast<float>(4 * y + x));
    ferry::cuda::stream const said;
    auto const ordered =
        ferry::to_dlpack(ferry::to_dlpack(lent), {.device = ferry::cpu}, ferry::cuda::system, said);
    CHECK(ordered.as<float const, 2>()(2, 3) == 11.0f);
    ferry::cuda::device_mdspan<float const, 2, ::cuda::std::layout_right> const constant{m.data_handle(), 3, 4};
    ferry::shaped lent_constant{constant};
    CHECK(ferry::view_of(lent_constant).is_read_only());
    ferry::cuda::device_mdspan<float, 2, ::cuda::std::layout_right> const none{nullptr, 0, 4};
    ferry::shaped empty{none};
    CHECK(ferry::view_of(empty).device().type == ferry::device_type::cuda);
}

// Where Thrust gets its memory.
static_assert(ferry::memory_resource_like<thrust::system::cuda::memory_resource>);
static_assert(ferry::memory_resource_like<thrust::system::cuda::universal_memory_resource>);
static_assert(ferry::memory_resource_like<thrust::system::cuda::universal_host_pinned_memory_resource>);
