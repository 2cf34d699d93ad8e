#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/tensor/managed.hpp>

#include <support/allocation_failure.hpp>
#include <support/counting_producer.hpp>
#include <support/fails.hpp>
#include <support/pages.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

using ferry::errc;
using ferry::from_dlpack;
using ferry::managed_tensor;
using support::fails;
using tensor = support::counting_producer;

namespace {
alignas(64) float memory[64];
int calls = 0;
}  // namespace

TEST_CASE("R6, R68: the destructor calls the deleter exactly once") {
    tensor p{memory, support::float32, {2, 3}, {3, 1}};
    {
        managed_tensor const t = from_dlpack(&p.raw);
        CHECK(p.deleter_calls == 0);
        CHECK(static_cast<bool>(t));
        CHECK(t.get() == &p.raw);
    }
    CHECK(p.deleter_calls == 1);
    CHECK(p.deleted == &p.raw);
}

TEST_CASE("R7: a move transfers the tensor and its view") {
    tensor p{memory, support::float32, {2, 3}, {3, 1}};
    managed_tensor a = from_dlpack(&p.raw);
    managed_tensor b = std::move(a);
    CHECK_FALSE(static_cast<bool>(a));
    fails(errc::consumed, [&] { static_cast<void>(a.view()); }, {"ferry::managed_tensor::view", "moved from"});
    CHECK(b.view().data() == memory);
    managed_tensor c;
    c = std::move(b);
    CHECK(c.view().extent(1) == 3);
    CHECK(p.deleter_calls == 0);
    c = managed_tensor{};
    CHECK(p.deleter_calls == 1);
}

TEST_CASE("R68: assignment releases the previous tensor, and self-assignment keeps it") {
    tensor p{memory, support::float32, {2}}, q{memory, support::float32, {3}};
    managed_tensor a = from_dlpack(&p.raw), b = from_dlpack(&q.raw);
    a = std::move(b);
    CHECK(p.deleter_calls == 1);
    CHECK(q.deleter_calls == 0);
    auto& self = a;
    a = std::move(self);
    CHECK(q.deleter_calls == 0);
    CHECK(static_cast<bool>(a));
    CHECK(a.view().extent(0) == 3);
}

TEST_CASE("R62, R68: release returns the struct unchanged, without a call of its deleter") {
    tensor p{memory, support::float32, {2}};
    p.raw.flags = 0xf0;
    p.raw.version = {1, 42};
    {
        managed_tensor t = from_dlpack(&p.raw);
        CHECK(t.release() == &p.raw);
        CHECK_FALSE(static_cast<bool>(t));
        CHECK(t.get() == nullptr);
        CHECK(t.release() == nullptr);
    }
    CHECK(p.deleter_calls == 0);
    CHECK(p.raw.flags == 0xf0);
    CHECK(p.raw.version.minor == 42);
}

TEST_CASE("R5: deleter and manager_ctx may be NULL") {
    tensor p{memory, support::float32, {2}};
    p.raw.deleter = nullptr;
    p.raw.manager_ctx = nullptr;
    {
        auto const t = from_dlpack(&p.raw);
    }
    p.tensor().ndim = -1;
    fails(errc::rank, [&] { static_cast<void>(from_dlpack(&p.raw)); }, {"ferry::from_dlpack"});

    calls = 0;
    tensor q{memory, support::float32, {2}};
    q.raw.manager_ctx = nullptr;
    q.raw.deleter = [](DLManagedTensorVersioned*) { ++calls; };
    {
        auto const t = from_dlpack(&q.raw);
    }
    CHECK(calls == 1);
}

TEST_CASE("a null pointer is an error, not a crash") {
    fails(errc::null_struct, [] { static_cast<void>(from_dlpack(static_cast<DLManagedTensorVersioned*>(nullptr))); },
          {"DLManagedTensorVersioned*", "null"});
}

TEST_CASE("R68: the deleter of an invalid tensor is called exactly once") {
    struct {
        errc code;
        void (*spoil)(tensor&);
    } const rows[] = {
        {errc::version, [](tensor& t) { t.raw.version.major = 2; }},
        {errc::device, [](tensor& t) { t.on(5); }},
        {errc::dtype, [](tensor& t) { t.tensor().dtype.code = 77; }},
        {errc::rank, [](tensor& t) { t.tensor().ndim = -3; }},
        {errc::shape, [](tensor& t) { t.tensor().shape = nullptr; }},
        {errc::shape, [](tensor& t) { t.shape[1] = -1; }},
        {errc::overflow, [](tensor& t) { t.shape[0] = INT64_MAX; }},
        {errc::overflow, [](tensor& t) { t.strides[0] = INT64_MAX; }},
        {errc::overflow, [](tensor& t) { t.tensor().byte_offset = UINT64_MAX; }},
        {errc::null_data, [](tensor& t) { t.tensor().data = nullptr; }},
    };
    for (auto const& row : rows) {
        tensor p{memory, support::float32, {2, 3}, {3, 1}};
        row.spoil(p);
        fails(row.code, [&] { static_cast<void>(from_dlpack(&p.raw)); });
        CHECK(p.deleter_calls == 1);
        CHECK(p.deleted == &p.raw);
    }
}

TEST_CASE("R2: no field after the deleter of a struct of another major version is accessed") {
    // The next page, after the deleter, is not accessible.
    struct head {
        DLPackVersion version;
        void* manager_ctx;
        void (*deleter)(DLManagedTensorVersioned*);
    };
    static_assert(sizeof(head) == 8 + 2 * sizeof(void*));
    for (bool const has_deleter : {true, false}) {
        support::two_pages pages;
        pages.close_second();
        auto* const at = new (pages.second() - sizeof(head)) head{{2, 0}, nullptr, nullptr};
        calls = 0;
        if (has_deleter) at->deleter = [](DLManagedTensorVersioned*) { ++calls; };
        fails(errc::version, [&] { static_cast<void>(from_dlpack(reinterpret_cast<DLManagedTensorVersioned*>(at))); },
              {"version 2.0", "(R2)"});
        CHECK(calls == (has_deleter ? 1 : 0));
    }
}

TEST_CASE("R33: a received struct is never written") {
    support::two_pages pages;
    auto* raw = new (pages.first()) DLManagedTensorVersioned{};
    auto* lists = reinterpret_cast<std::int64_t*>(pages.first() + 256);
    lists[0] = 4;
    lists[1] = 1;
    raw->version = {1, 1};
    raw->flags = 1;
    raw->deleter = [](DLManagedTensorVersioned*) { ++calls; };
    raw->dl_tensor.data = memory;
    raw->dl_tensor.byte_offset = 8;
    raw->dl_tensor.device = {static_cast<DLDeviceType>(1), 9};
    raw->dl_tensor.ndim = 1;
    raw->dl_tensor.dtype = support::float32;
    raw->dl_tensor.shape = lists;
    raw->dl_tensor.strides = lists + 1;
    pages.make_read_only();
    calls = 0;
    {
        managed_tensor t = from_dlpack(raw);
        managed_tensor u = std::move(t);
        CHECK(u.as<float const, 1>().data() == memory + 2);
        t = from_dlpack(u.release());
    }
    CHECK(calls == 1);
}

TEST_CASE("R33: later changes of the struct have no effect") {
    tensor p{memory, support::float32, {2, 3}, {3, 1}};
    p.raw.flags = 1;
    managed_tensor const t = from_dlpack(&p.raw);
    p.tensor().data = nullptr;
    p.tensor().ndim = 1000;
    p.tensor().shape = nullptr;
    p.tensor().strides = nullptr;
    p.tensor().byte_offset = 1 << 20;
    p.tensor().dtype = {255, 255, 255};
    p.on(99);
    p.raw.flags = 0;
    CHECK(t.view().data() == memory);
    CHECK(t.rank() == 2);
    CHECK(t.view().extent(1) == 3);
    CHECK(t.view().stride(0) == 3);
    CHECK(t.dtype() == ferry::dtype_of<float>);
    CHECK(t.device() == ferry::cpu);
    CHECK(t.is_read_only());
    CHECK(t.as<float const, 2>().extent(0) == 2);
}

TEST_CASE("R23: the byte offset is added to the data") {
    tensor p{memory, support::float32, {2}};
    p.tensor().byte_offset = 4 * sizeof(float);
    memory[4] = 17;
    managed_tensor const t = from_dlpack(&p.raw);
    CHECK(t.view().data() == memory + 4);
    CHECK(t.view().byte_offset() == 0);
    CHECK(t.as<float const, 1>()(0) == 17);
}

TEST_CASE("R11, R12, R14: known flags are imported, unknown ones are not") {
    for (std::uint64_t bits = 0; bits < 8; ++bits) {
        tensor p{memory, support::float32, {2}};
        p.raw.flags = bits | 0xff00;
        managed_tensor const t = from_dlpack(&p.raw);
        CHECK(t.is_read_only() == ((bits & 1) != 0));
        CHECK(t.is_copied() == ((bits & 2) != 0));
        CHECK(t.view().is_padded() == ((bits & 4) != 0));
        CHECK(static_cast<std::uint64_t>(t.view().flags()) == bits);
    }
}

TEST_CASE("R3: the stamped version is reported unchanged") {
    tensor p{memory, support::float32, {2}};
    p.raw.version = {1, 77};
    managed_tensor t = from_dlpack(&p.raw);
    CHECK(t.stamped() == ferry::version{1, 77});
    auto const u = std::move(t);
    CHECK(t.stamped().is_legacy());
}

TEST_CASE("as() and view() of an empty managed_tensor are errors") {
    managed_tensor t;
    support::both_fail(
        errc::consumed, [&] { static_cast<void>(t.view()); }, [&] { return t.try_view(); },
        {"ferry::managed_tensor::view", "moved from or released"});
    support::both_fail(
        errc::consumed, [&] { static_cast<void>(t.as<float, 0>()); }, [&] { return t.try_as<float, 0>(); },
        {"ferry::managed_tensor::as", "moved from or released"});
    CHECK(t.rank() == 0);
    CHECK_FALSE(t.is_read_only());
}

TEST_CASE("try_view returns a copy of the view") {
    tensor p{memory, support::float32, {2, 3}, {3, 1}};
    managed_tensor const t = from_dlpack(&p.raw);
    auto const v = t.try_view();
    REQUIRE(v.has_value());
    CHECK(*v == t.view());
    CHECK(t.try_as<float const, 2>()->extent(1) == 3);
    CHECK(t.try_as<int>().error().code() == errc::dtype);
}

TEST_CASE("R65: the deleter runs on the thread that destroys the tensor") {
    tensor p{memory, support::float32, {2}};
    std::thread{[t = from_dlpack(&p.raw)]() mutable { managed_tensor const last = std::move(t); }}.join();
    CHECK(p.deleter_calls == 1);
}

TEST_CASE("importing and destroying a tensor does not allocate") {
    tensor p{memory, support::float32, {2, 3}, {3, 1}};
    support::allocation_window window;
    {
        managed_tensor t = from_dlpack(&p.raw);
        managed_tensor u = std::move(t);
        static_cast<void>(u.as<float, 2>());
    }
    CHECK(window.allocations() == 0);
}

TEST_CASE("R33: changes to a struct after its import have no effect") {
    float data[6] = {1, 2, 3, 4, 5, 6};
    tensor p{data, support::float32, {2, 3}};
    p.raw.version = {1, 1};
    p.raw.flags = static_cast<std::uint64_t>(ferry::flags::read_only) | std::uint64_t{1} << 40;
    auto received = from_dlpack(&p.raw);
    auto const version = received.stamped();
    auto const view = received.view();
    auto const is_same = [&](managed_tensor const& t) {
        CHECK(t.view() == view);
        CHECK(t.stamped() == version);
        CHECK(t.is_read_only());
        CHECK(t.rank() == 2);
    };
    p.raw.version = {7, 3};  // a version that requires strides
    p.raw.flags = 0;
    p.raw.dl_tensor = {};
    CHECK(version == ferry::version{1, 1});
    is_same(received);
    auto passed = ferry::to_dlpack(std::move(received), ferry::request{});
    CHECK(passed.get() == &p.raw);
    is_same(passed);
    managed_tensor const imported = ferry::from_dlpack<managed_tensor>(std::move(passed));
    is_same(imported);
    auto const copied = ferry::to_dlpack(imported, {.copy = ferry::copy_policy::always});
    CHECK(copied.as<float, 2>()(1, 2) == 6);
    CHECK(p.deleter_calls == 0);
}
