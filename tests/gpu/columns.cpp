// Columns between the host and a GPU: every type, by the plain back end and by the copier, and into memory of every
// kind.
#include <ferry/column.hpp>
#include <ferry/column/concat.hpp>
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/ipc.hpp>
#include <ferry/ipc.hpp>
#include <ferry/wire/binary.hpp>
#include <gpu/importer.hpp>
#include <gpu/world.hpp>
#include <support/ipc.hpp>
#include <support/patience.hpp>
#include <support/random_columns.hpp>
#include <support/split_columns.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace support;
using ferry::column;
namespace cuda = ferry::cuda;

std::vector<std::string> every_format() {
    std::vector<std::string> all(std::begin(column_maker::leaves), std::end(column_maker::leaves));
    all.insert(all.end(), std::begin(column_maker::nested), std::end(column_maker::nested));
    return all;
}

template <class BackEnd>
void round_trips(BackEnd& b, ferry::stream_token on, unsigned seed) {
    for (auto const& format : every_format())
        for (auto const place : cuda_memory) {
            column_maker maker{++seed};
            INFO(format, " seed ", seed);
            auto const whole = maker.make(format, maker.below(200), 3);
            auto const begin = maker.below(whole.length() + 1);
            auto const c = whole.slice(begin, maker.below(whole.length() - begin + 1));
            auto const there = c.to(place, b, on);
            CHECK(there.device().type == place.type);
            auto const back = there.to(ferry::cpu, b, on);
            CHECK(support::shown(back.view()) == support::shown(c.view()));
            auto const from = maker.below(there.length() + 1), length = maker.below(there.length() - from + 1);
            auto const part = there.slice(from, length).to(ferry::cpu, b, on);
            CHECK(support::shown(part.view()) == support::shown(c.view().slice(from, length)));
        }
}

}  // namespace

TEST_CASE("columns of every type are copied to memory of every kind and back") {
    test_stream const stream;
    round_trips(cuda::system, stream.token(), 1);
    round_trips(cuda::system, {}, 1'000);
    cuda::copier copier;
    round_trips(copier, stream.token(), 2'000);
}

TEST_CASE("the validity of a column on a GPU is a tensor there") {
    test_stream const stream;
    float const values[] = {1, 2, 3};
    unsigned char const valid[] = {0b101};
    ferry::column_buffer const buffers[] = {{valid, 1}, {values, sizeof values}};
    auto const there = ferry::make_column({.format = "f", .length = 3, .buffers = buffers}, nullptr)
                           .to(gpu, cuda::system, stream.token());
    auto tensors = ferry::to_dlpack(there, cuda::system, stream.token());
    REQUIRE(tensors.validity);
    CHECK(tensors.validity->device() == gpu);
    auto const back =
        ferry::from_tensors(std::move(tensors.data), std::move(tensors.validity), cuda::system, stream.token())
            .to(ferry::cpu, cuda::system, stream.token());
    CHECK(support::shown(back.view()) == std::vector<std::string>{"0000803f", "null", "00004040"});
}

TEST_CASE("a column of a GPU is shared, and is an alias in the session that shared it") {
    test_stream const stream;
    cuda::shareable b{cuda::system};
    ferry::ipc::session session;
    column_maker maker{77};
    auto const c = maker.make("+s", 50, 3);
    auto const there = c.to(gpu, cuda::system, stream.token());
    auto const s = ferry::ipc::share(there, {.session = &session, .ready_on = stream.token()}, b);
    auto const a = ferry::ipc::attach_column(s.descriptor(), {.session = &session, .stream = stream.token()}, b);
    auto const back = a.to(ferry::cpu, cuda::system, stream.token());
    CHECK(support::shown(back.view()) == support::shown(c.view()));
}

TEST_CASE("a table of 1000 columns, with one allocation or one for each column, is read by another process") {
    load_kernels();
    test_stream const stream;
    cuda::shareable b{cuda::system};
    ferry::ipc::session session;
    importer other;
    auto const table = support::wide_table(1000);
    std::string expected;
    for (auto row : support::shown(table.view())) {
        if (!row.ends_with("null,}")) row.replace(row.size() - 10, 8, "77777777");  // the last column
        expected += row + '\n';
    }
    auto split = support::split_into(gpu, cuda::device_space{0}, [](void* to, void const* from, std::size_t bytes) {
        must(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
    });
    for (bool const is_split : {false, true}) {
        auto const c = is_split ? split.put(table) : table.to(cuda::device_space{0}, cuda::system, stream.token());
        stream.finish();
        auto const last = c.child("c999");
        auto const data = last.view().buffers()[1];
        gate closed{stream.get()};
        must(cudaMemsetAsync(const_cast<void*>(data.data), 0x77, 12, stream.get()));
        auto const s = ferry::ipc::share(
            c, {.session = &session, .copy = ferry::copy_policy::never, .ready_on = stream.token()}, b);
        CHECK_FALSE(s.copied());
        CHECK(s.descriptor().memories.size() == (is_split ? 1001 : 1));  // the columns have one validity buffer
        auto const attached = other.attach_columns(ferry::wire::to_bytes(s.descriptor()));
        REQUIRE_MESSAGE(attached.code == ferry::errc::ok, text_of(attached));
        CHECK_GATED(!closed.is_open());
        other.begin(order_of_work::rows);
        ::usleep(20'000);
        CHECK_GATED(!closed.is_open());
        closed.open();
        CHECK(text_of(other.hear()) == expected);
        stream.finish();
        CHECK_GATED(!closed.was_forced());
    }
    auto const left = other.usage();
    CHECK(left.opened == left.closed);
    CHECK(session.collect(support::patience) == 0);
}

namespace {

/// 50 integers, each byte of which is `value`.
column integers(int value) {
    auto const owner = std::make_shared<std::vector<std::byte>>(200, static_cast<std::byte>(value));
    ferry::column_buffer const buffers[] = {{}, {owner->data(), 200}};
    return ferry::make_column({.format = "i", .name = "y", .length = 50, .buffers = buffers}, owner);
}

}  // namespace

TEST_CASE("two GPUs: a table with a part on each is shared without a copy, and attached on each or on one") {
    if (gpus() < 2) {
        MESSAGE("SKIPPED: needs two GPUs");
        return;
    }
    constexpr ferry::device gpu1{ferry::device_type::cuda, 1};
    cuda::shareable b{cuda::system};
    ferry::ipc::session session;
    importer other;
    column_maker maker{78};
    auto const h = ferry::compact(maker.make("u", 50, 2), ferry::ipc::shared_space{session});
    auto const x = maker.make("+l", 50, 2), y = integers(0);
    test_stream const zero;
    on_device const there{1};
    load_kernels();
    test_stream const one;
    column const children[] = {x.to(cuda::device_space{0}, cuda::system, zero.token()), h,
                               y.to(cuda::device_space{1}, cuda::system, one.token())};
    zero.finish();
    one.finish();
    auto const t = ferry::make_struct(children, "t");
    CHECK(t.child(2).device() == gpu1);
    auto const data = children[2].view().buffers()[1];
    auto const expected = [&](int value) {
        column const parts[] = {x, h, integers(value)};
        std::string text;
        for (auto const& row : support::shown(ferry::make_struct(parts))) text += row + '\n';
        return text;
    };
    auto const check = [&](ferry::stream_token ready_on, cudaStream_t writer, int value, std::int32_t device,
                           char const* devices) {
        INFO(value);
        gate closed{writer};
        must(cudaMemsetAsync(const_cast<void*>(data.data), value, 200, writer));
        if (writer == one.get()) cuda::order(one.token(), zero.token());
        auto const s =
            ferry::ipc::share(t, {.session = &session, .copy = ferry::copy_policy::never, .ready_on = ready_on}, b);
        CHECK_FALSE(s.copied());
        auto const attached = other.attach_columns(ferry::wire::to_bytes(s.descriptor()), device);
        REQUIRE_MESSAGE(attached.code == ferry::errc::ok, text_of(attached));
        CHECK(text_of(attached) == devices);
        other.begin(order_of_work::rows);
        ::usleep(20'000);
        CHECK_GATED(!closed.is_open());
        closed.open();
        CHECK(text_of(other.hear()) == expected(value));
        must(cudaStreamSynchronize(writer));
        CHECK_GATED(!closed.was_forced());
    };
    check(zero.token(), one.get(), 0x11, -1, "cuda:0 cpu:0 cuda:1 ");
    check(zero.token(), one.get(), 0x22, 0, "cuda:0 cpu:0 cuda:0 ");
    check(zero.token(), one.get(), 0x33, 1, "cuda:1 cpu:0 cuda:1 ");
    check(ferry::stream_token::cuda_per_thread_default(), cudaStreamPerThread, 0x44, -1, "cuda:0 cpu:0 cuda:1 ");
    {
        auto const s = ferry::ipc::share(
            t, {.session = &session, .copy = ferry::copy_policy::always, .ready_on = zero.token()}, b);
        CHECK(s.copied().buffers.size() > 3);
        CHECK(text_of(other.attach_columns(ferry::wire::to_bytes(s.descriptor()))) == "cuda:0 cpu:0 cuda:1 ");
        CHECK(text_of(other.tell(order_of_work::rows)) == expected(0x44));
        importer sees_one{"1"};
        auto const refused = sees_one.attach_columns(ferry::wire::to_bytes(s.descriptor()));
        CHECK(refused.code == ferry::errc::device_not_found);
        CHECK_MESSAGE(text_of(refused).find(" buffer: ") != std::string::npos, text_of(refused));
    }
    auto const left = other.usage();
    CHECK(left.opened == left.closed);
    CHECK(session.collect(support::patience) == 0);
}

TEST_CASE("a killed importer of a table on each GPU releases it") {
    cuda::shareable b{cuda::system};
    ferry::ipc::session session;
    importer killed, other;
    std::vector<column> children;
    for (int device = 0; device < std::min(gpus(), 2); ++device)
        children.push_back(integers(device).to(cuda::device_space{device}, cuda::system, {}));
    auto s =
        ferry::ipc::share(ferry::make_struct(children), {.session = &session, .copy = ferry::copy_policy::never}, b);
    auto const bytes = ferry::wire::to_bytes(s.descriptor());
    REQUIRE(killed.attach_columns(bytes).code == ferry::errc::ok);
    s = {};
    CHECK(session.collect() == children.size());  // a share on each GPU
    killed.kill();
    CHECK(session.collect(support::patience) == 0);
    CHECK(other.attach_columns(bytes).code == ferry::errc::exporter_gone);
}

TEST_CASE("a table on each GPU outlives its killed exporter, whose names the next exporter removes") {
    cuda::shareable b{cuda::system};
    ferry::ipc::session session;
    auto const devices = static_cast<std::size_t>(std::min(gpus(), 2));
    test_stream const zero;
    on_device const there{static_cast<int>(devices) - 1};
    load_kernels();
    test_stream const one;
    auto const share_on_each = [&](importer& exporter, std::byte value) {
        auto const described = exporter.tell(order_of_work::share_columns, std::vector(devices, value));
        REQUIRE_MESSAGE(described.code == ferry::errc::ok, text_of(described));
        return described.bytes;
    };
    auto const attach_here = [&](std::vector<std::byte> const& described) {
        return ferry::ipc::attach_column(ferry::wire::from_bytes(described),
                                         {.session = &session, .stream = zero.token()}, b);
    };
    auto const host = [&](column const& c) { return support::shown(c.to(ferry::cpu, b, zero.token())); };
    bool const is_one = devices == 1;
    std::vector<std::string> const sevens(50, is_one ? "{07,}" : "{07,07,}"), eights(50, is_one ? "{08,}" : "{08,08,}");

    importer exporter, other;
    auto const described = share_on_each(exporter, std::byte{7});
    auto const names_left = [pid = ferry::wire::from_bytes(described).from.pid] {
        return support::segments(static_cast<pid_t>(pid)).size();
    };
    auto mine = attach_here(described);
    for (std::int32_t device = 0; device < mine.child_count(); ++device)
        CHECK(mine.child(device).device() == ferry::device{ferry::device_type::cuda, device});
    REQUIRE(other.attach_columns(described).code == ferry::errc::ok);
    zero.finish();  // what the exporter has queued is done
    std::byte* read = nullptr;  // behind gates
    must(cudaMallocHost(reinterpret_cast<void**>(&read), 100));
    {
        gate first{zero.get()}, second{one.get()};
        for (int i = 0; i < 2; ++i) {
            auto const child = mine.child(is_one ? 0 : i);
            must(cudaMemcpyAsync(read + 50 * i, child.view().buffers()[1].data, 50, cudaMemcpyDeviceToHost,
                                 (i == 0 ? zero : one).get()));
        }
        exporter.kill();
        support::fails(ferry::errc::exporter_gone, [&] { static_cast<void>(attach_here(described)); });
        CHECK_GATED(!first.is_open());
        CHECK_GATED(!second.is_open());
        first.open();
        second.open();
        zero.finish();
        one.finish();
    }
    CHECK(std::count(read, read + 100, std::byte{7}) == 100);
    must(cudaFreeHost(read));
    CHECK(host(mine) == sevens);
    std::string text;
    for (auto const& row : sevens) text += row + '\n';
    CHECK(text_of(other.tell(order_of_work::rows)) == text);
    CHECK(other.attach_columns(described).code == ferry::errc::exporter_gone);

    CHECK(names_left() == devices);  // a share on each
    importer next;
    auto const successors = attach_here(share_on_each(next, std::byte{8}));
    CHECK(names_left() == 0);
    CHECK(host(successors) == eights);
    CHECK(host(mine) == sevens);
    mine = {};
    session.trim();
    CHECK(left_no_error());
    auto const left = other.usage();
    CHECK(left.opened == left.closed);
}

TEST_CASE("two GPUs: tables without rows are attached, wherever their columns are") {
    if (gpus() < 2) {
        MESSAGE("SKIPPED: needs two GPUs");
        return;
    }
    cuda::shareable b{cuda::system};
    ferry::ipc::session session;
    importer other;
    column_maker maker{80};
    auto const x = maker.make("+l", 20, 2), y = maker.make("u", 20, 2), h = maker.make("i", 20, 2);
    for (bool const has_memory : {false, true}) {  // that of the rows before the slice
        CAPTURE(has_memory);
        auto const part = [&](column const& c) { return has_memory ? c : c.slice(7, 0); };
        column const children[] = {part(x).to(cuda::device_space{0}, b, {}),
                                   ferry::compact(part(h), ferry::ipc::shared_space{session}),
                                   part(y).to(cuda::device_space{1}, b, {})};
        auto const table = ferry::make_struct(children, "t").slice(has_memory ? 7 : 0, 0);
        auto const s = ferry::ipc::share(table, {.session = &session, .copy = ferry::copy_policy::never}, b);
        CHECK_FALSE(s.copied());
        for (std::int32_t const device : {-1, 0, 1}) {
            auto const attached = other.attach_columns(ferry::wire::to_bytes(s.descriptor()), device);
            REQUIRE_MESSAGE(attached.code == ferry::errc::ok, text_of(attached));
            if (has_memory) {
                auto const on = [&](int id) { return "cuda:" + std::to_string(device < 0 ? id : device) + ' '; };
                CHECK(text_of(attached) == on(0) + "cpu:0 " + on(1));
            }
            CHECK(text_of(other.tell(order_of_work::rows)).empty());
        }
        CHECK(s.column().length() == 0);
    }
    auto const left = other.usage();
    CHECK(left.opened == left.closed);
    CHECK(session.collect(support::patience) == 0);
}
