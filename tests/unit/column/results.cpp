// D17: the functions of column/ that return a result: both outcomes of each, with the errors of the functions that
// throw. The errors of validate, make_column and metadata_view are compared where those are tested.
#include <ferry/column.hpp>
#include <ferry/column/concat.hpp>
#include <ferry/column/metadata.hpp>

#include <support/allocation_failure.hpp>
#include <support/fails.hpp>
#include <support/no_owner.hpp>
#include <support/sim_column.hpp>
#include <support/sim_space.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

using ferry::column;
using ferry::column_buffer;
using ferry::column_parts;
using ferry::column_view;
using ferry::errc;
using support::both_fail;

namespace {

std::int32_t const numbers[] = {1, 2, 3, 4, 5};
unsigned char const validity[] = {0b10110};
column_buffer const five[] = {{validity, 1}, {numbers, sizeof numbers}}, none[] = {{}};
column_parts const item{.format = "i", .name = "x", .length = 5, .buffers = five};
column_parts const row{.format = "+s", .length = 5, .buffers = none, .children = {&item, 1}};
ferry::device const gpu{ferry::device_type::cuda, 0};

/// Indices 0, 1, 9 into the five numbers.
column indices() {
    static std::int8_t const values[] = {0, 1, 9};
    static column_buffer const buffers[] = {{}, {values, 3}};
    return ferry::make_column({.format = "c", .length = 3, .buffers = buffers, .dictionary = &item}, nullptr);
}
column ints(ferry::device d = ferry::cpu) { return ferry::make_column(item, nullptr, d); }
column struct_of_ints() { return ferry::make_column(row, nullptr); }

ferry::managed_tensor flags(std::vector<std::uint8_t> v) {
    std::int64_t const extent = static_cast<std::int64_t>(v.size());
    auto* const p = v.data();
    return ferry::make_managed(std::move(v), ferry::tensor_view{p, ferry::dtype_of<std::uint8_t>, {&extent, 1}});
}

/// Checks the forms of a column and of its view.
template <class Call, class Try>
void both_fail_of_each(errc code, column const& c, Call call, Try try_call) {
    both_fail(code, [&] { static_cast<void>(call(c)); }, [&] { return try_call(c); });
    both_fail(code, [&] { static_cast<void>(call(c.view())); }, [&] { return try_call(c.view()); });
}

}  // namespace

TEST_CASE("parts of a column") {
    auto const c = struct_of_ints(), d = indices();
    auto const each = [&](auto const& of, auto const& encoded) {
        CHECK(of.try_child(0)->length() == 5);
        CHECK(of.try_child("x")->length() == 5);
        CHECK(of.try_field(0)->name() == "x");
        CHECK(of.try_field("x")->name() == "x");
        CHECK(of.try_slice(1, 3)->length() == 3);
        CHECK(encoded.try_dictionary()->length() == 5);
        CHECK(of.try_child(0)->try_null_count().value() == 2);
    };
    each(c, d);
    each(c.view(), d.view());
    CHECK_FALSE(c.try_child(0)->owner() != c.owner());

    both_fail_of_each(
        errc::out_of_range, c, [](auto const& of) { return of.child(1); },
        [](auto const& of) { return of.try_child(1); });
    both_fail_of_each(
        errc::argument, c, [](auto const& of) { return of.child("y"); },
        [](auto const& of) { return of.try_child("y"); });
    both_fail_of_each(
        errc::out_of_range, c, [](auto const& of) { return of.field(-1); },
        [](auto const& of) { return of.try_field(-1); });
    both_fail_of_each(
        errc::argument, c, [](auto const& of) { return of.field("y"); },
        [](auto const& of) { return of.try_field("y"); });
    both_fail_of_each(
        errc::argument, ints(), [](auto const& of) { return of.field(0); },
        [](auto const& of) { return of.try_field(0); });
    both_fail_of_each(
        errc::argument, c, [](auto const& of) { return of.dictionary(); },
        [](auto const& of) { return of.try_dictionary(); });
    both_fail_of_each(
        errc::out_of_range, c, [](auto const& of) { return of.slice(3, 3); },
        [](auto const& of) { return of.try_slice(3, 3); });
    both_fail_of_each(
        errc::not_accessible, ints(gpu), [](auto const& of) { return of.null_count(); },
        [](auto const& of) { return of.try_null_count(); });
    auto const far = ints(gpu);
    CHECK(c.view().try_require_host("api"));
    both_fail(
        errc::not_accessible, [&] { far.view().require_host("api"); },
        [&] { return far.view().try_require_host("api"); }, {"api: ", "cuda:0"});
}

TEST_CASE("items of a column") {
    auto const c = ints(), d = indices(), far = ints(gpu);
    auto const values = c.try_values<std::int32_t>();
    REQUIRE(values);
    CHECK(*values->try_at(1) == std::optional{2});
    CHECK(*values->try_at(0) == std::nullopt);
    CHECK(c.view().try_values<std::int32_t>()->size() == 5);
    column_buffer const plain[] = {{}, {numbers, sizeof numbers}};
    auto const whole = ferry::make_column({.format = "i", .length = 5, .buffers = plain}, nullptr);
    CHECK(whole.try_values<std::int32_t>()->try_span()->data() == numbers);

    both_fail_of_each(
        errc::dtype, c, [](auto const& of) { return of.template values<float>(); },
        [](auto const& of) { return of.template try_values<float>(); });
    both_fail_of_each(
        errc::not_accessible, far, [](auto const& of) { return of.template values<std::int32_t>(); },
        [](auto const& of) { return of.template try_values<std::int32_t>(); });
    both_fail(errc::out_of_range, [&] { static_cast<void>(values->at(5)); }, [&] { return values->try_at(5); });
    auto const encoded = d.values<std::int32_t>();
    both_fail(
        errc::bad_column, [&] { static_cast<void>(encoded.at(2)); }, [&] { return encoded.try_at(2); },
        {"item 2", "outside the dictionary"});
    both_fail(errc::argument, [&] { static_cast<void>(values->span()); }, [&] { return values->try_span(); });
    column_buffer const shifted[] = {{}, {reinterpret_cast<std::byte const*>(numbers) + 1, 16}};
    auto const odd = ferry::make_column({.format = "i", .length = 4, .buffers = shifted}, nullptr);
    auto const odd_values = odd.values<std::int32_t>();
    both_fail(errc::alignment, [&] { static_cast<void>(odd_values.span()); }, [&] { return odd_values.try_span(); });
}

TEST_CASE("items that offsets, sizes and views do not describe") {
    std::int32_t const offsets[] = {0, 9, 2};
    column_buffer const text[] = {{}, {offsets, sizeof offsets}, {"abc", 3}};
    auto const texts = ferry::make_column({.format = "u", .length = 2, .buffers = text}, nullptr);
    auto const strings = texts.values<std::string_view>();
    column_buffer const list[] = {{}, {offsets, sizeof offsets}};
    auto const lists =
        ferry::make_column({.format = "+l", .length = 2, .buffers = list, .children = {&item, 1}}, nullptr);
    auto const rows = lists.values<column_view>();
    std::int32_t const views[][4] = {{-1}, {20, 0, 3, 0}, {20, 0, 0, 0}};
    std::int64_t const size = 3;
    column_buffer const viewed[] = {{}, {views, sizeof views}, {"abc", 3}, {&size, 8}};
    auto const view_column = ferry::make_column({.format = "vu", .length = 3, .buffers = viewed}, nullptr);
    auto const view_strings = view_column.values<std::string_view>();
    auto const refuse = [](auto const& of, std::int64_t i) {
        both_fail(errc::bad_column, [&] { static_cast<void>(of.at(i)); }, [&] { return of.try_at(i); }, {"item"});
    };
    for (int i = 0; i < 2; ++i) refuse(strings, i), refuse(rows, i);
    for (int i = 0; i < 3; ++i) refuse(view_strings, i);
}

TEST_CASE("tensors of a column, and columns of tensors") {
    auto const c = ints(), far = ints(gpu);
    auto const shared = ferry::try_to_dlpack(c);
    REQUIRE(shared);
    CHECK(shared->data.view().data() == numbers);
    CHECK(shared->validity->as<bool const, 1>()(1));
    CHECK(ferry::try_to_tensor(c.slice(1, 2))->rank() == 1);
    both_fail(
        errc::dtype, [&] { static_cast<void>(ferry::to_dlpack(struct_of_ints())); },
        [&] { return ferry::try_to_dlpack(struct_of_ints()); }, {"nested"});
    both_fail(
        errc::no_backend, [&] { static_cast<void>(ferry::to_dlpack(far)); }, [&] { return ferry::try_to_dlpack(far); });
    both_fail(
        errc::dtype, [&] { static_cast<void>(ferry::to_tensor(c)); }, [&] { return ferry::try_to_tensor(c); },
        {"2 nulls"});
    both_fail(
        errc::dtype, [&] { static_cast<void>(ferry::to_tensor(indices())); },
        [&] { return ferry::try_to_tensor(indices()); }, {"dictionary"});

    auto const made = ferry::try_from_tensors(flags({1, 2, 3}), flags({1, 0, 1}));
    REQUIRE(made);
    CHECK(made->null_count() == 1);
    auto const refuse = [](errc code, auto tensors) {
        both_fail(
            code,
            [&] {
                auto [data, valid] = tensors();
                static_cast<void>(ferry::from_tensors(std::move(data), std::move(valid)));
            },
            [&] {
                auto [data, valid] = tensors();
                return ferry::try_from_tensors(std::move(data), std::move(valid));
            });
    };
    using pair = std::pair<ferry::managed_tensor, std::optional<ferry::managed_tensor>>;
    refuse(errc::consumed, [] { return pair{}; });
    refuse(errc::shape, [] { return pair{flags({1}), flags({1, 1})}; });
    refuse(errc::rank, [] {
        static float one = 1;
        return pair{ferry::make_managed(support::no_owner{}, ferry::tensor_view{&one, ferry::dtype_of<float>, {}}),
                    std::nullopt};
    });
}

TEST_CASE("an error of a back end is returned, and releases the tensors") {
    support::sim_system sim{gpu};
    auto const stream = sim.make_stream(gpu.type);
    column_buffer const bits[] = {{validity, 1}, {validity, 1}};
    auto const flags_of_items = ferry::make_column({.format = "b", .length = 5, .buffers = bits}, nullptr);
    support::sim_columns there{sim, gpu, stream};
    auto const far = there.put(flags_of_items);
    sim.finish(stream);
    auto const live = sim.live_bytes();
    for (int n = 1; n <= 5; ++n)
        for (auto const failing : {support::verb::copy, support::verb::allocate, support::verb::wait}) {
            sim.fail_at(failing, n);
            bool const has_failed = !ferry::try_to_dlpack(far, sim, stream);
            sim.fail_at(failing, 0);
            sim.finish(stream);
            CHECK(has_failed == (n <= (failing == support::verb::copy ? 4 : 2)));  // for the validity and the data
            CHECK(sim.live_bytes() == live);
        }
    auto const shared = ferry::try_to_dlpack(far, sim, stream);
    REQUIRE(shared);
    CHECK(shared->data.device() == gpu);
}

/// Returns an error from each operation on memory of the device.
struct broken : ferry::host_back_end {
    bool allocates = true;
    [[nodiscard]] static constexpr bool reaches(ferry::device) noexcept { return true; }
    [[nodiscard]] ferry::result<ferry::buffer<>> allocate(ferry::device, std::size_t bytes, ferry::stream_token) const {
        if (!allocates) return ferry::error{errc::driver, "device", "allocation failed"};
        return ferry::buffer<>::try_allocate(bytes);
    }
    [[nodiscard]] static ferry::result<bool> copy(ferry::copy_plan const&, void*, ferry::device, void const*,
                                                  ferry::device, ferry::stream_token) {
        return ferry::error{errc::driver, "device", "copy failed"};
    }
};

TEST_CASE("an error that a back end returns is returned") {
    column_buffer const bits[] = {{}, {validity, 1}};
    auto const far = ferry::make_column({.format = "b", .length = 5, .buffers = bits}, nullptr, gpu);
    std::int64_t const extent[] = {2}, stride[] = {2};
    static int two[] = {1, 2, 3};
    auto const strided = [&] {
        return ferry::make_managed(support::no_owner{},
                                   ferry::tensor_view{two, ferry::dtype_of<int>, extent, stride, gpu});
    };
    for (bool const allocates : {true, false}) {
        broken b;
        b.allocates = allocates;
        both_fail(
            errc::driver, [&] { static_cast<void>(ferry::to_dlpack(far, b)); },
            [&] { return ferry::try_to_dlpack(far, b); }, {"copy failed"});
        both_fail(
            errc::driver, [&] { static_cast<void>(ferry::from_tensors(strided(), {}, b)); },
            [&] { return ferry::try_from_tensors(strided(), {}, b); }, {allocates ? "copy" : "allocation", "failed"});
    }
}

TEST_CASE("copies of a column") {
    auto const c = ints();
    column const chunks[] = {c, c}, different[] = {c, struct_of_ints()};
    CHECK(ferry::try_compact(c)->null_count() == 2);
    CHECK(ferry::try_concat(chunks)->length() == 10);
    CHECK(c.try_to(ferry::cpu)->length() == 5);
    auto const bad = ferry::make_column({.format = "i", .length = 5, .buffers = five}, nullptr, gpu);
    both_fail(
        errc::not_accessible, [&] { static_cast<void>(ferry::compact(bad)); }, [&] { return ferry::try_compact(bad); });
    both_fail(
        errc::argument, [&] { static_cast<void>(ferry::concat(different)); },
        [&] { return ferry::try_concat(different); });
    both_fail(errc::no_backend, [&] { static_cast<void>(c.to(gpu)); }, [&] { return c.try_to(gpu); });
}

TEST_CASE("metadata") {
    ferry::metadata_builder b;
    CHECK(b.try_add("unit", "m"));
    CHECK(ferry::metadata_view::try_make(b.bytes())->find("unit") == "m");
    std::string_view const huge{"", std::size_t{1} << 31};  // its characters are not read
    both_fail(errc::overflow, [&] { b.add("k", huge); }, [&] { return b.try_add("k", huge); });
    CHECK(ferry::metadata_view{b.bytes()}.size() == 1);
}

TEST_CASE("a failed allocation is an error of the result, and nothing leaks") {
    auto const c = ints();
    int failures = 0;
    auto const count = [&](auto const& r) { failures += !r && r.error().code() == errc::out_of_memory; };
    auto const injected = [&](auto f) { return support::for_each_failing_allocation([&](int) { count(f()); }); };
    int const all = injected([&] { return ferry::try_make_column(row, nullptr); }) +
                    injected([&] { return ferry::try_to_dlpack(c); }) + injected([&] { return ferry::try_compact(c); });
    CHECK(all > 5);
    CHECK(failures == all);
    int released = 0;
    struct counter {
        int* count;
        explicit counter(int& n) : count{&n} {}
        ~counter() { ++*count; }
    };
    CHECK_FALSE(ferry::try_make_column({.format = "q"}, std::make_shared<counter>(released)));
    CHECK(released == 1);
}
