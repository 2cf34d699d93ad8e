// D17: exchanges that return a result. Each row compares the error with that of the function that throws, and counts
// the calls of the deleter.
#include <ferry/ferry.hpp>
#include <support/allocation_failure.hpp>
#include <support/counting_producer.hpp>
#include <support/fails.hpp>
#include <support/no_owner.hpp>
#include <support/sim_array.hpp>
#include <support/sim_world.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

using ferry::copy_policy;
using ferry::device;
using ferry::device_type;
using ferry::errc;
using ferry::error;
using ferry::flags;
using ferry::managed_tensor;
using ferry::request;
using ferry::result;
using ferry::tensor_view;
using support::both_fail;
using support::counting_producer;
using support::legacy_producer;
using support::no_owner;

float memory[6] = {1, 2, 3, 4, 5, 6};
constexpr std::int64_t two_by_three[] = {2, 3}, negative[] = {2, -3};
constexpr device gpu{device_type::cuda, 0};

/// Members of the adapter below that return an error.
struct failures {
    bool view = false, moved_view = false, share = false, adopt = false, allocate = false;
};
failures failing;
int live = 0;

/// An array whose adapter returns results. Counts the objects that own the memory.
struct plain {
    std::vector<float> values;
    bool owns = true, was_moved = false;

    explicit plain(std::vector<float> v = {1, 2, 3, 4, 5, 6}) : values{std::move(v)} { ++live; }
    plain(plain&& other) noexcept
        : values{std::move(other.values)}, owns{std::exchange(other.owns, false)}, was_moved{true} {}
    plain& operator=(plain&&) = delete;
    ~plain() { live -= owns ? 1 : 0; }
};

error failure(char const* member) { return {errc::argument, member, "as the test requires"}; }

}  // namespace

template <>
struct ferry::array_traits<plain> {
    static result<tensor_view> view(plain& a) {
        if (failing.view || (failing.moved_view && a.was_moved)) return failure("view");
        return tensor_view{a.values.data(), two_by_three};
    }
    static result<tensor_view> view(plain const& a) {
        if (failing.view) return failure("view");
        return tensor_view{a.values.data(), two_by_three};
    }
    static result<plain> share(plain const& a) {
        if (failing.share) return failure("share");
        return plain{a.values};
    }
    static result<plain> adopt(managed_tensor m) {
        if (failing.adopt) return failure("adopt");
        auto const v = m.as<float const>();
        return plain{{v.data(), v.data() + v.size()}};
    }
    static result<plain> allocate(data_type, shape_view, device) {
        if (failing.allocate) return failure("allocate");
        return plain{std::vector<float>(6)};
    }
};

namespace {

/// An array without `share`, whose member function returns a result.
struct rows {
    float* data = memory;
    bool is_sharded = false;
    rows() = default;
    rows(rows&& other) noexcept : data{std::exchange(other.data, nullptr)}, is_sharded{other.is_sharded} {}
    ~rows() {}
    [[nodiscard]] result<ferry::inplace_view<2>> ferry_view() const {
        if (is_sharded) return error{errc::argument, "rows::ferry_view", "the array is sharded"};
        return ferry::inplace_view<2>{data, {2, 3}};
    }
};

/// An array whose member function throws.
struct throwing {
    [[nodiscard]] tensor_view ferry_view() const { throw failure("view"); }
};

/// An exporter that returns a result.
struct remote {
    counting_producer* tensor = nullptr;
    result<managed_tensor> ferry_export(request const&) {
        if (tensor == nullptr) return error{errc::driver, "remote", "the connection is closed"};
        return ferry::from_dlpack(&tensor->raw);
    }
};

/// Returns an error from one operation.
struct broken : ferry::host_back_end {
    enum class operation { none, allocate, copy } which;
    using memory_type = ferry::buffer<ferry::host_space>;
    [[nodiscard]] bool reaches(device) const noexcept { return true; }
    [[nodiscard]] result<memory_type> allocate(device, std::size_t bytes, ferry::stream_token) const {
        if (which == operation::allocate) return error{errc::out_of_memory, "device", "no memory"};
        return memory_type{bytes};
    }
    [[nodiscard]] result<> copy(ferry::copy_plan const& plan, void* dst, device, void const* src, device,
                                ferry::stream_token) const {
        if (which == operation::copy) return error{errc::driver, "device", "copy failed"};
        ferry::copy_on_host(plan, dst, src);
        return {};
    }
};

constexpr request always{.copy = copy_policy::always}, never{.copy = copy_policy::never}, on_host{.device = ferry::cpu},
    on_gpu{.device = gpu};

}  // namespace

TEST_CASE("try_from_dlpack takes ownership of a struct") {
    counting_producer p{memory, support::float32, {2, 3}};
    legacy_producer q{memory, support::float32, {2, 3}};
    {
        auto const t = ferry::try_from_dlpack(&p.raw);
        REQUIRE(t.has_value());
        CHECK(t->get() == &p.raw);
        auto const u = ferry::try_from_dlpack(&q.raw, flags::none);
        REQUIRE(u.has_value());
        CHECK_FALSE(u->is_read_only());
        CHECK(p.deleter_calls + q.deleter_calls == 0);
    }
    CHECK(p.deleter_calls == 1);
    CHECK(q.deleter_calls == 1);
}

TEST_CASE("R62: after a failed try_from_dlpack the deleter has run exactly once") {
    struct row {
        errc code;
        void (*spoil)(DLTensor&);
    };
    row const rows[] = {
        {errc::rank, [](DLTensor& t) { t.ndim = -1; }},
        {errc::shape, [](DLTensor& t) { t.shape[0] = -2; }},
        {errc::overflow, [](DLTensor& t) { t.shape[0] = std::int64_t{1} << 62; }},
        {errc::dtype, [](DLTensor& t) { t.dtype.code = 99; }},
        {errc::device, [](DLTensor& t) { t.device.device_type = static_cast<DLDeviceType>(6); }},
        {errc::null_data, [](DLTensor& t) { t.data = nullptr; }},
    };
    for (auto const& row : rows) {
        CAPTURE(static_cast<int>(row.code));
        auto const refuses = [&]<class Producer>(Producer*, auto from, auto try_from) {
            Producer thrown{memory, support::float32, {2, 3}}, returned{memory, support::float32, {2, 3}};
            row.spoil(thrown.tensor());
            row.spoil(returned.tensor());
            both_fail(
                row.code, [&] { static_cast<void>(from(&thrown.raw)); }, [&] { return try_from(&returned.raw); },
                {"ferry::from_dlpack"});
            CHECK(thrown.deleter_calls == 1);
            CHECK(returned.deleter_calls == 1);
        };
        counting_producer* const versioned = nullptr;
        legacy_producer* const legacy = nullptr;
        auto const from = [](auto* raw) { return ferry::from_dlpack(raw); };
        auto const try_from = [](auto* raw) { return ferry::try_from_dlpack(raw); };
        refuses(versioned, from, try_from);
        refuses(legacy, from, try_from);
        auto const as = [](auto* raw) { return ferry::from_dlpack<plain>(raw); };
        auto const try_as = [](auto* raw) { return ferry::try_from_dlpack<plain>(raw); };
        refuses(versioned, as, try_as);
        refuses(legacy, as, try_as);
        auto const with = [](auto* raw) { return ferry::from_dlpack<managed_tensor>(raw, request{}); };
        auto const try_with = [](auto* raw) { return ferry::try_from_dlpack<managed_tensor>(raw, request{}); };
        refuses(versioned, with, try_with);
        refuses(legacy, with, try_with);
    }
    CHECK(live == 0);
    counting_producer future{memory, support::float32, {2, 3}};
    future.raw.version = {2, 0};
    CHECK(ferry::try_from_dlpack(&future.raw).error().code() == errc::version);
    CHECK(future.deleter_calls == 1);
    both_fail(
        errc::null_struct, [] { static_cast<void>(ferry::from_dlpack(static_cast<DLManagedTensor*>(nullptr))); },
        [] { return ferry::try_from_dlpack(static_cast<DLManagedTensor*>(nullptr)); }, {"is null"});
    CHECK(ferry::try_from_dlpack<plain>(static_cast<DLManagedTensorVersioned*>(nullptr)).error().code() ==
          errc::null_struct);
}

TEST_CASE("R5: a struct without a deleter can fail") {
    counting_producer p{memory, support::float32, {2, -3}};
    p.raw.deleter = nullptr;
    CHECK(ferry::try_from_dlpack(&p.raw).error().code() == errc::shape);
}

TEST_CASE("try_from_dlpack imports every kind of producer to a consumer") {
    failing = {};
    counting_producer p{memory, support::float32, {2, 3}}, q{memory, support::float32, {2, 3}};
    {
        CHECK(ferry::try_from_dlpack<plain>(&p.raw)->values.size() == 6);
        CHECK(p.deleter_calls == 1);
        CHECK(ferry::try_from_dlpack<plain>(remote{&q})->values[5] == 6.0f);
        CHECK(q.deleter_calls == 1);
        plain a;
        CHECK(ferry::try_from_dlpack<plain>(a)->values[5] == 6.0f);
        CHECK(ferry::try_from_dlpack<managed_tensor>(std::move(a), always)->is_copied());
        auto t = ferry::to_dlpack(plain{});
        auto const u = ferry::try_from_dlpack<plain>(std::move(t), request{}, ferry::host_only, ferry::already_ready);
        REQUIRE(u.has_value());
        CHECK_FALSE(static_cast<bool>(t));
    }
    CHECK(live == 0);
}

TEST_CASE("try_from_dlpack returns the error of each step, and releases the tensor") {
    failing = {};
    both_fail(
        errc::driver, [] { static_cast<void>(ferry::from_dlpack<plain>(remote{})); },
        [] { return ferry::try_from_dlpack<plain>(remote{}); }, {"connection"});
    auto const imports = [](errc code, auto spoil, request const& req, auto&& b) {
        counting_producer thrown{memory, support::float32, {2, 3}}, returned{memory, support::float32, {2, 3}};
        spoil(thrown);
        spoil(returned);
        both_fail(
            code, [&] { static_cast<void>(ferry::from_dlpack<plain>(&thrown.raw, req, b)); },
            [&] { return ferry::try_from_dlpack<plain>(&returned.raw, req, b); });
        CHECK(thrown.deleter_calls == 1);
        CHECK(returned.deleter_calls == 1);
    };
    auto const unspoiled = [](counting_producer&) {};
    imports(errc::dtype, [](counting_producer& p) { p.raw.dl_tensor.dtype.lanes = 4; }, request{}, ferry::host_only);
    imports(errc::no_backend, unspoiled, on_gpu, ferry::host_only);
    imports(errc::copy_needed, unspoiled, {.device = gpu, .copy = copy_policy::never}, ferry::host_only);
    imports(errc::copy_needed, unspoiled, always, ferry::share_only);
    imports(errc::device, unspoiled, {.device = device{static_cast<device_type>(6), 0}}, ferry::host_only);
    imports(errc::stream, [](counting_producer& p) { p.on(2); }, on_host, broken{});
    imports(errc::driver, unspoiled, always, broken{{}, broken::operation::copy});
    failing.adopt = true;
    imports(errc::argument, unspoiled, request{}, ferry::host_only);
    failing = {.allocate = true};
    imports(errc::argument, unspoiled, always, ferry::host_only);
    failing = {};
    CHECK(live == 0);
}

TEST_CASE("after a failed try_from_dlpack a managed_tensor is unchanged") {
    counting_producer p{memory, support::float32, {2, 3}};
    auto t = ferry::from_dlpack(&p.raw);
    auto const r = ferry::try_from_dlpack<managed_tensor>(std::move(t), on_gpu, ferry::host_only, ferry::already_ready);
    CHECK(r.error().code() == errc::no_backend);
    CHECK(t.get() == &p.raw);
    CHECK(p.deleter_calls == 0);
    managed_tensor empty;
    both_fail(
        errc::consumed, [&] { static_cast<void>(ferry::from_dlpack<managed_tensor>(std::move(empty))); },
        [&] { return ferry::try_from_dlpack<managed_tensor>(std::move(empty)); }, {"ferry::from_dlpack"});
}

TEST_CASE("try_to_dlpack moves, shares or copies an array") {
    failing = {};
    {
        plain a;
        auto const shared = ferry::try_to_dlpack(a);
        REQUIRE(shared.has_value());
        CHECK(live == 2);
        auto const copied = ferry::try_to_dlpack(a, always);
        REQUIRE(copied.has_value());
        CHECK(copied->is_copied());
        float const* const data = a.values.data();
        auto const moved = ferry::try_to_dlpack(std::move(a));
        REQUIRE(moved.has_value());
        CHECK(moved->view().data() == data);
        auto const in_place = ferry::try_to_dlpack(rows{});
        CHECK(in_place->view().extent(1) == 3);
        CHECK(ferry::try_to_dlpack(tensor_view{memory, two_by_three}, always)->view().data() != memory);
        CHECK(ferry::try_to_dlpack(*moved, always)->is_copied());
    }
    CHECK(live == 0);
}

TEST_CASE("try_to_dlpack returns the error of each step, and an array is unchanged before the move") {
    auto const exports = [](errc code, failures which, request const& req, auto&& b) {
        failing = which;
        {
            plain a, thrown, returned;
            both_fail(
                code, [&] { static_cast<void>(ferry::to_dlpack(a, req, b)); },
                [&] { return ferry::try_to_dlpack(a, req, b); });
            both_fail(
                code, [&] { static_cast<void>(ferry::to_dlpack(std::move(thrown), req, b)); },
                [&] { return ferry::try_to_dlpack(std::move(returned), req, b); });
            CHECK(thrown.owns);
            CHECK(returned.owns);
            CHECK(live == 3);
        }
        failing = {};
        CHECK(live == 0);
    };
    exports(errc::argument, {.view = true}, never, ferry::host_only);
    exports(errc::argument, {.allocate = true}, always, ferry::host_only);
    exports(errc::no_backend, {}, on_gpu, ferry::host_only);
    exports(errc::copy_needed, {}, always, ferry::share_only);
    exports(errc::driver, {}, always, broken{{}, broken::operation::copy});
    failing = {.share = true};
    plain const a;
    both_fail(
        errc::argument, [&] { static_cast<void>(ferry::to_dlpack(a)); }, [&] { return ferry::try_to_dlpack(a); },
        {"share"});
    failing = {};
    rows sharded;
    sharded.is_sharded = true;
    both_fail(
        errc::argument, [&] { static_cast<void>(ferry::to_dlpack(std::move(sharded))); },
        [&] { return ferry::try_to_dlpack(std::move(sharded)); }, {"the array is sharded"});
    CHECK(sharded.data == memory);
}

TEST_CASE("an owner whose view fails after its move is destroyed exactly once") {
    failing = {.moved_view = true};
    {
        plain thrown, returned;
        both_fail(
            errc::argument, [&] { static_cast<void>(ferry::to_dlpack(std::move(thrown))); },
            [&] { return ferry::try_to_dlpack(std::move(returned)); }, {"view"});
        CHECK_FALSE(thrown.owns);
        CHECK_FALSE(returned.owns);
        CHECK(live == 0);
    }
    failing = {};
    CHECK(live == 0);
}

TEST_CASE("make_managed and try_make_managed report the error in a result of view_at") {
    auto const view_at = [](no_owner) -> result<tensor_view> { return failure("view_at"); };
    both_fail(
        errc::argument, [&] { static_cast<void>(ferry::make_managed(no_owner{}, view_at)); },
        [&] { return ferry::try_make_managed(no_owner{}, view_at); }, {"view_at"});
    auto const valid = [](no_owner) -> result<tensor_view> { return tensor_view{memory, two_by_three}; };
    CHECK(ferry::try_make_managed(no_owner{}, valid)->view().data() == memory);
}

TEST_CASE("D17: try_view_of and try_device_of return the errors that view_of and device_of throw") {
    plain a;
    CHECK(ferry::try_view_of(a).value() == ferry::view_of(a));
    CHECK(ferry::try_device_of(a).value() == ferry::cpu);
    failing.view = true;
    both_fail(errc::argument, [&] { static_cast<void>(ferry::view_of(a)); }, [&] { return ferry::try_view_of(a); }, {"as the test requires"});
    both_fail(errc::argument, [&] { static_cast<void>(ferry::device_of(a)); }, [&] { return ferry::try_device_of(a); }, {"as the test requires"});
    failing = {};
    rows r;
    CHECK(ferry::try_view_of(r)->extent(1) == 3);
    CHECK(ferry::try_device_of(r).value() == ferry::cpu);
    throwing t;
    CHECK(ferry::try_view_of(t).error().code() == errc::argument);
    CHECK(ferry::try_device_of(t).error().code() == errc::argument);
}

TEST_CASE("try_to_dlpack of views and tensors returns the errors that to_dlpack throws") {
    tensor_view const v{memory, two_by_three}, invalid{memory, negative};
    counting_producer p{memory, support::float32, {2, 3}};
    auto t = ferry::from_dlpack(&p.raw);
    managed_tensor empty;
    auto const refuses = [](errc code, auto&& from, request const& req, auto&& b) {
        using From = decltype(from);
        both_fail(
            code, [&] { static_cast<void>(ferry::to_dlpack(std::forward<From>(from), req, b)); },
            [&] { return ferry::try_to_dlpack(std::forward<From>(from), req, b); }, {"ferry::to_dlpack"});
    };
    refuses(errc::not_shareable, v, never, ferry::host_only);
    refuses(errc::shape, invalid, always, ferry::host_only);
    refuses(errc::consumed, std::as_const(empty), always, ferry::host_only);
    refuses(errc::consumed, std::move(empty), always, ferry::host_only);
    refuses(errc::no_backend, std::as_const(t), on_gpu, ferry::host_only);
    refuses(errc::no_backend, std::move(t), on_gpu, ferry::host_only);
    broken const exhausted{{}, broken::operation::allocate};
    CHECK(ferry::try_to_dlpack(std::move(t), always, exhausted).error().code() == errc::out_of_memory);
    CHECK(t.get() == &p.raw);
    CHECK(p.deleter_calls == 0);
}

TEST_CASE("try_to_host shares host memory, copies other memory, and returns the errors that to_host throws") {
    failing = {};
    support::sim_world w;
    auto far = support::make_array(w.back_end, w.gpu, w.theirs, {2, 3});
    auto const near = ferry::try_to_host(far, w.back_end);
    REQUIRE(near.has_value());
    CHECK(static_cast<float const*>(near->view().data())[5] == 6.0f);
    both_fail(
        errc::no_backend, [&] { static_cast<void>(ferry::to_host(far)); }, [&] { return ferry::try_to_host(far); });
    auto tensor = ferry::to_dlpack(far, {.stream = w.theirs}, w.back_end);
    CHECK(ferry::try_to_host(std::as_const(tensor), w.back_end, w.theirs)->is_copied());
    both_fail(
        errc::stream, [&] { static_cast<void>(ferry::to_host(std::move(tensor))); },
        [&] { return ferry::try_to_host(std::move(tensor)); });
    CHECK(ferry::try_to_host(std::move(tensor), w.back_end, {}).error().code() == errc::stream);
    CHECK(static_cast<bool>(tensor));
    CHECK(ferry::try_to_host(std::move(tensor), w.back_end, w.theirs).has_value());
    CHECK_FALSE(static_cast<bool>(tensor));
    CHECK(ferry::try_to_host(ferry::to_dlpack(plain{})).has_value());
    CHECK(live == 0);
}

TEST_CASE("try_borrow borrows without an allocation, and returns the errors that borrow throws") {
    failing = {};
    std::vector<std::int64_t> const ones(65, 1);
    tensor_view const deep{memory, ones}, invalid{memory, negative};
    plain a;
    auto const t = ferry::to_dlpack(plain{});
    {
        support::allocation_window const window;
        auto lent = ferry::try_borrow(a);
        auto const also = ferry::try_borrow(t);
        bool const borrows = lent.has_value() && also.has_value() && window.allocations() == 0;
        CHECK(borrows);
        CHECK(lent->try_dltensor().has_value());
        CHECK(lent->view().data() == a.values.data());
    }
    auto read_only = ferry::borrow(std::as_const(a));
    both_fail(
        errc::read_only, [&] { static_cast<void>(read_only.dltensor()); }, [&] { return read_only.try_dltensor(); });
    for (auto const& [code, v] : {std::pair{errc::rank, deep}, std::pair{errc::shape, invalid}})
        both_fail(code, [&] { static_cast<void>(ferry::borrow(v)); }, [&] { return ferry::try_borrow(v); },
                  {"ferry::borrow"});
    managed_tensor const empty;
    both_fail(
        errc::consumed, [&] { static_cast<void>(ferry::borrow(empty)); }, [&] { return ferry::try_borrow(empty); });
    failing.view = true;
    both_fail(
        errc::argument, [&] { static_cast<void>(ferry::borrow(a)); }, [&] { return ferry::try_borrow(a); }, {"view"});
    failing = {};
}

TEST_CASE("an export returns the error of the back end's order") {
    struct unordered : ferry::host_back_end {
        [[nodiscard]] bool reaches(ferry::device) const { return true; }
        [[nodiscard]] result<> order(ferry::stream_token, ferry::stream_token) const {
            return error{errc::driver, "device", "order failed"};
        }
    } const b;
    auto const one = ferry::stream_token::cuda_legacy_default(), two = ferry::stream_token::cuda_per_thread_default();
    auto t = ferry::make_managed(std::vector<float>(1), [](auto& v) {
        return tensor_view{v.data(), ferry::shape_view{}, {}, {ferry::device_type::cuda, 0}};
    });
    both_fail(
        errc::driver, [&] { static_cast<void>(ferry::to_dlpack(std::move(t), {.stream = two}, b, one)); },
        [&] { return ferry::try_to_dlpack(std::move(t), {.stream = two}, b, one); }, {"order failed"});
}

TEST_CASE("a failed allocation is errc::out_of_memory, and nothing leaks") {
    failing = {};
    legacy_producer p{memory, support::float32, {2, 3}};
    counting_producer q{memory, support::float32, {2, 3}};
    auto const checks = [](int expected, auto f) {
        int const count = support::for_each_failing_allocation([&](int) {
            if (errc const code = f(); code == errc::out_of_memory) throw std::bad_alloc{};
            else if (code != errc::ok) throw std::runtime_error{ferry::name(code)};
        });
        CHECK(count == expected);
    };
    auto const code_of = [](auto const& r) { return r ? errc::ok : r.error().code(); };
    checks(1, [&] { return code_of(ferry::try_from_dlpack(&p.raw)); });
    CHECK(p.deleter_calls == 2);
    checks(1, [&] { return code_of(ferry::try_from_dlpack<managed_tensor>(&p.raw, request{})); });
    CHECK(p.deleter_calls == 4);
    checks(2, [&] { return code_of(ferry::try_to_dlpack(tensor_view{memory, two_by_three}, always)); });
    checks(2, [&] { return code_of(ferry::try_from_dlpack<managed_tensor>(&q.raw, always)); });
    CHECK(q.deleter_calls == 3);
    checks(1, [&] { return code_of(ferry::try_to_dlpack(rows{})); });
}

TEST_CASE("exceptions of an adapter other than ferry::error and std::bad_alloc propagate, after the deleter has run") {
    struct exporter {
        managed_tensor ferry_export(request const&) { throw std::runtime_error{"no tensor"}; }
    };
    CHECK_THROWS_AS(static_cast<void>(ferry::try_from_dlpack<managed_tensor>(exporter{})), std::runtime_error);
    struct failing_exporter {
        managed_tensor ferry_export(request const&) { throw error{errc::driver, "exporter", "no tensor"}; }
    };
    CHECK(ferry::try_from_dlpack<managed_tensor>(failing_exporter{}).error().code() == errc::driver);
}
