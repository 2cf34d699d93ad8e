// Tensors of a GPU shared with another process by one call each.
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/ipc.hpp>
#include <ferry/ipc/attach.hpp>
#include <ferry/ipc/share.hpp>
#include <ferry/wire/binary.hpp>
#include <gpu/importer.hpp>
#include <gpu/world.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

namespace {

using namespace support;
using ferry::copy_policy;
using ferry::errc;
using enum support::order_of_work;
namespace cuda = ferry::cuda;
namespace ipc = ferry::ipc;
using std::chrono::seconds;

/// Bytes by cudaMalloc, which a handle can name.
struct plain_array {
    std::shared_ptr<ferry::buffer<cuda::device_space>> memory;
    std::vector<std::int64_t> shape, strides;
    std::int64_t offset = 0;
    bool read_only = false;
    ferry::stream_token ready = ferry::already_ready;
};

plain_array make_plain(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides = {},
                       std::int64_t offset = 0) {
    return {std::make_shared<ferry::buffer<cuda::device_space>>(std::size_t{4} << 20, cuda::device_space{0}),
            std::move(shape), std::move(strides), offset};
}

}  // namespace

template <>
struct ferry::array_traits<plain_array> {
    static tensor_view view(plain_array const& a) {
        return {static_cast<std::uint8_t*>(a.memory->data()) + a.offset,
                dtype_of<std::uint8_t>,
                a.shape,
                a.strides.empty() ? strides_view{} : strides_view{a.strides},
                support::gpu,
                a.read_only ? flags::read_only : flags::none};
    }
    static plain_array share(plain_array const& a) { return a; }
    static stream_token ready_on(plain_array const& a) { return a.ready; }
};

namespace {

/// 0, 1, 2, … modulo 256 at the begin of the memory.
void count_up(plain_array const& a) {
    std::vector<std::uint8_t> bytes(std::size_t{4} << 20);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
    must(cudaMemcpy(a.memory->data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
}

std::vector<std::byte> text(ipc::shared const& s) { return ferry::wire::to_bytes(s.descriptor()); }

std::vector<int> numbers(answer const& a) {
    std::vector<int> out;
    for (auto const b : a.bytes) out.push_back(static_cast<int>(b));
    return out;
}

}  // namespace

TEST_CASE("ipc share: slices, strides and turned round views arrive as they are, without a copy") {
    load_kernels();
    cuda::shareable back_end;
    ipc::session session;
    importer other;
    struct layout {
        std::vector<std::int64_t> shape, strides;
        std::int64_t offset;
        std::vector<int> expected;
    };
    for (auto const& l :
         {layout{{4}, {}, 0, {0, 1, 2, 3}}, layout{{2, 3}, {}, 100, {100, 101, 102, 103, 104, 105}},
          layout{{2, 3}, {16, 2}, 5, {5, 7, 9, 21, 23, 25}}, layout{{3, 2}, {1, 3}, 7, {7, 10, 8, 11, 9, 12}},
          layout{{4}, {-2}, 50, {50, 48, 46, 44}}, layout{{2, 2}, {0, 1}, 9, {9, 10, 9, 10}}, layout{{}, {}, 33, {33}},
          layout{{0, 3}, {}, 0, {}}}) {
        auto a = make_plain(l.shape, l.strides, l.offset);
        count_up(a);
        auto const shared = ipc::share(a, {.session = &session}, back_end);
        CHECK(!shared.copied());
        auto const attached = other.tell(attach, text(shared));
        REQUIRE_MESSAGE(attached.code == errc::ok,
                        std::string(reinterpret_cast<char const*>(attached.bytes.data()), attached.bytes.size()));
        CHECK(numbers(other.tell(elements)) == l.expected);
    }
}

TEST_CASE("ipc share: the importer's stream waits for the exporter's, and neither host does") {
    load_kernels();
    cuda::shareable back_end;
    auto a = make_plain({65536});
    test_stream s;
    importer other;
    gate closed{s.get()};
    must(cudaMemsetAsync(a.memory->data(), 77, 65536, s.get()));
    a.ready = s.token();
    auto const shared = ipc::share(a, back_end);
    CHECK(!closed.is_open());
    CHECK(other.tell(attach, text(shared)).code == errc::ok);
    CHECK(other.tell(copy_later).code == errc::ok);
    CHECK(!closed.is_open());
    closed.open();
    CHECK(numbers(other.tell(finish)) == std::vector<int>(65536, 77));
    s.finish();
    CHECK(!closed.was_forced());
    CHECK(other.tell(drop).code == errc::ok);
}

TEST_CASE(
    "ipc share: what is closed stays for who has it, is attached by nobody else, and is freed when the last one drops it") {
    cuda::shareable back_end;
    ipc::session session;
    importer other, late;
    auto a = make_plain({4});
    count_up(a);
    std::weak_ptr<void> const alive = a.memory;
    auto shared = ipc::share(std::move(a), {.session = &session}, back_end);
    auto const described = text(shared);
    REQUIRE(other.tell(attach, described).code == errc::ok);
    CHECK(shared.readers() == 1);
    auto const begin = std::chrono::steady_clock::now();
    shared.close();
    shared = {};
    CHECK(std::chrono::steady_clock::now() - begin < seconds{2});
    CHECK(late.tell(attach, described).code == errc::exporter_gone);
    CHECK(session.counts().condemned == 1);
    CHECK(session.collect() == 1);
    CHECK(!alive.expired());
    CHECK(numbers(other.tell(elements)) == std::vector<int>{0, 1, 2, 3});  // reading drops it
    CHECK(session.collect(seconds{2}) == 0);
    CHECK(alive.expired());
}

TEST_CASE("ipc share: memory that was closed and dropped is freed when the work that was queued on it has run") {
    load_kernels();
    cuda::shareable back_end;
    ipc::session session;
    importer other;
    auto a = make_plain({65536});
    count_up(a);
    std::weak_ptr<void> const alive = a.memory;
    auto shared = ipc::share(std::move(a), {.session = &session}, back_end);
    REQUIRE(other.tell(attach, text(shared)).code == errc::ok);
    REQUIRE(other.tell(hold).code == errc::ok);
    REQUIRE(other.tell(copy_later).code == errc::ok);
    shared = {};
    REQUIRE(other.tell(drop_later).code == errc::ok);
    CHECK(session.collect(std::chrono::milliseconds{50}) == 1);
    CHECK(!alive.expired());
    CHECK(numbers(other.tell(is_gone)) == std::vector<int>{0});
    REQUIRE(other.tell(release).code == errc::ok);
    CHECK(session.collect(seconds{5}) == 0);
    CHECK(alive.expired());
    auto const got = numbers(other.tell(finish));
    REQUIRE(got.size() == 65536);
    for (std::size_t i = 0; i < got.size(); i += 251) CHECK(got[i] == static_cast<int>(i & 255));
}

TEST_CASE("ipc share: an alias in the same process waits for the stream that writes, and the host does not") {
    load_kernels();
    cuda::shareable back_end;
    ipc::session session;
    auto a = make_plain({65536});
    test_stream writes, reads;
    std::byte* host = nullptr;
    must(cudaMallocHost(reinterpret_cast<void**>(&host), 65536));
    {
        gate closed{writes.get()};
        must(cudaMemsetAsync(a.memory->data(), 77, 65536, writes.get()));
        a.ready = writes.token();
        auto const shared = ipc::share(a, {.session = &session}, back_end);
        auto const alias = ipc::attach(shared.descriptor(), {.session = &session, .stream = reads.token()}, back_end);
        must(cudaMemcpyAsync(host, alias.view().data(), 65536, cudaMemcpyDeviceToHost, reads.get()));
        ::usleep(20'000);
        CHECK(!reads.is_idle());
        CHECK(!closed.is_open());
        closed.open();
        reads.finish();
        CHECK(!closed.was_forced());
    }
    CHECK(host[0] == std::byte{77});
    CHECK(host[65535] == std::byte{77});
    must(cudaFreeHost(host));
}

TEST_CASE("ipc share: a killed importer keeps nothing") {
    cuda::shareable back_end;
    ipc::session session;
    auto a = make_plain({4});
    std::weak_ptr<void> const alive = a.memory;
    auto shared = ipc::share(std::move(a), {.session = &session}, back_end);
    {
        importer other;
        REQUIRE(other.tell(attach, text(shared)).code == errc::ok);
        shared.close();
        shared = {};
        CHECK(session.collect() == 1);
        other.kill();
    }
    CHECK(session.collect(seconds{2}) == 0);
    CHECK(alive.expired());
}

TEST_CASE("ipc share: the importer's pending work is done before the exporter writes again") {
    load_kernels();
    cuda::shareable back_end;
    ipc::session session;
    importer other;
    constexpr std::size_t length = std::size_t{1} << 18;
    auto a = make_plain({static_cast<std::int64_t>(length)});
    test_stream s;
    a.ready = s.token();
    int wrong = 0;
    int const frames = std::getenv("FERRY_SHORT") == nullptr ? 10'000 : 300;
    for (int i = 0; i < frames; ++i) {
        must(cudaMemsetAsync(a.memory->data(), i % 251, length, s.get()));
        auto shared = ipc::share(a, {.session = &session}, back_end);
        REQUIRE(other.tell(attach, text(shared)).code == errc::ok);
        if (i % 100 == 0) REQUIRE(other.tell(hold).code == errc::ok);  // its copy is late
        REQUIRE(other.tell(copy_later).code == errc::ok);
        REQUIRE(other.tell(drop).code == errc::ok);  // its copy may still run
        REQUIRE(shared.wait_for_readers(seconds{5}, s.token()));
        must(cudaMemsetAsync(a.memory->data(), 0xFE, length, s.get()));  // as early as allowed
        if (i % 100 == 0) REQUIRE(other.tell(release).code == errc::ok);
        auto const got = other.tell(finish).bytes;
        REQUIRE(got.size() == length);
        wrong += !std::ranges::all_of(got, [i](std::byte b) { return b == std::byte(i % 251); });
    }
    s.finish();
    CHECK(wrong == 0);
}

TEST_CASE("ipc share: stream-ordered memory is copied into memory that has a handle, or refused by name") {
    test_stream s;
    auto const a = make_array(gpu, s.token(), {2, 3});
    s.finish();
    cuda::shareable back_end;
    importer other;
    auto const shared = ipc::share(a, back_end);
    CHECK(shared.copied());
    CHECK(other.tell(attach, text(shared)).code == errc::ok);
    auto const got = other.tell(elements).bytes;
    REQUIRE(got.size() == 24);
    float last = 0;
    std::memcpy(&last, got.data() + 20, 4);
    CHECK(last == 6.0F);
    try {
        static_cast<void>(ipc::share(a, {.copy = copy_policy::never}, back_end));
        FAIL_CHECK("shared in place");
    } catch (ferry::error const& e) {
        CHECK((e.code() == errc::not_exportable || e.code() == errc::copy_needed));
        CHECK(std::strstr(e.what(), "pool") != nullptr);
    }
}

TEST_CASE("ipc share: the same process attaches an alias through the session, and hears of it without") {
    cuda::shareable back_end;
    ipc::session session;
    auto const a = make_plain({4});
    auto const shared = ipc::share(a, {.session = &session}, back_end);
    auto const alias = ipc::attach(shared.descriptor(), {.session = &session}, back_end);
    CHECK(alias.view().data() == a.memory->data());
    fails(errc::same_process, [&] { static_cast<void>(ipc::attach(shared.descriptor(), back_end)); }, {"session"});
}

TEST_CASE("ipc share: read-only is told, and without the CUDA back end the header is named") {
    cuda::shareable back_end;
    auto a = make_plain({4});
    a.read_only = true;
    auto const shared = ipc::share(a, back_end);
    importer other;
    CHECK(numbers(other.tell(attach, text(shared))) == std::vector<int>{1});
    fails(errc::no_backend, [&] { static_cast<void>(ipc::share(a)); }, {"ferry/cuda/ipc.hpp"});
}

TEST_CASE("ipc share: a thousand rounds leave no event, mapping or file behind") {
    cuda::shareable back_end;
    ipc::session session;
    importer other;
    auto const a = make_plain({4});
    test_stream s;
    for (int i = 0; i < 1000; ++i) {
        auto const shared = ipc::share(a, {.session = &session, .ready_on = s.token()}, back_end);
        REQUIRE(other.tell(attach, text(shared)).code == errc::ok);
        REQUIRE(other.tell(drop).code == errc::ok);
    }
    // The importer may keep the last mapping for the next attach, and with it the memory.
    CHECK(session.collect() <= 1);
    other.kill();
    CHECK(session.collect(seconds{2}) == 0);
    CHECK(session.counts().shares == 0);
}
