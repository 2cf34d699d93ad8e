// Memory of every CUDA kind: its device, its allocation, and its release on any thread.
#include <ferry/cuda/copier.hpp>
#include <gpu/calls.hpp>
#include <gpu/world.hpp>

#include <algorithm>
#include <memory_resource>
#include <new>
#include <numeric>
#include <optional>
#include <vector>

namespace {

using namespace support;
using ferry::device_type;
using ferry::errc;

template <class Space>
void behaves(Space space) {
    CAPTURE(ferry::name(space.device().type));
    void* const p = space.allocate(1000, ferry::default_alignment);
    REQUIRE(p != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % ferry::default_alignment == 0);
    CHECK(ferry::is_same_device(ferry::cuda::device_of_pointer(p), space.device()));
    must(cudaDeviceSynchronize());  // memory of a pool is there once its stream gets to it
    fill(p, 1, 1000);
    Space const copy = space;
    std::thread{[&] { copy.deallocate(p, 1000, ferry::default_alignment); }}.join();
    void* const none = space.allocate(0, ferry::default_alignment);
    CHECK(none != nullptr);
    space.deallocate(none, 0, ferry::default_alignment);
    fails(errc::out_of_memory,
          [&] { static_cast<void>(space.allocate(std::size_t{1} << 46, ferry::default_alignment)); });
    CHECK(left_no_error());
    ferry::buffer<Space> const empty{0, space};
    CHECK(empty.data() == nullptr);
    static_assert(ferry::memory_space<Space>);
}

/// Pinned memory as a std::pmr resource.
class pinned_resource final : public std::pmr::memory_resource {
   public:
    explicit pinned_resource(ferry::cuda::pinned_pool pool) : pool_{std::move(pool)} {}

   private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
        try {
            return pool_.allocate(bytes, alignment);
        } catch (ferry::error const& e) {
            if (e.code() == errc::out_of_memory) throw std::bad_alloc{};
            throw;
        }
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t alignment) override {
        pool_.deallocate(p, bytes, alignment);
    }
    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }

    ferry::cuda::pinned_pool pool_;
};

}  // namespace

TEST_CASE("cuda: spaces allocate memory of their kind, also of 0 bytes, and report when there is none") {
    test_stream const s;
    behaves(ferry::cuda::device_space{});
    behaves(ferry::cuda::pinned_space{});
    behaves(ferry::cuda::pinned_pool{});
    behaves(ferry::cuda::pool_space{ferry::cuda::pool{}, s.get()});
    behaves(ferry::cuda::pool_space{ferry::cuda::pool::default_of(0), s.get()});
    // May exceed any memory: allocates less.
    void* const p = ferry::cuda::managed_space{}.allocate(1000);
    CHECK(ferry::cuda::device_of_pointer(p).type == device_type::cuda_managed);
    ferry::cuda::managed_space{}.deallocate(p, 1000);
    fails(errc::device, [] { static_cast<void>(ferry::cuda::device_space{1000}.allocate(16)); });
    fails(errc::device, [] { ferry::cuda::memory const m(ferry::device{device_type::cuda, 1000}, 16, {}); });
    for (auto const other : {device_type::rocm, device_type::rocm_host, device_type::opencl, device_type{99}})
        for (std::size_t const bytes : {0u, 16u})
            fails(errc::device, [&] { ferry::cuda::memory const m(ferry::device{other, 0}, bytes, {}); });
    CHECK(left_no_error());
}

TEST_CASE("cuda: memory of cudaMalloc, cudaHostAlloc and cudaMallocManaged is freed after the device's work") {
    test_stream const s;
    load_kernels();
    auto const waits = [&](auto const& space) {
        CAPTURE(ferry::name(space.device().type));
        void* const p = space.allocate(4096);
        gate closed{s.get()};
        opener const later{closed};
        space.deallocate(p, 4096);
        CHECK_GATED(closed.is_open());
    };
    waits(ferry::cuda::device_space{});
    waits(ferry::cuda::pinned_space{});
    waits(ferry::cuda::managed_space{});
}

TEST_CASE("cuda: a pinned pool reuses memory, keeps a bounded amount, and is kept alive by its memory") {
    std::optional<ferry::cuda::pinned_pool> pool{std::in_place, std::size_t{64} << 10};
    void* const first = pool->allocate(5000);
    pool->deallocate(first, 5000);
    CHECK(pool->kept() == 5120);
    CHECK(pool->allocate(5100) == first);
    CHECK(pool->kept() == 0);
    void* const large = pool->allocate(100000);
    pool->deallocate(large, 100000);
    CHECK(pool->kept() == 0);
    pool->deallocate(first, 5100);
    auto const other = *pool;
    pool.reset();
    CHECK(other.kept() == 5120);
}

TEST_CASE("cuda: a pool drops the memory that was released first, and all of it when it is closed") {
    ferry::cuda::pinned_pool const pool{16384};
    void* const blocks[] = {pool.allocate(4096), pool.allocate(8192), pool.allocate(8192), pool.allocate(20480)};
    CHECK(pool.size() == 40960);
    std::size_t const sizes[] = {4096, 8192, 8192, 20480};
    for (int i = 0; i < 4; ++i) pool.deallocate(blocks[i], sizes[i]);
    CHECK(pool.kept() == 16384);
    CHECK(pool.size() == 16384);
    CHECK(pool.allocate(8192) == blocks[2]);
    pool.close();
    CHECK(pool.kept() == 0);
    pool.deallocate(blocks[2], 8192);
    CHECK(pool.size() == 0);
}

TEST_CASE("cuda: lent memory stays within the bound of its pool, and is smaller or none when it is short") {
    ferry::cuda::pinned_pool const pool{12288};
    {
        auto const first = pool.lend(8000, 4096), second = pool.lend(8192, 4096);
        CHECK(first.get_deleter().size == 8192);
        CHECK(second.get_deleter().size == 4096);
        CHECK(pool.lend(4096, 4096) == nullptr);
        CHECK(pool.lend(~std::size_t{0} / 4, ~std::size_t{0} / 8) == nullptr);
        CHECK(pool.size() == 12288);
        CHECK(pool.kept() == 0);
    }
    CHECK(pool.kept() == 12288);
    CHECK(pool.lend(100, 100).get_deleter().size == 4096);
    CHECK(pool.lend(5000, 5000).get_deleter().size == 8192);
    CHECK(pool.size() == 12288);
}

TEST_CASE("cuda: a std::pmr vector in pinned memory is copied from and to, and destroyed on any thread") {
    test_stream const s;
    ferry::cuda::pinned_pool const pool;
    pinned_resource resource{pool};
    std::pmr::vector<float> source(1000, &resource), back(1000, &resource);
    std::iota(source.begin(), source.end(), 1.0f);
    cudaPointerAttributes facts{};
    must(cudaPointerGetAttributes(&facts, source.data()));
    CHECK(facts.type == cudaMemoryTypeHost);
    std::int64_t const shape[] = {1000};
    auto const round_trip = [&](auto& back_end) {
        auto there = make_poisoned(gpu, {1000});
        std::fill(back.begin(), back.end(), -1.0f);
        ferry::copy(ferry::view_of(there), {source.data(), shape, {}, pinned}, back_end, s.token());
        CHECK(is_iota(ferry::view_of(there)));
        ferry::copy({back.data(), shape, {}, pinned}, ferry::view_of(there), back_end, s.token());
        CHECK(back == source);
    };
    round_trip(ferry::cuda::system);
    ferry::cuda::copier copier;
    round_trip(copier);
    CHECK_THROWS_AS(source.reserve(std::size_t{1} << 44), std::bad_alloc);
    CHECK(source.size() == 1000);
    CHECK(left_no_error());
    auto const kept = pool.kept();
    std::thread{[dies = std::move(back)]() mutable { auto const dead = std::move(dies); }}.join();
    CHECK(pool.kept() == kept + 4096);
}

TEST_CASE("cuda: std::pmr resources over pinned memory are pinned spaces, and results are allocated there") {
    test_stream const theirs;
    auto const array = make_array(gpu, theirs.token(), {100});
    pinned_resource resource{ferry::cuda::pinned_pool{}};
    std::pmr::monotonic_buffer_resource arena{4096, &resource};
    ferry::resource_space const space{static_cast<std::pmr::memory_resource&>(arena), pinned};
    auto const got = ferry::to_dlpack(array, {.device = pinned}, ferry::destination{space, ferry::cuda::system});
    CHECK(got.device() == pinned);
    CHECK(ferry::cuda::device_of_pointer(got.view().data()).type == device_type::cuda_host);
    CHECK(is_iota_on_host(got.view()));
    ferry::cuda::copier copier;
    auto const again = ferry::to_dlpack(array, {.device = pinned}, ferry::destination{space, copier});
    CHECK(is_iota_on_host(again.view()));
}

TEST_CASE("cuda R66: memory is released on any thread without blocking, in the order of the legacy stream") {
    auto const before = pool_bytes_used();
    auto array = make_array(gpu, ferry::already_ready, {1000});
    auto result = make_poisoned(gpu, {1000});
    {
        gate closed{cudaStreamLegacy};
        add(result.first(), array.first(), 0, 1000, cudaStreamLegacy);
        std::thread{[&] { array.memory.reset(); }}.join();
        CHECK_GATED(!closed.is_open());
        closed.open();
        must(cudaStreamSynchronize(cudaStreamLegacy));
        CHECK_GATED(!closed.was_forced());
    }
    CHECK(is_iota(read(result.first(), 1000)));
    result.memory.reset();
    CHECK(pool_bytes_used() == before);
    CHECK(left_no_error());
}

TEST_CASE("cuda: memory allocated on a stream is usable there, whatever the legacy stream does") {
    test_stream const s;
    load_kernels();
    gate closed{cudaStreamLegacy};
    {
        ferry::cuda::memory const m(gpu, 4096, s.token());
        iota(static_cast<float*>(m.data()), 1024, s.get());
        s.finish();
        CHECK_GATED(!closed.is_open());
        CHECK(is_iota(read(m.data(), 1024)));
    }
    closed.open();
}

TEST_CASE("cuda: moved-from memory owns nothing") {
    ferry::cuda::memory a(gpu, 64, {});
    void* const p = a.data();
    ferry::cuda::memory b{std::move(a)};
    CHECK(a.data() == nullptr);
    CHECK(b.data() == p);
    ferry::cuda::memory c(pinned, 64, {});
    c = std::move(b);
    CHECK(c.data() == p);
    CHECK(c.device() == gpu);
    CHECK(ferry::cuda::memory(gpu, 0, {}).data() == nullptr);
}

TEST_CASE("cuda: no call synchronises a whole device") {
    if (!calls::are_seen()) {
        MESSAGE("SKIPPED: calls are not counted: link libcudart shared");
        return;
    }
    test_stream const s;
    calls::reset();
    auto const array = make_array(gpu, s.token(), {3, 5});
    static_cast<void>(ferry::to_host(array, ferry::cuda::system));
    static_cast<void>(ferry::to_dlpack(array, {.device = pinned, .stream = s.token()}, ferry::cuda::system));
    s.finish();
    CHECK(calls::count(calls::of::device_synchronize) == 0);
}

namespace {

/// Exports tensors of every kind of memory into a space, exactly; `kinds` says which the space contains.
template <class Space>
void places(Space const& space, ferry::device target, std::initializer_list<bool> kinds, test_stream const& s) {
    CAPTURE(ferry::name(space.device().type));
    ferry::cuda::copier copier;
    ferry::cuda::pool const pool;
    std::int64_t const shape[] = {100};
    auto contained = kinds.begin();
    auto const check = [&](auto source, ferry::device where) {
        CAPTURE(ferry::name(where.type));
        bool const is_inside = *contained++;
        ferry::buffer memory{400, std::move(source)};
        ferry::tensor_view const view{static_cast<float*>(memory.data()), shape, {}, where};
        auto const values = make_array(gpu, s.token(), {100});
        ferry::copy(view, ferry::view_of(values), copier, s.token());
        s.finish();
        CHECK(space.contains(view) == is_inside);
        auto tensor = ferry::make_managed(std::move(memory), view);
        ferry::request req{.device = target, .placement = ferry::placement::exact};
        if (target == gpu) req.stream = s.token();  // that of the pool
        auto const got =
            ferry::to_dlpack(std::move(tensor), req, ferry::destination{space, copier}, ferry::already_ready);
        must(cudaDeviceSynchronize());
        bool const is_shared = is_inside && (where == target || ferry::is_host_accessible(target));
        CHECK(got.is_copied() == !is_shared);
        CHECK((got.view().data() == view.data()) == is_shared);
        CHECK(got.device() == target);
        CHECK(space.contains(got.view()));
        CHECK(is_iota(read(got.view().data(), 100)));
    };
    check(ferry::host_space{}, ferry::cpu);
    check(ferry::cuda::pinned_space{}, pinned);
    check(ferry::cuda::managed_space{}, managed);
    check(ferry::cuda::device_space{}, gpu);
    check(ferry::cuda::pool_space{pool, s.get()}, gpu);
    CHECK(contained == kinds.end());
    CHECK(left_no_error());
}

}  // namespace

TEST_CASE("cuda D9: with placement::exact, results lie in the space: its memory is shared, other memory is copied") {
    test_stream const s;
    places(ferry::cuda::pinned_space{}, ferry::cpu, {false, true, false, false, false}, s);
    places(ferry::cuda::pinned_space{}, pinned, {false, true, false, false, false}, s);
    places(ferry::cuda::pinned_pool{}, ferry::cpu, {false, true, false, false, false}, s);
    places(ferry::cuda::managed_space{}, managed, {false, false, true, false, false}, s);
    places(ferry::cuda::device_space{}, gpu, {false, false, false, true, false}, s);
    places(ferry::cuda::pool_space{ferry::cuda::pool{}, s.get()}, gpu, {false, false, false, false, false}, s);
    ferry::cuda::pool const own;
    ferry::cuda::pool_space const space{own, s.get()};
    ferry::buffer const inside{400, space};
    std::int64_t const shape[] = {50}, steps[] = {2}, backwards[] = {-1};
    auto* const data = static_cast<float*>(inside.data());
    CHECK(space.contains({data, shape, steps, gpu}));
    CHECK(space.contains({data + 49, shape, backwards, gpu}));
    ferry::buffer const registered{3 << 12, ferry::host_space{}, 4096};  // the middle page is pinned
    auto* const page = static_cast<std::byte*>(registered.data()) + 4096;
    must(cudaHostRegister(page, 4096, cudaHostRegisterPortable));
    std::int64_t const page_shape[] = {4096};
    CHECK(ferry::cuda::pinned_space{}.contains({page, page_shape}));
    CHECK_FALSE(ferry::cuda::pinned_space{}.contains({page + 1, page_shape}));
    CHECK_FALSE(ferry::cuda::pinned_space{}.contains({page - 1, page_shape}));
    must(cudaHostUnregister(page));
}
