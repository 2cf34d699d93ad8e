// Structs of existing columns, and columns whose nodes are on several devices.
#include <ferry/column.hpp>
#include <ferry/column/concat.hpp>
#include <ferry/column/metadata.hpp>

#include <support/allocation_failure.hpp>
#include <support/fails.hpp>
#include <support/random_columns.hpp>
#include <support/sim_column.hpp>
#include <support/sim_space.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

using ferry::column;
using ferry::column_buffer;
using ferry::device;
using ferry::device_type;
using ferry::errc;
using ferry::make_struct;
using support::both_fail;
using support::column_maker;
using support::shown;

namespace {

device const gpu{device_type::cuda, 0}, other_gpu{device_type::cuda, 1}, pinned{device_type::cuda_host, 0};

column numbers(std::string_view name, std::vector<std::int32_t> values, device on = ferry::cpu) {
    return support::int32s(std::move(values), {.format = "i", .name = name}, on);
}

/// A table with a column on the host and one on each GPU, of which the last is nested.
column partitioned() {
    column const inner[] = {numbers("x", {5, 6, 7}, other_gpu)};
    column const children[] = {numbers("h", {1, 2, 3}), numbers("g", {3, 4, 5}, gpu), make_struct(inner, "s")};
    return make_struct(children, "t");
}

}  // namespace

TEST_CASE("columns become the children of a struct, which keeps their memory") {
    auto const all = numbers("x", {1, 2, 3, 4});
    column_maker maker{5};
    auto const texts = maker.make("z", 3, 1);
    std::vector<column> children{all.slice(1, 3), texts};
    auto const t = make_struct(children, "t");
    children.clear();
    CHECK(t.name() == "t");
    CHECK(t.format() == "+s");
    CHECK(t.length() == 3);
    CHECK(t.null_count() == 0);
    CHECK(t.child("x").values<std::int32_t>()[0] == 2);
    CHECK(shown(t.child(1)) == shown(texts));
    CHECK(shown(t.slice(1, 2).field(0)) == std::vector<std::string>{"03000000", "04000000"});
    ferry::validate(t, ferry::validation::full);
    CHECK(make_struct({}).length() == 0);
    CHECK(ferry::try_make_struct(std::vector<column>{all}, "t")->child_count() == 1);
}

TEST_CASE("a struct of columns of different lengths is refused") {
    column const children[] = {numbers("a", {1, 2}), numbers("b", {1, 2, 3})};
    both_fail(
        errc::bad_column, [&] { static_cast<void>(make_struct(children, "t")); },
        [&] { return ferry::try_make_struct(children, "t"); }, {"t.b: it has 3 items, and the first child has 2"});
}

TEST_CASE("an allocation that fails releases the struct once") {
    auto const x = numbers("x", {1, 2, 3});
    CHECK(support::for_each_failing_allocation([&](int) { static_cast<void>(make_struct({&x, 1})); }) > 2);
}

TEST_CASE("each node of a column has a device") {
    auto const t = partitioned();
    CHECK(t.device() == ferry::cpu);
    CHECK(t.view().is_mixed());
    CHECK(t.child("g").device() == gpu);
    auto const nested = t.field("s");
    CHECK(nested.device() == other_gpu);
    CHECK_FALSE(nested.view().is_mixed());
    CHECK(nested.field("x").device() == other_gpu);
    CHECK(t.null_count() == 0);
    CHECK(t.slice(1, 1).child("g").device() == gpu);
    ferry::validate(t);
}

TEST_CASE("operations of the host name the child on a device, and the cure") {
    auto const t = partitioned();
    auto const texts = {"t.g is on cuda:0: move the column to the host with to()"};
    both_fail(
        errc::not_accessible, [&] { ferry::validate(t, ferry::validation::full); },
        [&] { return ferry::try_validate(t, ferry::validation::full); }, texts);
    both_fail(
        errc::not_accessible, [&] { static_cast<void>(t.values<ferry::column_view>()); },
        [&] { return t.try_values<ferry::column_view>(); }, texts);
    support::fails(errc::not_accessible, [&] { static_cast<void>(ferry::compact(t)); }, texts);
    column const deep[] = {t.child("h"), t.child("s")};
    support::fails(errc::not_accessible, [&] { static_cast<void>(ferry::compact(make_struct(deep, "t"))); },
                   {"t.s is on cuda:1"});
    column const near[] = {t.child("h"), numbers("p", {7, 8, 9}, pinned)};
    auto const of_host = make_struct(near);
    ferry::validate(of_host, ferry::validation::full);
    CHECK(shown(ferry::compact(of_host)) == shown(of_host));
}

TEST_CASE("a column on several devices is moved child by child") {
    support::sim_system sim{gpu, other_gpu};
    auto const stream = sim.make_stream(device_type::cuda);
    column const plain[] = {numbers("h", {1, 2, 3}), numbers("g", {3, 4, 5}), numbers("o", {5, 6, 7})};
    support::sim_columns first{sim, gpu, stream}, second{sim, other_gpu, stream};
    column const spread[] = {plain[0], first.put(plain[1]), second.put(plain[2])};
    auto const expected = make_struct(plain, "t");
    column const outer_children[] = {make_struct(spread, "t")};
    for (auto const place : {ferry::cpu, gpu, other_gpu}) {
        auto const there = make_struct(outer_children).to(place, sim, stream);
        CHECK_FALSE(there.view().is_mixed());
        CHECK(there.device() == place);
        CHECK(shown(there.child(0).to(ferry::cpu, sim, stream)) == shown(expected));
    }
    auto const part = outer_children[0].slice(1, 2).to(gpu, sim, stream);
    CHECK(shown(part.to(ferry::cpu, sim, stream)) == shown(expected.slice(1, 2)));
    auto const near = outer_children[0].to(gpu, sim, stream);
    CHECK(near.name() == "t");
    auto const child = near.child("g");
    CHECK(child.view().buffers()[1].data == spread[1].view().buffers()[1].data);
    both_fail(
        errc::no_backend, [&] { static_cast<void>(outer_children[0].to(ferry::cpu)); },
        [&] { return outer_children[0].try_to(ferry::cpu); });
    CHECK(sim.races() == 0);
}

TEST_CASE("the host waits once for each device of a column that it moves") {
    support::sim_system sim{gpu, other_gpu};
    auto const stream = ferry::stream_token::cuda_legacy_default();
    support::sim_columns first{sim, gpu, stream}, second{sim, other_gpu, stream};
    std::vector<column> children;
    for (int i = 0; i < 8; ++i) children.push_back((i % 2 == 0 ? first : second).put(numbers("x", {i})));
    auto const before = sim.calls(support::verb::wait);
    CHECK(shown(make_struct(children).to(ferry::cpu, sim, stream)).size() == 1);
    CHECK(sim.calls(support::verb::wait) - before == 2);
}
