// Columns shared and attached: every type, each buffer once, and forged descriptors.
#include <ferry/column.hpp>
#include <ferry/ipc.hpp>
#include <ferry/wire/binary.hpp>

#include <support/allocation_failure.hpp>
#include <support/fails.hpp>
#include <support/importer.hpp>
#include <support/ipc.hpp>
#include <support/random_columns.hpp>
#include <support/sim_column.hpp>
#include <support/sim_ipc.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

using ferry::column;
using ferry::column_buffer;
using ferry::copy_policy;
using ferry::device;
using ferry::device_type;
using ferry::errc;
using ferry::ipc::attach;
using ferry::ipc::attach_column;
using ferry::ipc::session;
using ferry::ipc::share;
using ferry::wire::node;
using support::column_maker;
using support::fails;

namespace {

device const gpu{device_type::cuda, 0};

column numbers(std::vector<std::int32_t> values = {1, 2, 3, 4}) {
    auto owner = std::make_shared<std::vector<std::int32_t>>(std::move(values));
    column_buffer const buffers[] = {{}, {owner->data(), static_cast<std::int64_t>(4 * owner->size())}};
    return ferry::make_column({.format = "i",
                               .name = "x",
                               .length = static_cast<std::int64_t>(owner->size()),
                               .buffers = buffers,
                               .metadata = {"\1\0\0\0\1\0\0\0a\1\0\0\0b", 14}},
                              owner);
}

}  // namespace

TEST_CASE("columns of every type are attached with the values that were shared") {
    unsigned seed = 500'000;
    session importer;
    std::vector<std::string> formats(std::begin(column_maker::leaves), std::end(column_maker::leaves));
    formats.insert(formats.end(), std::begin(column_maker::nested), std::end(column_maker::nested));
    for (auto const& format : formats)
        for (int turn = 0; turn < 3; ++turn) {
            column_maker maker{++seed};
            INFO(format, " seed ", seed);
            auto const c = maker.make(format, maker.below(40), 3);
            auto const s = share(c);
            CHECK(s.holds_column());
            auto const text = ferry::wire::to_bytes(s.descriptor());
            auto const a = attach_column(ferry::wire::from_bytes(text), {.session = &importer});
            CHECK(support::shown(a.view()) == support::shown(c.view()));
            CHECK(a.format() == c.format());
            CHECK(a.name() == c.name());
            ferry::validate(a.view());
            auto const own = s.column();
            CHECK(support::shown(own.view()) == support::shown(c.view()));
            auto const again = a.to(ferry::cpu);
            CHECK(again.length() == c.length());
        }
    CHECK(support::segments(getpid()).empty());
}

TEST_CASE("an attached column is read-only, keeps the memory, and has the metadata of its exporter") {
    std::optional s{share(numbers())};
    CHECK(s->copied());
    auto a = attach_column(s->descriptor());
    auto const same = numbers();
    CHECK(a.view().metadata() == same.view().metadata());
    CHECK(a.null_count() == 0);
    CHECK(support::faults([&] { *static_cast<char volatile*>(const_cast<void*>(a.view().buffers()[1].data)) = 1; }));
    auto const part = a.slice(1, 2);
    a = column{};
    CHECK(s->readers() == 1);
    auto const d = s->descriptor();
    s.reset();
    CHECK(support::shown(part.view()) == std::vector<std::string>{"02000000", "03000000"});
    fails(errc::exporter_gone, [&] { static_cast<void>(attach_column(d)); });
    CHECK(support::segments(getpid()).empty());
}

TEST_CASE("buffers that children share are stored once") {
    auto const x = numbers(std::vector<std::int32_t>(5000, 7));
    column_buffer const none[] = {{}};
    ferry::column_parts const children[] = {
        {.format = "i", .name = "a", .length = 5000, .buffers = x.view().buffers()},
        {.format = "i", .name = "b", .length = 5000, .buffers = x.view().buffers()}};
    auto const s =
        share(ferry::make_column({.format = "+s", .length = 5000, .buffers = none, .children = children}, x.owner()));
    auto const& root = std::get<node>(s.descriptor().root);
    CHECK(root.children[0].buffers[1] == root.children[1].buffers[1]);
    CHECK(s.descriptor().memories.size() == 1);
    CHECK(s.descriptor().memories[0].length == 20032);
}

TEST_CASE("the common part of slices is stored once, and stays so when it is attached and shared again") {
    auto const x = numbers(std::vector<std::int32_t>(5000, 7));
    column_buffer const none[] = {{}};
    ferry::column_parts const children[] = {
        {.format = "i", .name = "a", .length = 4999, .buffers = x.view().buffers()},
        {.format = "i", .name = "b", .length = 4999, .offset = 1, .buffers = x.view().buffers()}};
    session own, other;
    auto const s =
        share(ferry::make_column({.format = "+s", .length = 4999, .buffers = none, .children = children}, x.owner()),
              {.session = &own});
    auto const& root = std::get<node>(s.descriptor().root);
    CHECK(root.children[0].buffers[1] == root.children[1].buffers[1]);
    CHECK(root.children[1].offset == 1);
    CHECK(s.descriptor().memories[0].length == 20032);
    auto const attached = attach_column(s.descriptor(), {.session = &other});
    CHECK(support::shown(attached) == support::shown(s.column()));
    auto const onward = share(attached, {.session = &other, .copy = copy_policy::never});
    CHECK(support::shown(onward.column()) == support::shown(attached));
    auto const field = share(attached.child("b"), {.session = &other});  // its items begin within a buffer
    CHECK(field.copied());
    CHECK(support::shown(field.column()) == support::shown(attached.child("b")));
    ferry::column_parts const beside[] = {{.format = "i", .name = "a", .length = 3, .buffers = x.view().buffers()}};
    ferry::column_parts const uneven[] = {
        {.format = "+s", .name = "few", .length = 3, .buffers = none, .children = beside},
        {.format = "+w:1000", .name = "all", .length = 3, .buffers = none, .children = {children, 1}}};
    auto const both =
        share(ferry::make_column({.format = "+s", .length = 3, .buffers = none, .children = uneven}, x.owner()));
    auto const few = attach_column(both.descriptor(), {.session = &other}).child("few");
    auto const cut = share(few, {.session = &other});  // three items, of a buffer of thousands
    CHECK(cut.copied());
    CHECK(cut.descriptor().memories[0].length == 64);
}

TEST_CASE("memory that is shared, attached or of the shared space is shared again without a copy") {
    session own;
    auto const first = share(numbers(), {.session = &own});
    auto const again = share(first.column(), {.session = &own, .copy = copy_policy::never});
    CHECK_FALSE(again.copied());
    auto const alias = attach_column(again.descriptor(), {.session = &own});
    auto const theirs = first.column();
    CHECK(alias.view().buffers()[1].data == theirs.view().buffers()[1].data);
    session other;
    auto const attached = attach_column(first.descriptor(), {.session = &other});
    auto const onward = share(attached, {.session = &other});
    CHECK_FALSE(onward.copied());
    auto const mine = ferry::compact(numbers(), ferry::ipc::shared_space{own});
    CHECK_FALSE(share(mine, {.session = &own, .copy = copy_policy::never}).copied());
    CHECK(share(mine, {.session = &own, .copy = copy_policy::always}).copied());
    fails(errc::copy_needed,
          [&] { static_cast<void>(share(numbers(), {.session = &own, .copy = copy_policy::never})); }, {"compact()"});
}

TEST_CASE("tensors and columns are attached by the function of their kind") {
    auto const c = share(numbers());
    auto const t = share(support::tensor({3}));
    fails(errc::argument, [&] { static_cast<void>(attach(c.descriptor())); }, {"attach_column"});
    fails(errc::argument, [&] { static_cast<void>(attach_column(t.descriptor())); }, {"ferry::ipc::attach"});
    fails(errc::argument, [&] { static_cast<void>(t.column()); }, {"tensor()"});
    CHECK_FALSE(t.holds_column());
}

TEST_CASE("forged descriptors of columns are refused before any buffer is read") {
    auto const s = share(numbers());
    auto const refused = [&](errc code, auto change, char const* text) {
        auto d = s.descriptor();
        change(d, std::get<node>(d.root));
        fails(code, [&] { static_cast<void>(attach_column(d)); }, {text});
    };
    refused(errc::bad_descriptor, [](auto&, node& n) { n.buffers[1].length = 1 << 20; }, "/column/buffers/1");
    refused(errc::bad_descriptor, [](auto&, node& n) { n.buffers[1].offset = 1 << 20; }, "/column/buffers/1");
    refused(errc::bad_descriptor, [](auto& d, node&) { d.memories.push_back(d.memories[0]); }, "one memory");
    refused(
        errc::bad_descriptor, [](auto& d, node&) { d.memories[0].length = d.memories[0].allocation = 1 << 20; },
        "1048576");
    refused(errc::bad_column, [](auto&, node& n) { n.length = 5; }, "x: data buffer holds 16 bytes, needs 20");
    refused(errc::bad_column, [](auto&, node& n) { n.offset = 1; }, "x: data buffer holds 16 bytes, needs 20");
    refused(
        errc::bad_column, [](auto&, node& n) { n.buffers[1].length = 8; }, "x: data buffer holds 8 bytes, needs 16");
    refused(errc::bad_column, [](auto&, node& n) { n.buffers[1] = {}; }, "x: data buffer is null");
    refused(errc::bad_column, [](auto&, node& n) { n.buffers.pop_back(); }, "1 buffers");
    refused(errc::bad_column, [](auto&, node& n) { n.null_count = 2; }, "null count");
    refused(errc::bad_column, [](auto&, node& n) { n.format = "q"; }, "`q`");
    refused(errc::bad_column, [](auto&, node& n) { n.format = "g"; }, "needs 32");
    refused(errc::bad_column, [](auto&, node& n) { n.children.push_back(n); }, "1 children");
    refused(errc::bad_column, [](auto&, node& n) { n.metadata.resize(13); }, "x: its metadata's 13 bytes");
    auto overlapping = s.descriptor();
    auto& n = std::get<node>(overlapping.root);
    n = {.format = "+s", .length = 2, .buffers = {{}}, .children = {n, n}};
    n.children[1].buffers[1] = {0, 4, 12};
    n.children[1].length = 3;
    auto const c = attach_column(overlapping);
    CHECK(support::shown(c.view()) == std::vector<std::string>{"{01000000,02000000,}", "{02000000,03000000,}"});
}

TEST_CASE("a name that cannot be encoded is refused, and no segment is left") {
    auto const x = numbers();
    auto const bad =
        ferry::make_column({.format = "i", .name = "\xff", .length = 4, .buffers = x.view().buffers()}, x.owner());
    fails(errc::bad_descriptor, [&] { static_cast<void>(share(bad)); }, {"/column/name"});
    CHECK(support::segments(getpid()).empty());
}

TEST_CASE("an allocation that fails leaves nothing behind") {
    auto const x = numbers();
    CHECK(support::for_each_failing_allocation([&](int) {
              auto const s = share(x);
              static_cast<void>(attach_column(s.descriptor()));
          }) > 10);
    CHECK(support::segments(getpid()).empty());
}

TEST_CASE("the host waits for a pinned column before it copies it") {
    device const pinned{device_type::cuda_host, 0};
    support::sim_system sim{pinned};
    auto const stream = sim.make_stream(device_type::cuda_host);
    auto gate = sim.close(stream);
    support::sim_columns others{sim, pinned, stream};
    auto const there = others.put(numbers());
    std::thread opener{[&] {
        sim.until_host_waits();
        gate.open();
    }};
    auto const s = share(there, {.ready_on = stream}, sim);
    opener.join();
    auto const c = attach_column(s.descriptor());
    CHECK(c.device() == ferry::cpu);
    CHECK(support::shown(c.view())[3] == "04000000");
}

TEST_CASE("columns on a device are shared by handles, and importers wait for their event") {
    auto const c = numbers();
    support::importer other{[&](support::line const& parent) {
        support::sim_system theirs{gpu};
        support::sim_shareable importer{theirs};
        auto const on = theirs.make_stream(device_type::cuda);
        auto const a = attach_column(parent.receive(), {.stream = on}, importer);
        auto const host = a.to(ferry::cpu, theirs, on);
        return a.device() == gpu && support::shown(host.view()) == support::shown(c.view()) ? 0 : 1;
    }};
    support::sim_system sim{gpu};
    support::sim_shareable b{sim};
    auto const stream = sim.make_stream(device_type::cuda);
    session own;
    auto const there = c.to(gpu, sim, stream);
    {
        auto s = share(there, {.session = &own, .ready_on = stream}, b);
        CHECK_FALSE(s.copied());
        other.talk().send(s.descriptor());
        CHECK(other.finish() == 0);
        s.close();
    }
    support::sim_columns others{sim, gpu, stream};
    auto const foreign = others.put(c);
    auto const s = share(foreign, {.session = &own, .ready_on = stream}, b);  // allocations of their own: copied
    CHECK(s.copied());
    CHECK(s.descriptor().memories[0].ready.size() == 64);
    auto const mine = s.column().to(ferry::cpu, sim, stream);
    CHECK(support::shown(mine.view()) == support::shown(c.view()));
    fails(errc::no_backend, [&] { static_cast<void>(share(foreign)); }, {"ferry/cuda/ipc.hpp"});
    fails(errc::no_backend, [&] { static_cast<void>(share(there, sim)); }, {"ferry/cuda/ipc.hpp"});
    CHECK(sim.races() == 0);
}
