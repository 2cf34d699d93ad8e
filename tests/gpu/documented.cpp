// The examples of the documentation that need a GPU.
#include <ferry/cuda/stream_resource_space.hpp>
#include <gpu/world.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

using namespace support;

namespace {

/// A stream-ordered resource with the interface of RMM since 25.12.
struct async_resource {
    void* allocate(cudaStream_t s, std::size_t bytes, std::size_t) {
        void* p = nullptr;
        must(cudaMallocAsync(&p, bytes, s));
        return p;
    }
    void deallocate(cudaStream_t s, void* p, std::size_t, std::size_t) noexcept { must(cudaFreeAsync(p, s)); }
};

}  // namespace

TEST_CASE(
    "docs: a tensor of a device comes to the host plainly, by lanes, and behind the caller's "
    "back") {
    test_stream const s;
    auto const array = make_array(gpu, s.token(), {1 << 20});

    // [system]
    ferry::managed_tensor const plain =
        ferry::to_host(array, ferry::cuda::system);  // ready on return, for any producer stream
    float const first = plain.as<float const, 1>()(0);
    // [/system]
    CHECK(first == 1.0f);

    // [copier]
    ferry::cuda::copier copier;  // one per program: the first copy creates threads and pinned staging buffers
    ferry::managed_tensor const fast = ferry::to_host(array, copier);
    // [/copier]
    CHECK(is_iota_on_host(fast.view()));

    auto const ready_on = s.token();
    // [bare]
    ferry::managed_tensor tensor = ferry::to_dlpack(array, {.stream = ready_on}, copier);
    // A tensor carries no stream: pass the one on which its data is ready.
    ferry::managed_tensor const host = ferry::to_host(std::move(tensor), copier, ready_on);
    // [/bare]
    CHECK(is_iota_on_host(host.view()));

    // [async]
    constexpr ferry::device pinned_memory{ferry::device_type::cuda_host};
    auto pending =
        ferry::cuda::copy_async(ferry::to_dlpack(array, {.stream = ready_on}, copier), pinned_memory, copier, ready_on);
    // … the host and the stream continue …
    ferry::managed_tensor const done = pending.get();  // waits for this copy only
    // [/async]
    CHECK(is_iota_on_host(done.view()));

    ferry::cuda::pinned_pool const pool;
    // [placement]
    // `pool`: for example, a ferry::cuda::pinned_pool. Shares an array that lies in pinned memory already.
    ferry::managed_tensor const h = ferry::to_dlpack(
        array, {.device = ferry::cpu, .placement = ferry::placement::exact}, ferry::destination{pool, copier});
    bool const was_copied = h.is_copied();
    // [/placement]
    CHECK((was_copied && pool.contains(h.view()) && is_iota_on_host(h.view())));
    CHECK(left_no_error());
}

TEST_CASE("docs R50: a copy into memory of a stream-ordered resource") {
    test_stream const s;
    auto const array = make_array(gpu, s.token(), {1000});
    async_resource resource;
    auto const stream = s.get();
    {
        // [resource]
        // `resource`: for example, an rmm::mr::cuda_async_memory_resource. `stream`: a cudaStream_t.
        ferry::cuda::stream_resource_space const space{resource, stream};
        ferry::managed_tensor const copy = ferry::to_dlpack(
            array, {.copy = ferry::copy_policy::always, .stream = ferry::cuda::stream_ref{stream}},
            ferry::destination{space, ferry::cuda::system});  // allocated, written and freed in stream order
        // [/resource]
        CHECK(copy.is_copied());
        s.finish();
        CHECK(is_iota(copy.view()));
    }
    CHECK(left_no_error());
}
