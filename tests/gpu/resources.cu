// Memory resources of other libraries on a device: every Thrust resource, references of cuda::mr, and every form of RMM
// resource.
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE  // CCCL 3.0 wants to be asked

#include <ferry/cuda.hpp>
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/stream_resource_space.hpp>
#include <gpu/world.hpp>
#include <support/counting_producer.hpp>

#include <cuda/memory_resource>
#include <cuda/stream_ref>
#include <thrust/mr/new.h>
#include <thrust/system/cuda/memory_resource.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <thread>
#include <vector>

namespace other_library {

/// Live allocations of a resource of a test.
struct balance {
    std::atomic<int> live = 0;
};

/// What RMM calls a stream.
class stream_view {
   public:
    constexpr stream_view(cudaStream_t s) noexcept : stream_{s} {}
    stream_view(::cuda::stream_ref s) noexcept : stream_{s.get()} {}
    constexpr stream_view(int) = delete;
    constexpr stream_view(std::nullptr_t) = delete;
    constexpr operator cudaStream_t() const noexcept { return stream_; }

   private:
    cudaStream_t stream_;
};

inline void* take(std::size_t n, cudaStream_t s, balance& b) {
    void* p = nullptr;
    if (cudaMallocAsync(&p, n, s) != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        throw std::bad_alloc{};
    }
    ++b.live;
    return p;
}
inline void give(void* p, cudaStream_t s, balance& b) noexcept {
    static_cast<void>(cudaFreeAsync(p, s));
    --b.live;
}

/// RMM before 25.12: a base class, the stream at the end and by default, and a second name for cuda::mr.
class device_memory_resource {
   public:
    virtual ~device_memory_resource() = default;
    void* allocate(std::size_t n, stream_view s = stream_view{cudaStreamPerThread}) { return do_allocate(n, s); }
    void deallocate(void* p, std::size_t n, stream_view s = stream_view{cudaStreamPerThread}) {
        do_deallocate(p, n, s);
    }
    void* allocate(std::size_t n, std::size_t) {
        void* const p = do_allocate(n, cudaStreamPerThread);
        support::must(cudaStreamSynchronize(cudaStreamPerThread));  // for every stream
        return p;
    }
    void deallocate(void* p, std::size_t n, std::size_t) { do_deallocate(p, n, cudaStreamPerThread); }
    void* allocate_async(std::size_t n, std::size_t, stream_view s) { return do_allocate(n, s); }
    void* allocate_async(std::size_t n, stream_view s) { return do_allocate(n, s); }
    void deallocate_async(void* p, std::size_t n, std::size_t, stream_view s) { do_deallocate(p, n, s); }
    void deallocate_async(void* p, std::size_t n, stream_view s) { do_deallocate(p, n, s); }
    friend bool operator==(device_memory_resource const& a, device_memory_resource const& b) { return &a == &b; }
    friend bool operator!=(device_memory_resource const& a, device_memory_resource const& b) { return &a != &b; }
    friend void get_property(device_memory_resource const&, ::cuda::mr::device_accessible) noexcept {}

   private:
    virtual void* do_allocate(std::size_t, stream_view) = 0;
    virtual void do_deallocate(void*, std::size_t, stream_view) = 0;
};
class async_resource final : public device_memory_resource {
   public:
    balance counted;

   private:
    void* do_allocate(std::size_t n, stream_view s) override { return take(n, s, counted); }
    void do_deallocate(void* p, std::size_t, stream_view s) override { give(p, s, counted); }
};

/// The first form of such a resource: only the stream as the last argument.
struct stream_last {
    balance counted;
    void* allocate(std::size_t n, stream_view s) { return take(n, s, counted); }
    void deallocate(void* p, std::size_t, stream_view s) noexcept { give(p, s, counted); }
};

/// RMM since 25.12, and cuda::mr since CCCL 3.1: the stream as the first argument, and separate names for synchronous
/// calls.
struct stream_first {
    balance counted;
    void* allocate(::cuda::stream_ref s, std::size_t n, std::size_t = 256) { return take(n, s.get(), counted); }
    void deallocate(::cuda::stream_ref s, void* p, std::size_t, std::size_t = 256) noexcept {
        give(p, s.get(), counted);
    }
    void* allocate_sync(std::size_t n, std::size_t = 256) {
        void* const p = take(n, cudaStreamPerThread, counted);
        support::must(cudaStreamSynchronize(cudaStreamPerThread));
        return p;
    }
    void deallocate_sync(void* p, std::size_t, std::size_t = 256) noexcept { give(p, cudaStreamPerThread, counted); }
    friend bool operator==(stream_first const& a, stream_first const& b) { return &a == &b; }
};

}  // namespace other_library

namespace {

using namespace support;
using namespace other_library;
namespace cuda = ferry::cuda;

constexpr std::size_t too_much = std::size_t{1} << 46;

bool is_iota_by(ferry::tensor_view const& from, auto& back_end, ferry::stream_token on) {
    std::vector<float> near(static_cast<std::size_t>(from.size()), -1.0f);
    ferry::copy(ferry::tensor_view{near.data(), from.shape()}, from, back_end, on);
    return is_iota(near);
}

/// A tensor on memory of the space, written and read by both back ends.
template <class Space>
ferry::managed_tensor serves(Space space, ferry::stream_token on, cuda::copier& copier) {
    auto const source = make_array(ferry::cpu, {}, {1000});
    ferry::request const r{.device = space.device(), .stream = on};
    auto const by_copier = ferry::to_dlpack(source, r, ferry::destination{space, copier});
    auto made = ferry::to_dlpack(source, r, ferry::destination{space, cuda::system});
    for (auto const& v : {by_copier.view(), made.view()}) {
        CHECK(ferry::is_same_device(v.device(), space.device()));
        CHECK(cuda::device_of_pointer(v.data()).type == space.device().type);
        CHECK(is_iota_by(v, cuda::system, on));
        CHECK(is_iota_by(v, copier, on));
    }
    CHECK(by_copier.is_copied());
    ferry::buffer<Space> const raw{4000, space};
    CHECK(raw.data() != nullptr);
    return made;
}

/// Memory allocated and freed without a stream.
template <class Resource>
void serves_without_streams(Resource& resource, ferry::device where) {
    CAPTURE(ferry::name(where.type));
    test_stream const s;
    cuda::copier copier;
    ferry::resource_space space{resource, where};
    {
        auto const made = serves(space, s.token(), copier);
        s.finish();
    }
    if (where.type != ferry::device_type::cuda_managed)  // may be larger than any memory
        CHECK_THROWS_AS(static_cast<void>(space.allocate(too_much)), std::bad_alloc);
    CHECK(left_no_error());
}

/// Memory of a stream, freed after the work before it has run.
template <class Resource>
void serves_in_order(Resource& resource) {
    static_assert(cuda::stream_ordered_resource<Resource>);
    test_stream const s, other;
    load_kernels();
    auto const result = make_poisoned(gpu, {1000});
    cuda::stream_resource_space space{resource, s.get()};
    CHECK(space.device().id == 0);
    if (gpus() > 1) {
        on_device const there{1};
        test_stream const far;
        CHECK(cuda::stream_resource_space{resource, cuda::stream_ref::legacy_default()}.device().id == 1);
        must(cudaSetDevice(0));
        CHECK(cuda::stream_resource_space{resource, far.get()}.device().id == 1);
    }
    ferry::managed_tensor made;
    {
        cuda::copier copier;
        made = serves(space, s.token(), copier);
    }
    s.finish();
    gate closed{s.get()};
    add(result.first(), static_cast<float const*>(made.view().data()), 0, 1000, s.get());
    std::thread{[&] { auto const dead = std::move(made); }}.join();
    {
        // Would get the same address if it had been freed already.
        ferry::buffer const next{4000, cuda::stream_resource_space{resource, other.get()}};
        must(cudaMemsetAsync(next.data(), poison, 4000, other.get()));
        other.finish();
    }
    CHECK(!closed.is_open());
    closed.open();
    s.finish();
    CHECK(!closed.was_forced());
    CHECK(is_iota(read(result.first(), 1000)));
    CHECK_THROWS_AS(static_cast<void>(space.allocate(too_much)), std::bad_alloc);
    // The same by an exchange; the tensor stays the caller's.
    auto const array = make_array(gpu, s.token(), {16});
    counting_producer huge{array.first(), float32, {std::int64_t{1} << 44}, {0}};
    {
        auto t = ferry::from_dlpack(&huge.on(2).raw);
        CHECK_THROWS_AS(
            static_cast<void>(ferry::to_dlpack(std::move(t), {.copy = ferry::copy_policy::always, .stream = s.token()},
                                               ferry::destination{space, cuda::system}, s.token())),
            std::bad_alloc);
        CHECK(static_cast<bool>(t));
    }
    CHECK(huge.deleter_calls == 1);
    CHECK(left_no_error());
}

}  // namespace

TEST_CASE("cuda: every Thrust resource serves an exchange, and reports when there is no memory") {
    thrust::system::cuda::memory_resource on_gpu;
    serves_without_streams(on_gpu, gpu);
    thrust::system::cuda::universal_memory_resource anywhere;
    serves_without_streams(anywhere, managed);
    thrust::system::cuda::universal_host_pinned_memory_resource locked;
    serves_without_streams(locked, pinned);
    thrust::mr::new_delete_resource on_host;
    test_stream const s;
    auto const array = make_array(gpu, s.token(), {100});
    auto const host =
        ferry::to_host(array, ferry::destination{ferry::resource_space{on_host}, ferry::cuda::system});
    CHECK(is_iota_on_host(host.view()));
}

TEST_CASE("cuda R50: memory of every form of RMM resource is freed in the order of its stream") {
    async_resource old;
    serves_in_order(old);
    CHECK(old.counted.live == 0);
    device_memory_resource& base = old;
    serves_in_order(base);
    CHECK(old.counted.live == 0);
    stream_last first;
    serves_in_order(first);
    CHECK(first.counted.live == 0);
    stream_first current;
    serves_in_order(current);
    CHECK(current.counted.live == 0);
    serves_without_streams(current, gpu);  // by allocate_sync
    CHECK(current.counted.live == 0);
}

#if CCCL_VERSION < 3001000  // later ones have the shape of stream_first
TEST_CASE("cuda R50: a resource_ref of cuda::mr is a resource") {
    async_resource referred_to;
    ::cuda::mr::async_resource_ref<::cuda::mr::device_accessible> in_order{referred_to};
    serves_in_order(in_order);
    CHECK(referred_to.counted.live == 0);
    ::cuda::mr::resource_ref<::cuda::mr::device_accessible> plain{referred_to};
    serves_without_streams(plain, gpu);
    CHECK(referred_to.counted.live == 0);
}
#endif
