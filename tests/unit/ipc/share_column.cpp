// Columns shared and attached: every type, each buffer once, and forged descriptors.
#include <ferry/column.hpp>
#include <ferry/column/concat.hpp>
#include <ferry/ipc.hpp>
#include <ferry/wire/binary.hpp>

#include <support/allocation_failure.hpp>
#include <support/fails.hpp>
#include <support/importer.hpp>
#include <support/ipc.hpp>
#include <support/random_columns.hpp>
#include <support/sim_column.hpp>
#include <support/sim_ipc.hpp>
#include <support/split_columns.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
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

device const gpu{device_type::cuda, 0}, other_gpu{device_type::cuda, 1};

column numbers(std::vector<std::int32_t> values = {1, 2, 3, 4}) {
    return support::int32s(std::move(values),
                           {.format = "i", .name = "x", .metadata = {"\1\0\0\0\1\0\0\0a\1\0\0\0b", 14}});
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

TEST_CASE("the common part of slices is copied once, and stays so when it is attached and shared again") {
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
    CHECK(root.children[0].buffers[1] == ferry::wire::slice{0, 0, 19'996});
    CHECK(root.children[1].buffers[1] == ferry::wire::slice{0, 4, 19'996});
    CHECK(root.children[1].offset == 0);
    CHECK(s.descriptor().memories[0].length == 20032);
    CHECK(s.copied().bytes == 20000);
    auto const attached = attach_column(s.descriptor(), {.session = &other});
    CHECK(support::shown(attached) == support::shown(s.column()));
    auto const onward = share(attached, {.session = &other, .copy = copy_policy::never});
    CHECK(support::shown(onward.column()) == support::shown(attached));
    auto const field = share(attached.child("b"), {.session = &other, .copy = copy_policy::never});
    CHECK(support::shown(field.column()) == support::shown(attached.child("b")));
    auto const part = share(attached.slice(100, 7), {.session = &other, .copy = copy_policy::never});
    CHECK(std::get<node>(part.descriptor().root).offset == 100);
    CHECK(support::shown(attach_column(part.descriptor())) == support::shown(attached.slice(100, 7)));
}

TEST_CASE("of a slice without shared memory, only the items are copied where their bytes are known") {
    auto const x = numbers(std::vector<std::int32_t>(5000, 7));
    column_buffer const none[] = {{}};
    ferry::column_parts const children[] = {
        {.format = "i", .name = "a", .length = 5000, .buffers = x.view().buffers()}};
    ferry::column_parts const lists[] = {
        {.format = "+w:5", .name = "all", .length = 1000, .buffers = none, .children = children}};
    auto const table =
        ferry::make_column({.format = "+s", .length = 1000, .buffers = none, .children = lists}, x.owner());
    auto const cut = table.slice(803, 3);
    auto const s = share(cut);
    CHECK(s.copied().bytes == 4 * 5 * 3);
    CHECK(s.copied().buffers == std::vector<std::string>{"column.all[]: data"});
    CHECK(s.descriptor().memories[0].length == 128);  // as aligned as before
    CHECK(support::shown(attach_column(s.descriptor())) == support::shown(cut));
    CHECK_FALSE(share(table.slice(7, 0)).copied());
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
    auto const placed = numbers().to(ferry::ipc::shared_space{own});
    CHECK_FALSE(share(placed, {.session = &own, .copy = copy_policy::never}).copied());
    for (auto const& inside : {placed, mine, first.column(), alias}) {  // as share and `never` say
        auto const same = inside.to(ferry::ipc::shared_space{own});
        CHECK(same.view().buffers()[1].data == inside.view().buffers()[1].data);
    }
    fails(errc::copy_needed,
          [&] { static_cast<void>(share(numbers(), {.session = &own, .copy = copy_policy::never})); },
          {"x: data buffer", "ferry::ipc::shared_space"});
}

TEST_CASE("columns, slices and children with an allocation for each buffer are shared without a copy") {
    unsigned seed = 600'000;
    session own, other;
    auto shared_memory = support::split_into(ferry::cpu, ferry::ipc::shared_space{own}, std::memcpy);
    std::vector<std::string> formats(std::begin(column_maker::leaves), std::end(column_maker::leaves));
    formats.insert(formats.end(), std::begin(column_maker::nested), std::end(column_maker::nested));
    std::size_t most = 0;
    for (auto const& format : formats)
        for (int turn = 0; turn < 3; ++turn) {
            column_maker maker{++seed};
            INFO(format, " seed ", seed);
            auto const whole = shared_memory.put(maker.make(format, maker.below(40), 3));
            auto const begin = maker.below(whole.length() + 1);
            std::vector<column> parts{whole, whole.slice(begin, maker.below(whole.length() - begin + 1))};
            for (int i = 0; i < whole.child_count(); ++i) parts.push_back(whole.child(i));
            for (auto const& c : parts) {
                static_cast<void>(c.null_count());  // is known from now on, unless it is a slice
                auto const s = share(c, {.session = &own, .copy = copy_policy::never});
                CHECK_FALSE(s.copied());
                most = std::max(most, s.descriptor().memories.size());
                auto const a =
                    attach_column(ferry::wire::from_bytes(ferry::wire::to_bytes(s.descriptor())), {.session = &other});
                CHECK(support::shown(a.view()) == support::shown(c.view()));
                CHECK(a.offset() == (c.length() == 0 ? 0 : c.offset()));
                CHECK(a.view().known_null_count() == c.view().known_null_count());
                CHECK(a.null_count() == c.null_count());
                auto const alias = attach_column(s.descriptor(), {.session = &own});
                CHECK(support::shown(alias.view()) == support::shown(c.view()));
                CHECK(support::shown(s.column()) == support::shown(c.view()));
                CHECK(s.files().size() == s.descriptor().memories.size());
            }
        }
    CHECK(most > 5);
    other.trim();
    CHECK(own.counts().shares == 0);
    CHECK(support::segments(getpid()).empty());
}

TEST_CASE("D9: columns that were moved into the shared space are shared without a copy, also empty ones") {
    unsigned seed = 610'000;
    session own;
    ferry::ipc::shared_space const space{own};
    std::vector<std::string> formats(std::begin(column_maker::leaves), std::end(column_maker::leaves));
    formats.insert(formats.end(), std::begin(column_maker::nested), std::end(column_maker::nested));
    for (auto const& format : formats)
        for (int turn = 0; turn < 4; ++turn) {
            column_maker maker{++seed};
            INFO(format, " seed ", seed);
            auto const whole = maker.make(format, maker.below(40), 3);
            auto const begin = maker.below(whole.length() + 1);
            auto const c = whole.slice(begin, turn % 2 == 0 ? 0 : maker.below(whole.length() - begin + 1));
            auto const placed = c.to(space);
            auto const s = share(placed, {.session = &own, .copy = copy_policy::never});
            CHECK(support::shown(s.column()) == support::shown(c.view()));
            auto const same = placed.to(space);
            CHECK(same.view().node().buffers.data() == placed.view().node().buffers.data());
        }
}

TEST_CASE("D9: a column moved into the shared space keeps the memory of those buffers that lie in it") {
    session own;
    ferry::ipc::shared_space const space{own};
    auto const offsets = std::make_shared<ferry::buffer<ferry::ipc::shared_space>>(12, space);  // of 2 empty lists
    static std::int32_t const outside[] = {1, 2};                                               // of no list
    column_buffer const lists[] = {{}, {offsets->data(), 12}}, items[] = {{}, {outside, 8}};
    ferry::column_parts const item[] = {{.format = "i", .name = "item", .length = 0, .buffers = items}};
    column c = ferry::make_column({.format = "+l", .length = 2, .buffers = lists, .children = item}, offsets);
    auto const placed = c.to(space);
    CHECK(placed.view().buffers()[1].data == offsets->data());
    c = {};
    CHECK(offsets.use_count() == 2);
    auto const s = share(placed, {.session = &own, .copy = copy_policy::never});
    CHECK(support::shown(s.column()) == std::vector<std::string>{"[]", "[]"});
}

TEST_CASE("of a column of several allocations, only the memory of one that is not shared is copied") {
    session own;
    auto const shared_part = ferry::compact(numbers({5, 6, 7}), ferry::ipc::shared_space{own});
    auto const plain = numbers({1, 2, 3});
    column_buffer const none[] = {{}};
    ferry::column_parts const children[] = {
        {.format = "i", .name = "a", .length = 3, .buffers = shared_part.view().buffers()},
        {.format = "i", .name = "b", .length = 3, .buffers = plain.view().buffers()}};
    auto const owners = std::make_shared<std::pair<column, column>>(shared_part, plain);
    auto const table =
        ferry::make_column({.format = "+s", .name = "t", .length = 3, .buffers = none, .children = children}, owners);
    fails(errc::copy_needed, [&] { static_cast<void>(share(table, {.session = &own, .copy = copy_policy::never})); },
          {"t.b: data buffer"});
    auto s = share(table, {.session = &own});
    CHECK(s.copied().bytes == 12);
    CHECK(s.copied().buffers == std::vector<std::string>{"t.b: data"});
    CHECK(s.descriptor().memories.size() == 2);
    auto const theirs = s.column();
    auto const child = theirs.child("a");
    CHECK(child.view().buffers()[1].data == shared_part.view().buffers()[1].data);
    auto const a = attach_column(s.descriptor());
    CHECK(support::shown(a.view()) == support::shown(table.view()));
    CHECK(s.readers() == 1);
    auto const d = s.descriptor();
    s.close();
    for (auto const& m : d.memories) {
        auto one = d;
        one.memories = {m, m};
        fails(errc::exporter_gone, [&] { static_cast<void>(attach_column(one)); });
    }
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
    refused(errc::bad_descriptor, [](auto& d, node&) { d.memories.push_back(d.memories[0]); }, "several memories");
    refused(errc::bad_descriptor, [](auto& d, node& n) { d.memories.clear(), n.buffers[1] = {}; }, "no memory");
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
    refused(errc::bad_column, [](auto&, node& n) { n.metadata.resize(13); }, "x: its metadata of 13 bytes");
    auto overlapping = s.descriptor();
    auto& n = std::get<node>(overlapping.root);
    n = {.format = "+s", .length = 2, .buffers = {{}}, .children = {n, n}};
    n.children[1].buffers[1] = {0, 4, 12};
    n.children[1].length = 3;
    auto const c = attach_column(overlapping);
    CHECK(support::shown(c.view()) == std::vector<std::string>{"{01000000,02000000,}", "{02000000,03000000,}"});
}

TEST_CASE("each memory of a column is read-only for a forged descriptor of a tensor") {
    session own;
    ferry::ipc::shared_space space{own};
    auto const make = [&] {
        auto const memory = std::make_shared<ferry::buffer<ferry::ipc::shared_space>>(16, space);
        column_buffer const buffers[] = {{}, {memory->data(), 16}};
        return ferry::make_column({.format = "i", .length = 4, .buffers = buffers}, memory);
    };
    column const children[] = {make(), make()};
    auto const s = share(ferry::make_struct(children), {.session = &own, .copy = copy_policy::never});
    REQUIRE(s.descriptor().memories.size() == 2);
    for (auto const& m : s.descriptor().memories) {
        auto forged = s.descriptor();
        forged.memories = {m};
        forged.root = ferry::wire::tensor{.dtype = ferry::dtype_of<std::int32_t>, .shape = {4}, .strides = {1}};
        auto const t = attach(forged, {.session = &own});
        CHECK(t.view().is_read_only());
    }
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

    session own;  // removes what others left once only
    static_cast<void>(share(x, {.session = &own}));
    support::for_each_failing_allocation([&](int) { static_cast<void>(share(x, {.session = &own})); });
    ferry::ipc::shared_space space{own};
    support::for_each_failing_allocation([&](int) { space.deallocate(space.allocate(100), 100); });
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

TEST_CASE("the host waits for the default stream of each device before it copies or moves a pinned child") {
    device const pinned{device_type::cuda_host, 0};
    support::sim_system sim{gpu, other_gpu, pinned};
    support::sim_shareable b{sim};
    auto const on = ferry::stream_token::cuda_legacy_default(), its = on.on_device(other_gpu);
    auto const expected = support::shown(numbers());
    for (bool const is_shared : {true, false}) {
        auto gate = sim.close(its);
        support::sim_columns near{sim, pinned, its}, far{sim, other_gpu, its};
        column const children[] = {near.put(numbers()), far.put(numbers())};
        auto const table = ferry::make_struct(children, "t");
        std::thread opener{[&] {
            sim.until_host_waits();
            gate.open();
        }};
        session own;
        if (is_shared) {
            auto const s = share(table, {.session = &own, .ready_on = on}, b);
            auto const part = s.column().child(0);
            CHECK(support::shown(part) == expected);
        } else {
            auto const moved = table.to(ferry::cpu, sim, on);
            CHECK(support::shown(moved.field(0)) == expected);
            CHECK(support::shown(moved.field(1)) == expected);
        }
        opener.join();
    }
    CHECK(sim.races() == 0);
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
    fails(errc::no_backend, [&] { static_cast<void>(share(there)); }, {"ferry/cuda/ipc.hpp"});
    fails(errc::no_backend, [&] { static_cast<void>(share(there, sim)); }, {"ferry/cuda/ipc.hpp"});
    fails(errc::copy_needed, [&] { static_cast<void>(share(c, ferry::share_only)); });
    CHECK(sim.races() == 0);
}

TEST_CASE("columns on a device with an allocation for each buffer are shared without a copy") {
    std::vector<std::string> formats(std::begin(column_maker::leaves), std::end(column_maker::leaves));
    formats.insert(formats.end(), std::begin(column_maker::nested), std::end(column_maker::nested));
    auto const made = [](std::string const& format, unsigned seed) {
        column_maker maker{seed};
        auto const whole = maker.make(format, maker.below(40), 3);
        auto const begin = maker.below(whole.length() + 1);
        return whole.slice(begin, maker.below(whole.length() - begin + 1));
    };
    support::importer other{[&](support::line const& parent) {
        support::sim_system theirs{gpu};
        support::sim_shareable importer{theirs};
        auto const on = theirs.make_stream(device_type::cuda);
        session mappings;
        unsigned seed = 700'000;
        for (auto const& format : formats) {
            auto const a = attach_column(parent.receive(), {.session = &mappings, .stream = on}, importer);
            auto const host = a.to(ferry::cpu, theirs, on);
            if (a.device() != gpu || support::shown(host.view()) != support::shown(made(format, ++seed))) return 1;
            parent.tell('r');
        }
        return 0;
    }};
    support::sim_system sim{gpu};
    support::sim_shareable b{sim};
    auto const stream = sim.make_stream(device_type::cuda);
    session own;
    support::sim_columns others{sim, gpu, stream};
    unsigned seed = 700'000;
    std::size_t most = 0;
    for (auto const& format : formats) {
        INFO(format);
        auto const there = others.put(made(format, ++seed));
        auto const s = share(there, {.session = &own, .copy = copy_policy::never, .ready_on = stream}, b);
        CHECK_FALSE(s.copied());
        auto const& memories = s.descriptor().memories;
        most = std::max(most, memories.size());
        for (std::size_t i = 0; i < memories.size(); ++i) {  // one control page, and one event
            CHECK(memories[i].name == memories[0].name);
            CHECK(memories[i].ready.empty() == (i != 0 || memories[0].kind == ferry::wire::memory_kind::none));
        }
        other.talk().send(s.descriptor());
        other.talk().hear('r');
    }
    CHECK(other.finish() == 0);
    CHECK(most > 5);
    CHECK(sim.calls(support::verb::copy) == 0);
    CHECK(sim.calls(support::verb::wait) == 0);
    CHECK(sim.races() == 0);
    own.collect(std::chrono::seconds{1});
    CHECK(own.counts().condemned == 0);
}

TEST_CASE("a column in one allocation of a device is copied in one piece, and only its bytes are counted") {
    support::sim_system sim{gpu};
    support::sim_shareable b{sim};
    auto const stream = sim.make_stream(device_type::cuda);
    session own;
    auto const table = support::wide_table(1000).to(gpu, sim, stream);
    auto const apart = share(support::wide_table(1000), {.session = &own});
    auto const before = sim.calls(support::verb::copy);
    auto const s = share(table, {.session = &own, .copy = copy_policy::always, .ready_on = stream}, b);
    CHECK(sim.calls(support::verb::copy) - before == 1);
    CHECK(s.copied().bytes == apart.copied().bytes);
    auto const wanted = support::wide_table(1000), got = s.column().to(ferry::cpu, sim, stream);
    CHECK(support::shown(got) == support::shown(wanted));
}

TEST_CASE("a copy of a slice has no other items, on the host and on a device") {
    column const both[] = {numbers(std::vector<std::int32_t>(200, 1)), numbers(std::vector<std::int32_t>(200, 2))};
    auto const table = ferry::compact(ferry::make_struct(both));
    auto const bytes = [](ferry::ipc::shared const& s) { return s.descriptor().memories[0].length; };
    auto const whole = share(table), part = share(table.slice(0, 1));
    CHECK(bytes(whole) >= 1600);
    CHECK(bytes(part) <= 128);
    CHECK(part.copied().bytes == 8);
    support::sim_system sim{gpu};
    support::sim_shareable b{sim};
    auto const stream = sim.make_stream(device_type::cuda);
    auto const there = support::wide_table(1000).to(gpu, sim, stream);
    auto const before = sim.calls(support::verb::copy);
    auto const s = share(there.slice(1, 1), {.copy = copy_policy::always, .ready_on = stream}, b);
    CHECK(sim.calls(support::verb::copy) - before > 1);
    auto const wanted = support::wide_table(1000).slice(1, 1), got = s.column().to(ferry::cpu, sim, stream);
    CHECK(support::shown(got) == support::shown(wanted));
}

namespace {

/// A back end that shares copies within a larger allocation.
struct sim_arena : support::sim_shareable {
    using sim_shareable::sim_shareable;
    struct part {
        support::sim_memory whole;
        [[nodiscard]] void* data() const { return static_cast<std::byte*>(whole.data()) + 4096; }
    };
    [[nodiscard]] part allocate_exportable(device d, std::size_t bytes, ferry::stream_token on) const {
        return {sim_shareable::allocate_exportable(d, bytes + 8192, on)};
    }
};

}  // namespace

TEST_CASE("a copy may lie anywhere in the allocation that a back end makes for it") {
    support::sim_system sim{gpu};
    sim_arena b{sim};
    auto const stream = sim.make_stream(device_type::cuda);
    auto const x = numbers(), there = x.to(gpu, sim, stream);
    ferry::ipc::share_options const always{.copy = copy_policy::always, .ready_on = stream};
    auto const s = share(there, always, b);
    CHECK(support::shown(s.column().to(ferry::cpu, sim, stream)) == support::shown(x));
    auto const t = share(ferry::to_tensor(there, sim, stream), always, b);
    auto const back = ferry::from_tensors(t.tensor(), {}, sim, stream).to(ferry::cpu, sim, stream);
    CHECK(t.descriptor().memories[0].offset == 4096);
    CHECK(back.values<std::int32_t>()[3] == 4);
}

TEST_CASE("memory of a device without a handle is copied on the device") {
    auto const x = numbers(), y = numbers({5, 6, 7, 8});
    support::sim_system sim{gpu};
    support::sim_shareable b{sim};
    auto const stream = sim.make_stream(device_type::cuda);
    session own;
    support::sim_columns others{sim, gpu, stream};
    auto const a = others.put(x), c = others.put(y);
    column_buffer const none[] = {{}};
    ferry::column_parts const children[] = {{.format = "i", .name = "a", .length = 4, .buffers = a.view().buffers()},
                                            {.format = "i", .name = "c", .length = 4, .buffers = c.view().buffers()}};
    auto const owners = std::make_shared<std::pair<column, column>>(a, c);
    auto const table = ferry::make_column(
        {.format = "+s", .name = "t", .length = 4, .buffers = none, .children = children}, owners, gpu);
    b.pooled = c.view().buffers()[1].data;
    fails(errc::not_exportable,
          [&] { static_cast<void>(share(table, {.session = &own, .copy = copy_policy::never}, b)); },
          {"t.c: data buffer: it comes from a stream-ordered pool", "allow a copy, or share memory that has a handle"});
    auto const s = share(table, {.session = &own, .ready_on = stream}, b);
    CHECK(s.copied().bytes == 16);
    CHECK(s.copied().buffers == std::vector<std::string>{"t.c: data"});
    CHECK(sim.calls(support::verb::copy) == 1);
    CHECK(s.descriptor().memories.size() == 2);
    CHECK(s.descriptor().memories[0].ready.size() == 64);
    auto const mine = s.column();
    auto const child = mine.child("a");
    CHECK(child.view().buffers()[1].data == a.view().buffers()[1].data);
    auto const host = mine.to(ferry::cpu, sim, stream);
    CHECK(support::shown(host.view())[1] == "{02000000,06000000,}");
    CHECK(sim.races() == 0);
}

namespace {

/// The values of a table whose children are on the host, on two devices and on the host again, and null.
std::vector<column> plain_parts() {
    column_maker maker{900};
    std::vector<column> all;
    for (auto const* format : {"i", "u", "g", "vu", "i", "n"}) all.push_back(maker.make(format, 20, 2));
    return all;
}
/// The same, each on its device.
struct spread_table {
    support::sim_system sim{gpu, other_gpu};
    support::sim_shareable b{sim};
    ferry::stream_token stream = sim.make_stream(device_type::cuda);
    session own;
    support::split_columns on_host{
        ferry::cpu, [this](void const* bytes, std::size_t size, std::shared_ptr<void>& owner) {
            auto const memory =
                std::make_shared<ferry::buffer<ferry::ipc::shared_space>>(size, ferry::ipc::shared_space{own});
            std::memcpy(memory->data(), bytes, size);
            owner = memory;
            return static_cast<void*>(memory->data());
        }};
    support::sim_columns first{sim, gpu, stream}, second{sim, other_gpu, stream};
    column table;

    spread_table() {
        auto parts = plain_parts();
        column const all[] = {first.put(parts[0]),  second.put(parts[1]), on_host.put(parts[2]),
                              second.put(parts[3]), first.put(parts[4]),  parts[5]};
        table = ferry::make_struct(all, "t");
    }
};
std::vector<device> const spread_devices{gpu, other_gpu, ferry::cpu, other_gpu, gpu};

/// Whether the children of a table have these devices and the values of `plain_parts`.
bool is_spread_table(column const& t, std::vector<device> const& devices, auto& b, ferry::stream_token on) {
    auto const plain = plain_parts();
    for (std::size_t i = 0; i < devices.size(); ++i) {
        auto const child = t.child(static_cast<int>(i));
        if (child.device() != devices[i] || support::shown(child.to(ferry::cpu, b, on)) != support::shown(plain[i]))
            return false;
    }
    auto const host = t.to(ferry::cpu, b, on);
    return support::shown(host) == support::shown(ferry::make_struct(plain, "t"));
}

}  // namespace

TEST_CASE("a table with children on several devices is one descriptor, and is attached without a copy") {
    support::importer other{[&](support::line const& parent) {
        support::sim_system theirs{gpu, other_gpu};
        support::sim_shareable importer{theirs};
        auto const on = theirs.make_stream(device_type::cuda);
        auto const d = parent.receive();
        session mappings;
        if (!is_spread_table(attach_column(d, {.session = &mappings, .stream = on}, importer), spread_devices, theirs,
                             on))
            return 1;
        std::vector<device> one(5, other_gpu);
        one[2] = ferry::cpu;
        if (!is_spread_table(attach_column(d, {.stream = on, .device = other_gpu}, importer), one, theirs, on))
            return 2;
        return theirs.races();
    }};
    spread_table x;
    auto s = share(x.table, {.session = &x.own, .copy = copy_policy::never, .ready_on = x.stream}, x.b);
    CHECK_FALSE(s.copied());
    CHECK(x.sim.calls(support::verb::copy) == 0);
    CHECK(x.sim.calls(support::verb::wait) == 0);
    std::vector<std::string> first_names;
    for (auto const& m : s.descriptor().memories) {  // one control page, and one event, for each device
        bool const is_first = std::ranges::find(first_names, m.name) == first_names.end();
        if (is_first && m.type == device_type::cuda) first_names.push_back(m.name);
        CHECK(m.ready.empty() == !(is_first && m.type == device_type::cuda));
    }
    CHECK(first_names.size() == 2);
    other.talk().send(s.descriptor());
    CHECK(other.finish() == 0);
    CHECK(s.files().size() == s.descriptor().memories.size());
    CHECK(is_spread_table(s.column(), spread_devices, x.sim, x.stream));
    auto const alias = attach_column(s.descriptor(), {.session = &x.own, .stream = x.stream}, x.b);
    CHECK(is_spread_table(alias, spread_devices, x.sim, x.stream));
    CHECK(s.readers() == 0);
    s.close();
    CHECK(x.sim.races() == 0);
}

TEST_CASE("tables of all types on several devices are shared without a copy, with slices and children") {
    std::vector<std::string> formats(std::begin(column_maker::leaves), std::end(column_maker::leaves));
    formats.insert(formats.end(), std::begin(column_maker::nested), std::end(column_maker::nested));
    // The children, of which the last one has the buffers of the first, and the slice of the table.
    auto const made = [&](unsigned seed) {
        column_maker maker{seed};
        auto const rows = maker.below(30);
        std::vector<column> children;
        for (std::size_t i = 0; i < 5; ++i)
            children.push_back(maker.make(formats[(5 * seed + i) % formats.size()], rows, 3));
        children.push_back(children[0]);
        auto const begin = maker.below(rows + 1);
        return std::tuple{std::move(children), begin, maker.below(rows - begin + 1)};
    };
    constexpr unsigned first = 800'000, end = first + 60;
    support::importer other{[&](support::line const& parent) {
        support::sim_system theirs{gpu, other_gpu};
        support::sim_shareable importer{theirs};
        auto const on = theirs.make_stream(device_type::cuda);
        session mappings;
        for (auto seed = first; seed != end; ++seed) {
            auto const [children, begin, length] = made(seed);
            auto const a = attach_column(parent.receive(), {.session = &mappings, .stream = on}, importer);
            auto const expected = ferry::make_struct(children, "t").slice(begin, length);
            if (support::shown(a.to(ferry::cpu, theirs, on)) != support::shown(expected)) return 1;
            parent.tell('r');
            auto const c = attach_column(parent.receive(), {.session = &mappings, .stream = on}, importer);
            if (support::shown(c.to(ferry::cpu, theirs, on)) != support::shown(children[seed % 5])) return 2;
            parent.tell('r');
        }
        return theirs.races();
    }};
    spread_table x;  // its devices
    auto const calls = [&] { return x.sim.calls(support::verb::copy) + x.sim.calls(support::verb::wait); };
    auto const before = calls();
    for (auto seed = first; seed != end; ++seed) {
        INFO(" seed ", seed);
        auto const [children, begin, length] = made(seed);
        std::vector<column> there;
        for (std::size_t i = 0; i < 5; ++i) {
            auto const place = (seed + i * i) % 3;
            auto const& c = children[i];
            there.push_back(place == 0 ? x.on_host.put(c) : place == 1 ? x.first.put(c) : x.second.put(c));
        }
        there.push_back(there[0]);
        auto const table = ferry::make_struct(there, "t");
        for (auto const& c : {table.slice(begin, length), table.child(static_cast<int>(seed % 5))}) {
            auto const s = share(c, {.session = &x.own, .copy = copy_policy::never, .ready_on = x.stream}, x.b);
            CHECK_FALSE(s.copied());
            other.talk().send(s.descriptor());
            other.talk().hear('r');
        }
    }
    CHECK(other.finish() == 0);
    CHECK(calls() == before);
    CHECK(x.sim.races() == 0);
    x.own.collect(std::chrono::seconds{1});
    CHECK(x.own.counts().condemned == 0);
}

TEST_CASE("memory without a handle of a table on several devices is copied on its device") {
    spread_table x;
    auto const s = share(x.table, {.session = &x.own, .copy = copy_policy::always, .ready_on = x.stream}, x.b);
    CHECK(s.descriptor().memories.size() == 3);
    CHECK(is_spread_table(s.column(), spread_devices, x.sim, x.stream));
    auto const last = x.table.child(4);
    x.b.pooled = last.view().buffers()[1].data;
    auto const one = share(x.table, {.session = &x.own, .ready_on = x.stream}, x.b);
    CHECK(one.copied().buffers.size() == 1);
    CHECK(is_spread_table(one.column(), spread_devices, x.sim, x.stream));
    CHECK(x.sim.races() == 0);
}

TEST_CASE("the files of segments follow those of the memories, also of memory of the host") {
    support::sim_system sim{gpu};
    support::sim_shareable b{sim};
    auto const on = sim.make_stream(device_type::cuda);
    support::sim_columns there{sim, gpu, on};
    column const children[] = {numbers(), there.put(numbers())};
    session own{{.segments = ferry::ipc::segment_kind::anonymous}};
    auto const s = share(ferry::make_struct(children, "t"), {.session = &own, .ready_on = on}, b);
    auto d = s.descriptor();
    ++d.from.pid;  // as in another process
    std::vector<int> files(d.memories.size(), -1);
    fails(errc::permission, [&] { static_cast<void>(attach_column(d, {.stream = on, .files = files}, b)); });
    for (int const file : s.files()) files.push_back(file);
    auto const c = attach_column(d, {.stream = on, .files = files}, b);
    auto const expected = ferry::make_struct(children).to(ferry::cpu, sim, on);
    CHECK(support::shown(c.to(ferry::cpu, sim, on)) == support::shown(expected));
    CHECK(sim.races() == 0);
}

TEST_CASE("a table with a child on a device is not frozen, and its memory of the host stays writable") {
    support::sim_system sim{gpu};
    support::sim_shareable b{sim};
    auto const on = sim.make_stream(device_type::cuda);
    support::sim_columns there{sim, gpu, on};
    session own{{.segments = ferry::ipc::segment_kind::anonymous}};
    ferry::ipc::shared_space space{own};
    auto const memory = std::make_shared<ferry::buffer<ferry::ipc::shared_space>>(16, space);
    column_buffer const buffers[] = {{}, {memory->data(), 16}};
    column const children[] = {ferry::make_column({.format = "i", .length = 4, .buffers = buffers}, memory),
                               there.put(numbers())};
    auto const table = ferry::make_struct(children);
    fails(errc::argument,
          [&] { static_cast<void>(share(table, {.session = &own, .ready_on = on, .freeze = true}, b)); },
          {"memory of cuda cannot be frozen"});
    CHECK_FALSE(support::faults([&] { *static_cast<char volatile*>(static_cast<void*>(memory->data())) = 1; }));
}

TEST_CASE("errors of either side name the buffer of a table on several devices") {
    support::importer other{[&](support::line const& parent) {
        support::sim_system theirs{gpu, other_gpu};
        support::sim_shareable importer{theirs};
        importer.before_open = [n = 0]() mutable {
            if (++n == 2) throw ferry::error{errc::no_peer_access, "sim", ferry::message{"no access"}};
        };
        auto d = parent.receive();
        try {
            static_cast<void>(attach_column(d, {}, importer));
        } catch (ferry::error const& e) {
            bool const is_named = std::strstr(e.what(), "t.c: ") && std::strstr(e.what(), " buffer: no access");
            parent.tell(e.code() == errc::no_peer_access && is_named ? 'y' : 'n');
        }
        importer.before_open = {};
        auto& child = std::get<node>(d.root).children[1];  // its validity stays where it was
        child.buffers[1] = std::get<node>(d.root).children[0].buffers[1];
        try {
            static_cast<void>(attach_column(d, {}, importer));
        } catch (ferry::error const& e) {
            bool const is_named = std::strstr(e.what(), "/column/children/1/buffers/1 is on cuda:0") != nullptr;
            parent.tell(e.code() == errc::bad_descriptor && is_named ? 'y' : 'n');
        }
        return 0;
    }};
    support::sim_system sim{gpu, other_gpu};
    support::sim_shareable b{sim};
    auto const stream = sim.make_stream(device_type::cuda);
    support::sim_columns first{sim, gpu, stream}, second{sim, other_gpu, stream};
    auto const x = numbers();
    unsigned char const validity[] = {0b1101};
    column_buffer const buffers[] = {{validity, 1}, x.view().buffers()[1]};
    auto const y = ferry::make_column({.format = "i", .name = "c", .length = 4, .buffers = buffers}, x.owner());
    column const children[] = {first.put(x), second.put(y)};
    auto const table = ferry::make_struct(children, "t");
    session own;
    b.pooled = children[1].view().buffers()[0].data;
    fails(errc::not_exportable,
          [&] { static_cast<void>(share(table, {.session = &own, .copy = copy_policy::never}, b)); },
          {"t.c: validity buffer: it comes from a stream-ordered pool"});
    fails(errc::no_backend, [&] { static_cast<void>(share(table, {.session = &own})); },
          {"t.x: data buffer: the passed back end", "ferry/cuda/ipc.hpp"});
    b.pooled = nullptr;
    auto const s = share(table, {.session = &own, .ready_on = stream}, b);
    other.talk().send(s.descriptor());
    other.talk().hear('y');
    other.talk().hear('y');
    CHECK(other.finish() == 0);
}
