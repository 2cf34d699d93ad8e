// Both back ends refuse invalid requests with the cure: the tensor stays the caller's, and no CUDA error stays pending.
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/pending.hpp>
#include <ferry/cuda/reaper.hpp>
#include <gpu/world.hpp>
#include <support/counting_producer.hpp>

#include <cstdint>
#include <initializer_list>
#include <utility>

namespace {

using namespace support;
using ferry::copy_policy;
using ferry::device;
using ferry::device_type;
using ferry::errc;
using ferry::request;
using ferry::stream_token;

/// Every use of a tensor with such a description fails with `code`, and leaves the tensor intact.
template <class Try>
void refused(errc code, counting_producer& p, Try attempt, std::initializer_list<char const*> texts) {
    {
        auto tensor = ferry::from_dlpack(&p.raw);
        fails(code, [&] { attempt(std::move(tensor)); }, texts);
        CHECK(static_cast<bool>(tensor));
        CHECK(tensor.get() == &p.raw);
        CHECK(p.deleter_calls == 0);
    }
    CHECK(p.deleter_calls == 1);
    CHECK(left_no_error());
}

constexpr device no_such_gpu{device_type::cuda, 1000};

template <class BackEnd>
void refuses_all(BackEnd& b) {
    test_stream const s;
    auto const array = make_array(gpu, s.token(), {4});
    s.finish();
    float host[4] = {1, 2, 3, 4};
    auto const exchange = [&](request const& r, stream_token ready_on) {
        return [&b, r, ready_on](ferry::managed_tensor&& t) {
            static_cast<void>(ferry::to_dlpack(std::move(t), r, b, ready_on));
        };
    };
    auto const to_host = [&](stream_token ready_on) {
        return
            [&b, ready_on](ferry::managed_tensor&& t) { static_cast<void>(ferry::to_host(std::move(t), b, ready_on)); };
    };
    auto const said = [](void* data, device where, auto f) {
        counting_producer p{data, float32, {4}};
        p.on(static_cast<std::int32_t>(where.type), where.id);
        f(p);
    };
    auto const wrong_place = {"correct the device that the producer reports"};
    INFO("a tensor that says another GPU than it is on");
    if (gpus() > 1)
        said(array.first(), {device_type::cuda, 1},
             [&](auto& p) { refused(errc::device, p, to_host(ferry::already_ready), wrong_place); });
    said(array.first(), no_such_gpu,
         [&](auto& p) { refused(errc::device, p, to_host(ferry::already_ready), {"device"}); });
    INFO("a GPU that there is not");
    said(host, ferry::cpu, [&](auto& p) {
        refused(errc::device, p, exchange({.device = no_such_gpu}, {}), {"this process has no such device"});
    });
    INFO("host memory, and unmapped addresses, described as GPU memory");
    for (void* const p : {static_cast<void*>(host), reinterpret_cast<void*>(std::uintptr_t{0x7000'0000'1000})}) {
        said(p, gpu, [&](auto& q) { refused(errc::foreign_pointer, q, to_host(ferry::already_ready), wrong_place); });
        for (auto const where : cuda_memory)
            said(p, where, [&](auto& q) {
                refused(errc::foreign_pointer, q,
                        exchange({.copy = copy_policy::always, .stream = s.token()}, s.token()), wrong_place);
            });
    }
    INFO("streams of another kind");
    said(array.first(), gpu, [&](auto& p) {
        refused(errc::stream, p, exchange({.stream = stream_token::rocm_default()}, s.token()),
                {"a different type of device"});
    });
    said(array.first(), gpu, [&](auto& p) {
        refused(errc::stream, p, to_host(stream_token::rocm_default()), {"a different type of device"});
    });
    INFO("a null stream");
    said(array.first(), gpu,
         [&](auto& p) { refused(errc::stream, p, to_host(ferry::cuda::stream_ref{cudaStream_t{}}), {"R44"}); });
    INFO("more memory than there is");
    {
        counting_producer p{array.first(), float32, {std::int64_t{1} << 44}, {0}};
        p.on(2);
        refused(errc::out_of_memory, p, exchange({.copy = copy_policy::always, .stream = s.token()}, s.token()),
                {"free memory, or allocate from another memory space"});
    }
    INFO("a stream that is being captured");
    must(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    auto const beside = {"before or after the capture"};
    said(array.first(), gpu, [&](auto& p) { refused(errc::capturing, p, to_host(s.token()), beside); });
    said(array.first(), gpu, [&](auto& p) {
        refused(errc::capturing, p, exchange({.copy = copy_policy::always, .stream = s.token()}, ferry::already_ready),
                beside);
    });
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
    if (graph != nullptr) must(cudaGraphDestroy(graph));
    CHECK(left_no_error());
    CHECK(is_iota(ferry::view_of(array)));
}

}  // namespace

TEST_CASE("cuda R68: the plain back end refuses invalid requests with the cure, and the tensor stays the caller's") {
    refuses_all(ferry::cuda::system);
}

TEST_CASE("cuda R68: the copier refuses invalid requests with the cure, and the tensor stays the caller's") {
    ferry::cuda::copier copier;
    refuses_all(copier);
    CHECK(copier.pinned().first == copier.pinned().second);
}

TEST_CASE("cuda R68: copy_async and release_after refuse invalid requests, and the tensor stays the caller's") {
    test_stream const s;
    auto const array = make_array(gpu, s.token(), {4});
    s.finish();
    float host[4] = {};
    ferry::cuda::copier copier;
    ferry::cuda::reaper reaper;
    auto const copy_async = [&](device to, stream_token on) {
        return [&copier, to, on](ferry::managed_tensor&& t) {
            static_cast<void>(ferry::cuda::copy_async(std::move(t), to, copier, ferry::already_ready, on));
        };
    };
    auto const said = [](void* data, auto f) {
        counting_producer p{data, float32, {4}};
        p.on(2);
        f(p);
    };
    said(array.first(), [&](auto& p) { refused(errc::device, p, copy_async(ferry::cpu, s.token()), {"to_host"}); });
    said(array.first(), [&](auto& p) {
        refused(errc::device, p, copy_async(no_such_gpu, s.token()), {"this process has no such device"});
    });
    said(host, [&](auto& p) {
        refused(errc::foreign_pointer, p, copy_async(pinned, s.token()),
                {"correct the device that the producer reports"});
    });
    said(array.first(), [&](auto& p) { refused(errc::stream, p, copy_async(pinned, {}), {"pass `on`"}); });
    must(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    said(array.first(),
         [&](auto& p) { refused(errc::capturing, p, copy_async(pinned, s.token()), {"before or after the capture"}); });
    said(array.first(), [&](auto& p) {
        refused(errc::capturing, p,
                [&](ferry::managed_tensor&& t) { ferry::cuda::release_after(s.token(), reaper, std::move(t)); },
                {"before or after the capture"});
    });
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
    if (graph != nullptr) must(cudaGraphDestroy(graph));
    CHECK(reaper.size() == 0);
    CHECK(left_no_error());
}

TEST_CASE("cuda R50: memory of a failed copy_async is freed in the order of its stream") {
    float host[1024] = {};
    ferry::cuda::copier copier;
    test_stream const s, other;
    cudaMemPool_t pool = nullptr;
    must(cudaDeviceGetMemPool(&pool, 0));
    void* before = nullptr;
    must(cudaMallocFromPoolAsync(&before, sizeof host, pool, s.get()));
    s.finish();
    load_kernels();
    gate closed{s.get()};
    must(cudaMemsetAsync(before, 7, sizeof host, s.get()));
    must(cudaFreeAsync(before, s.get()));  // lent again on this stream at once, and to others behind it
    opener const later{closed};
    counting_producer p{host, float32, {1024}};
    p.on(2);
    refused(errc::foreign_pointer, p,
            [&](ferry::managed_tensor&& t) {
                static_cast<void>(ferry::cuda::copy_async(std::move(t), gpu, copier, ferry::already_ready, s.token()));
            },
            {"correct the device that the producer reports"});
    void* after = nullptr;
    must(cudaMallocFromPoolAsync(&after, sizeof host, pool, other.get()));
    must(cudaMemsetAsync(after, 1, sizeof host, other.get()));
    other.finish();
    s.finish();
    must(cudaMemcpy(host, after, sizeof host, cudaMemcpyDefault));
    CHECK(reinterpret_cast<unsigned char const*>(host)[0] == 1);
    must(cudaFreeAsync(after, other.get()));
    other.finish();
    CHECK(left_no_error());
}
