#include <ferry/exchange/from_dlpack.hpp>

#include <support/allocation_failure.hpp>
#include <support/counting_producer.hpp>
#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <utility>

using ferry::errc;
using ferry::flags;
using ferry::from_dlpack;
using ferry::managed_tensor;
using support::both_fail;
using support::fails;
using tensor = support::legacy_producer;
using versioned = support::counting_producer;

namespace {
alignas(64) float memory[64];
}

TEST_CASE("R8: the deleter of an imported legacy tensor is called exactly once, with its last owner") {
    tensor p{memory, support::float32, {2, 3}, {3, 1}};
    {
        managed_tensor t = from_dlpack(&p.raw);
        CHECK(t.view().data() == memory);
        CHECK(t.view().extent(1) == 3);
        CHECK(t.stamped() == ferry::version::current);
        auto* raw = t.release();
        CHECK(p.deleter_calls == 0);
        raw->deleter(raw);
        CHECK(p.deleter_calls == 1);
    }
    CHECK(p.deleter_calls == 1);
    CHECK(p.deleted == &p.raw);
}

TEST_CASE("R15: legacy data is read-only unless its producer's documentation says otherwise") {
    tensor p{memory, support::float32, {2}}, q{memory, support::float32, {2}};
    managed_tensor const t = from_dlpack(&p.raw);
    CHECK(t.is_read_only());
    CHECK_FALSE(t.is_copied());
    CHECK((t.get()->flags & 1) == 1);
    fails(errc::read_only, [&] { static_cast<void>(t.as<float, 1>()); }, {"as<T const>"});
    managed_tensor const u = from_dlpack(&q.raw, flags::is_copied);
    CHECK_FALSE(u.is_read_only());
    CHECK(u.is_copied());
    u.as<float, 1>()(1) = 3;
    CHECK(memory[1] == 3);
}

TEST_CASE("R24: NULL strides of an imported legacy tensor are filled in") {
    tensor p{memory, support::float32, {2, 3}};
    managed_tensor const t = from_dlpack(&p.raw);
    REQUIRE(t.get()->dl_tensor.strides != nullptr);
    CHECK(t.get()->dl_tensor.strides[0] == 3);
    CHECK(t.get()->dl_tensor.strides[1] == 1);
    CHECK(p.raw.dl_tensor.strides == nullptr);
}

TEST_CASE("R23: the byte offset of a legacy tensor is added to the data") {
    tensor p{memory, support::float32, {2}};
    p.tensor().byte_offset = 8;
    managed_tensor const t = from_dlpack(&p.raw);
    CHECK(t.get()->dl_tensor.data == memory + 2);
    CHECK(t.get()->dl_tensor.byte_offset == 0);
}

TEST_CASE("R33: shape and strides of a legacy tensor are copied") {
    tensor p{memory, support::float32, {2, 3}, {3, 1}};
    managed_tensor const t = from_dlpack(&p.raw);
    p.shape[0] = 99;
    p.strides[0] = 99;
    CHECK(t.view().extent(0) == 2);
    CHECK(t.view().stride(0) == 3);
}

TEST_CASE("R5: the deleter of a legacy tensor may be NULL") {
    tensor p{memory, support::float32, {2}};
    p.raw.deleter = nullptr;
    p.raw.manager_ctx = nullptr;
    {
        auto const t = from_dlpack(&p.raw);
    }
    p.on(0);
    fails(errc::device, [&] { static_cast<void>(from_dlpack(&p.raw)); });
}

TEST_CASE("R68: the deleter of an invalid legacy tensor is called exactly once") {
    struct {
        errc code;
        void (*spoil)(tensor&);
    } const rows[] = {
        {errc::device, [](tensor& t) { t.on(5); }},
        {errc::dtype, [](tensor& t) { t.tensor().dtype.lanes = 0; }},
        {errc::rank, [](tensor& t) { t.tensor().ndim = -3; }},
        {errc::shape, [](tensor& t) { t.tensor().shape = nullptr; }},
        {errc::overflow, [](tensor& t) { t.shape[0] = INT64_MAX; }},
        {errc::null_data, [](tensor& t) { t.tensor().data = nullptr; }},
    };
    for (auto const& row : rows) {
        tensor p{memory, support::float32, {2, 3}, {3, 1}};
        row.spoil(p);
        fails(row.code, [&] { static_cast<void>(from_dlpack(&p.raw)); }, {"ferry::from_dlpack: "});
        CHECK(p.deleter_calls == 1);
    }
    fails(errc::null_struct, [] { static_cast<void>(from_dlpack(static_cast<DLManagedTensor*>(nullptr))); },
          {"DLManagedTensor*"});
}

TEST_CASE("R68: when the allocation for a legacy tensor fails, its deleter is called exactly once") {
    int const failures = support::for_each_failing_allocation([](int) {
        tensor p{memory, support::float32, {2, 3}, {3, 1}};
        try {
            auto const t = from_dlpack(&p.raw);
        } catch (...) {
            if (p.deleter_calls != 1) std::abort();
            throw;
        }
        if (p.deleter_calls != 1) std::abort();
    });
    CHECK(failures == 1);  // D1
}

TEST_CASE("R8: release_legacy returns a legacy struct that owns the tensor") {
    versioned p{memory, support::float32, {2, 3}, {3, 1}};
    p.raw.dl_tensor.byte_offset = 4;
    managed_tensor t = from_dlpack(&p.raw);
    DLManagedTensor* const raw = t.release_legacy();
    CHECK_FALSE(static_cast<bool>(t));
    REQUIRE(raw != nullptr);
    CHECK(raw->dl_tensor.data == memory + 1);
    CHECK(raw->dl_tensor.byte_offset == 0);
    CHECK(raw->dl_tensor.ndim == 2);
    CHECK(raw->dl_tensor.shape[1] == 3);
    CHECK(raw->dl_tensor.strides[0] == 3);
    CHECK(p.deleter_calls == 0);
    raw->deleter(raw);
    CHECK(p.deleter_calls == 1);
}

TEST_CASE("R8: a round trip through both structs keeps the tensor") {
    tensor p{memory, support::float32, {2, 3}};
    managed_tensor t = from_dlpack(&p.raw, flags::none);
    managed_tensor u = from_dlpack(t.release_legacy(), flags::none);
    CHECK(u.view().data() == memory);
    CHECK(u.view().stride(0) == 3);
    CHECK(p.deleter_calls == 0);
    u = {};
    CHECK(p.deleter_calls == 1);
}

TEST_CASE("R15: release_legacy refuses read-only data, and the tensor is unchanged") {
    versioned p{memory, support::float32, {2}};
    p.raw.flags = 1;
    managed_tensor t = from_dlpack(&p.raw);
    both_fail(
        errc::read_only, [&] { static_cast<void>(t.release_legacy()); }, [&] { return t.try_release_legacy(); },
        {"ferry::managed_tensor::release_legacy", "(R15)", "copy"});
    CHECK(static_cast<bool>(t));
    CHECK(t.view().data() == memory);
    CHECK(p.deleter_calls == 0);
}

TEST_CASE("R13: release_legacy refuses padded sub-byte data") {
    versioned p{memory, {0, 4, 1}, {2}};
    p.raw.flags = 4;
    managed_tensor t = from_dlpack(&p.raw);
    both_fail(
        errc::flags, [&] { static_cast<void>(t.release_legacy()); }, [&] { return t.try_release_legacy(); },
        {"(R13)", "max_version=(1, 0)"});
    CHECK(static_cast<bool>(t));
}

TEST_CASE("R63: release_legacy of an empty managed_tensor is an error") {
    managed_tensor t;
    both_fail(
        errc::consumed, [&] { static_cast<void>(t.release_legacy()); }, [&] { return t.try_release_legacy(); },
        {"moved from or released"});
}

TEST_CASE("R8: try_release_legacy returns a legacy struct, or errc::out_of_memory and leaves the tensor unchanged") {
    versioned p{memory, support::float32, {2, 3}, {3, 1}};
    managed_tensor t = from_dlpack(&p.raw);
    auto code = errc::ok;
    {
        support::allocation_window window{1};
        auto const r = t.try_release_legacy();
        if (!r) code = r.error().code();
    }
    CHECK(code == errc::out_of_memory);
    CHECK(t.view().data() == memory);
    auto const r = t.try_release_legacy();
    REQUIRE(r.has_value());
    CHECK_FALSE(t);
    (*r)->deleter(*r);
    CHECK(p.deleter_calls == 1);
}

TEST_CASE("R68: after a failed allocation in release_legacy the object still owns the tensor") {
    int const failures = support::for_each_failing_allocation([](int) {
        versioned p{memory, support::float32, {2, 3}, {3, 1}};
        managed_tensor t = from_dlpack(&p.raw);
        try {
            auto* raw = t.release_legacy();
            raw->deleter(raw);
        } catch (...) {
            if (!t || t.view().data() != memory || p.deleter_calls != 0) std::abort();
            throw;
        }
        if (p.deleter_calls != 1) std::abort();
    });
    CHECK(failures == 1);
}
