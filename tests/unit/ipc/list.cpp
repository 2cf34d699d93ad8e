// Lists of tensors and columns as one descriptor: one mapping for each segment, order, access, devices and failures.
#include <ferry/column.hpp>
#include <ferry/ipc.hpp>
#include <ferry/ipc/publisher.hpp>
#include <ferry/ipc/subscriber.hpp>

#include <support/allocation_failure.hpp>
#include <support/fails.hpp>
#include <support/importer.hpp>
#include <support/ipc.hpp>
#include <support/patience.hpp>
#include <support/random_columns.hpp>
#include <support/sim_column.hpp>
#include <support/sim_ipc.hpp>
#include <support/topic.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

using ferry::column;
using ferry::copy_policy;
using ferry::device;
using ferry::device_type;
using ferry::errc;
using ferry::flags;
using ferry::managed_tensor;
using ferry::ipc::attach;
using ferry::ipc::attach_column;
using ferry::ipc::attach_list;
using ferry::ipc::item;
using ferry::ipc::session;
using ferry::ipc::share;
using support::fails;
using support::read_on;
using support::written;

namespace {

device const gpu{device_type::cuda, 0}, other_gpu{device_type::cuda, 1};

template <class... Items>
std::vector<item> list_of(Items... items) {
    std::vector<item> all;
    (all.emplace_back(std::move(items)), ...);
    return all;
}
managed_tensor const& tensor_at(std::vector<item> const& all, std::size_t i) {
    return std::get<managed_tensor>(all[i]);
}
column const& column_at(std::vector<item> const& all, std::size_t i) { return std::get<column>(all[i]); }

column numbers(std::vector<std::int32_t> values) {
    return support::int32s(std::move(values), {.format = "i", .name = "x"});
}

/// Bytes of a type, of which byte `k` of weight `i` is i + k.
managed_tensor weight(std::size_t i) {
    struct owner {
        std::vector<unsigned char> bytes;
        std::int64_t shape[1];
    };
    constexpr ferry::data_type types[] = {ferry::dtype_of<float>,
                                          ferry::dtype_of<std::uint8_t>,
                                          ferry::dtype_of<std::int64_t>,
                                          {ferry::type_code::bfloat, 16}};
    auto const type = types[i % 4];
    auto const length = static_cast<std::int64_t>(3 * i + 1);
    owner o{std::vector<unsigned char>(static_cast<std::size_t>(length) * type.bits / 8), {length}};
    for (std::size_t k = 0; k < o.bytes.size(); ++k) o.bytes[k] = static_cast<unsigned char>(i + k);
    return ferry::make_managed(std::move(o), [type](owner& x) {
        return ferry::tensor_view{static_cast<void*>(x.bytes.data()), type, {x.shape}};
    });
}
bool is_weight(managed_tensor const& t, std::size_t i) {
    auto const expected = weight(i);
    return t.view().dtype() == expected.view().dtype() && t.view().size() == expected.view().size() &&
           std::memcmp(t.view().data(), expected.view().data(), static_cast<std::size_t>(t.view().nbytes())) == 0;
}

/// A tensor of floats in an allocation of the session.
managed_tensor placed(session& own, flags bits, std::int64_t first, std::int64_t count,
                      std::shared_ptr<ferry::buffer<ferry::ipc::shared_space>> memory = {}) {
    if (memory == nullptr)
        memory = std::make_shared<ferry::buffer<ferry::ipc::shared_space>>(4096, ferry::ipc::shared_space{own});
    struct owner {
        std::shared_ptr<ferry::buffer<ferry::ipc::shared_space>> memory;
        std::int64_t first, shape[1];
    };
    return ferry::make_managed(
        owner{std::move(memory), first, {count}},
        [](owner& o) {
            return ferry::tensor_view{static_cast<float*>(static_cast<void*>(o.memory->data())) + o.first, {o.shape}};
        },
        bits);
}

}  // namespace

TEST_CASE("200 tensors of mixed types are one descriptor, one segment and one mapping") {
    support::importer other{[&](support::line const& parent) {
        session mappings;
        auto all = attach_list(parent.receive(), {.session = &mappings});
        if (all.size() != 200 || support::mapped_segments() != 1 || mappings.counts().mappings != 1) return 1;
        for (std::size_t i = 0; i < all.size(); ++i)
            if (!is_weight(tensor_at(all, i), i) || tensor_at(all, i).is_read_only()) return 2;
        *static_cast<unsigned char*>(const_cast<void*>(tensor_at(all, 7).view().data())) = 99;  // the exporter sees it
        parent.tell('a');
        parent.hear('d');
        all.erase(all.begin() + 1, all.end());
        parent.tell('1');
        parent.hear('d');
        all.clear();
        parent.tell('0');
        parent.hear('q');
        return 0;
    }};
    std::vector<item> weights;
    for (std::size_t i = 0; i < 200; ++i) weights.emplace_back(weight(i));
    session own;
    auto const s = share(std::move(weights), {.session = &own});
    CHECK(s.descriptor().memories.size() == 1);
    CHECK(s.copied().buffers.size() == 200);
    CHECK(s.copied().buffers[7] == "item 7");
    auto const line = other.talk();
    line.send(s.descriptor());
    line.hear('a');
    CHECK(s.readers() == 1);
    auto const mine = attach_list(s.descriptor(), {.session = &own});  // aliases
    CHECK(*static_cast<unsigned char const*>(tensor_at(mine, 7).view().data()) == 99);
    CHECK(is_weight(tensor_at(mine, 8), 8));
    line.tell('d');
    line.hear('1');
    CHECK(s.readers() == 1);  // the last item counts
    line.tell('d');
    line.hear('0');
    CHECK(s.readers() == 0);
    line.tell('q');
    CHECK(other.finish() == 0);
}

TEST_CASE("a list keeps its order, layouts and access; read-only items are mapped without write access") {
    support::column_maker maker{77};
    auto const table = maker.make("+s", 20, 2);
    auto const s = share(list_of(table, support::tensor({2, 3}), support::tensor({3}, flags::read_only),
                                 support::restrided(support::tensor({4}), 3, {4}, {-1}), support::tensor({0, 3}),
                                 support::restrided(support::tensor({2}), 0, {3, 2}, {0, 1}), numbers({5, 6})));
    CHECK(s.descriptor().memories.size() == 2);  // written, and not
    CHECK_FALSE(s.holds_column());
    fails(errc::argument, [&] { static_cast<void>(s.column()); }, {"no column"});
    auto const all = attach_list(s.descriptor());
    REQUIRE(all.size() == 7);
    CHECK(support::shown(column_at(all, 0).view()) == support::shown(table.view()));
    CHECK(support::values(tensor_at(all, 1)) == std::vector<float>{0, 1, 2, 3, 4, 5});
    CHECK(support::values(tensor_at(all, 2)) == std::vector<float>{0, 1, 2});
    CHECK(tensor_at(all, 2).is_read_only());
    CHECK(support::values(tensor_at(all, 3)) == std::vector<float>{3, 2, 1, 0});
    CHECK(tensor_at(all, 4).view().shape()[1] == 3);
    CHECK(support::values(tensor_at(all, 5)) == std::vector<float>{0, 1, 0, 1, 0, 1});
    CHECK(tensor_at(all, 5).view().stride(0) == 0);
    CHECK(support::shown(column_at(all, 6).view()) == std::vector<std::string>{"05000000", "06000000"});
    auto const write = [](void const* at) { *static_cast<char volatile*>(const_cast<void*>(at)) = 0; };
    CHECK(support::faults([&] { write(tensor_at(all, 2).view().data()); }));
    CHECK(support::faults([&] { write(column_at(all, 6).view().buffers()[1].data); }));
    CHECK_FALSE(support::faults([&] { write(tensor_at(all, 1).view().data()); }));
}

TEST_CASE("items in memory that is shared already are not copied, and memory of several items is mapped once") {
    session own;
    auto const memory = std::make_shared<ferry::buffer<ferry::ipc::shared_space>>(4096, ferry::ipc::shared_space{own});
    for (int i = 0; i < 16; ++i) static_cast<float*>(static_cast<void*>(memory->data()))[i] = static_cast<float>(i);
    auto const s = share(list_of(placed(own, flags::read_only, 1, 2, memory), placed(own, flags::none, 4, 2, memory),
                                 placed(own, flags::read_only, 0, 3)),
                         {.session = &own, .copy = copy_policy::never});
    CHECK_FALSE(s.copied());
    CHECK(s.descriptor().memories.size() == 2);
    auto const all = attach_list(s.descriptor());
    CHECK(support::values(tensor_at(all, 0)) == std::vector<float>{1, 2});
    CHECK(tensor_at(all, 0).is_read_only());
    CHECK(support::values(tensor_at(all, 1)) == std::vector<float>{4, 5});
    CHECK_FALSE(tensor_at(all, 1).is_read_only());  // although a read-only tensor in its memory comes before it
    *static_cast<float*>(const_cast<void*>(tensor_at(all, 1).view().data())) = 40;
    CHECK(static_cast<float const*>(static_cast<void const*>(memory->data()))[4] == 40);
    CHECK(support::faults(
        [&] { *static_cast<float volatile*>(const_cast<void*>(tensor_at(all, 2).view().data())) = 1; }));
}

TEST_CASE("memory of a read-only attach is shared read-only again, whatever tensors in it say") {
    session own, mappings;
    auto const s = share(support::tensor({8}, flags::read_only), {.session = &own});
    auto const t = attach(s.descriptor(), {.session = &mappings});
    auto const view = [&](std::int64_t first) {
        struct owner {
            managed_tensor base;
            std::int64_t first, shape[1];
        };
        return ferry::make_managed(owner{attach(s.descriptor(), {.session = &mappings}), first, {2}}, [](owner& o) {
            return ferry::tensor_view{static_cast<float*>(const_cast<void*>(o.base.view().data())) + o.first,
                                      {o.shape}};
        });
    };
    auto const again = share(list_of(view(0), view(2)), {.session = &mappings, .copy = copy_policy::never});
    auto const all = attach_list(again.descriptor());
    CHECK(tensor_at(all, 0).is_read_only());
    CHECK(tensor_at(all, 1).is_read_only());
    CHECK(support::values(tensor_at(all, 1)) == std::vector<float>{2, 3});
}

TEST_CASE("each item is attached on its device: the host and two GPUs in one descriptor") {
    for (auto const policy : {copy_policy::if_needed, copy_policy::always}) {
        support::importer other{[&](support::line const& parent) {
            support::sim_system theirs{gpu, other_gpu};
            support::sim_shareable importer{theirs};
            auto const on = theirs.make_stream(device_type::cuda);
            session mappings;
            auto const all = attach_list(parent.receive(), {.session = &mappings, .stream = on}, importer);
            if (all.size() != 6) return 1;
            if (tensor_at(all, 0).device() != gpu ||
                read_on(importer, tensor_at(all, 0), on) != std::vector<float>{1, 2})
                return 2;
            if (tensor_at(all, 1).device() != ferry::cpu || support::values(tensor_at(all, 1)).size() != 5) return 3;
            if (column_at(all, 2).device() != other_gpu ||
                support::shown(column_at(all, 2).to(ferry::cpu, importer, on)) !=
                    std::vector<std::string>{"07000000", "08000000", "09000000"})
                return 4;
            if (tensor_at(all, 3).device() != other_gpu ||
                read_on(importer, tensor_at(all, 3), on) != std::vector<float>{3})
                return 5;
            if (tensor_at(all, 4).device() != gpu ||
                read_on(importer, tensor_at(all, 4), on) != std::vector<float>{4, 5, 6})
                return 6;
            if (tensor_at(all, 5).device() != gpu || tensor_at(all, 5).view().size() != 0) return 7;
            return theirs.races() == 0 ? 0 : 8;
        }};
        support::sim_system sim{gpu, other_gpu};
        support::sim_shareable b{sim};
        auto const on = sim.make_stream(device_type::cuda);
        support::sim_columns there{sim, other_gpu, on};
        session own;
        auto const s =
            share(list_of(written(sim, on, {1, 2}), placed(own, flags::none, 0, 5), there.put(numbers({7, 8, 9})),
                          written(sim, on, {3}, other_gpu), written(sim, on, {4, 5, 6}), written(sim, on, {})),
                  {.session = &own, .copy = policy, .ready_on = on}, b);
        std::vector<std::string> names;  // one control page for each device, the host and the empty tensor
        for (auto const& m : s.descriptor().memories) names.push_back(m.name);
        std::ranges::sort(names);
        auto const control_pages = std::unique(names.begin(), names.end()) - names.begin();
        CHECK(control_pages == 4);
        if (policy == copy_policy::if_needed) CHECK(sim.calls(support::verb::copy) == 0);
        other.talk().send(s.descriptor());
        CHECK(other.finish() == 0);
        auto const aliases = attach_list(s.descriptor(), {.session = &own, .stream = on}, b);
        CHECK(read_on(b, tensor_at(aliases, 4), on) == std::vector<float>{4, 5, 6});
        CHECK_FALSE(tensor_at(aliases, 3).is_read_only());  // although a column is in memory of its device
        CHECK(sim.races() == 0);
    }
}

TEST_CASE("a list without items, and descriptors of one tensor or column, are lists") {
    auto const none = share(std::vector<item>{});
    CHECK(attach_list(none.descriptor()).empty());
    auto const t = share(support::tensor({3}));
    auto const of_tensor = attach_list(t.descriptor());
    REQUIRE(of_tensor.size() == 1);
    CHECK(support::values(tensor_at(of_tensor, 0)) == std::vector<float>{0, 1, 2});
    auto const c = share(numbers({1}));
    CHECK(column_at(attach_list(c.descriptor()), 0).length() == 1);
    auto const l = share(list_of(support::tensor({3})));
    fails(errc::argument, [&] { static_cast<void>(attach(l.descriptor())); }, {"attach_list"});
    fails(errc::argument, [&] { static_cast<void>(attach_column(l.descriptor())); }, {"attach_list"});
}

TEST_CASE("a list that is refused is unchanged, and leaves nothing; errors name the item") {
    auto const gone = [] {
        auto t = support::tensor({3});
        static_cast<void>(managed_tensor{std::move(t)});
        return t;
    };
    support::sim_system sim{gpu};  // outlives the items
    auto items = list_of(support::tensor({2}), gone());
    fails(errc::consumed, [&] { static_cast<void>(share(std::move(items))); }, {"item 1"});
    items = list_of(support::tensor({2}), numbers({1}), support::tensor({2}));
    fails(errc::copy_needed, [&] { static_cast<void>(share(std::move(items), {.copy = copy_policy::never})); },
          {"item 0: it is not in shared memory"});
    REQUIRE(items.size() == 3);
    CHECK(support::values(tensor_at(items, 2)) == std::vector<float>{0, 1});
    CHECK(support::segments(getpid()).empty());

    auto memory = sim.make_memory(gpu, 64);
    std::int64_t const shape[] = {2};
    items.emplace_back(ferry::make_managed(std::make_shared<support::sim_memory>(std::move(memory)), [&](auto& m) {
        return ferry::tensor_view{m->data(), ferry::dtype_of<float>, {shape}, {}, gpu};
    }));
    fails(errc::no_backend, [&] { static_cast<void>(share(std::move(items))); }, {"item 3", "ferry/cuda/ipc.hpp"});
    CHECK(items.size() == 4);
    CHECK(support::segments(getpid()).empty());
}

TEST_CASE("an allocation that fails while a list is shared or attached leaves nothing behind") {
    int const failures = support::for_each_failing_allocation([&](int) {
        auto items = list_of(support::tensor({2}), numbers({1, 2}), support::tensor({3}, flags::read_only));
        auto const s = share(std::move(items));
        static_cast<void>(attach_list(s.descriptor()));
    });
    CHECK(failures > 20);
    CHECK(support::segments(getpid()).empty());
}

TEST_CASE("forged descriptors of lists are refused, and errors of attaches name the item") {
    auto const s = share(list_of(support::tensor({4}), numbers({1, 2})));
    auto const forged = [&](auto change) {
        auto d = s.descriptor();
        change(d, std::get<ferry::wire::list>(d.root));
        static_cast<void>(attach_list(d));
    };
    using d_t = ferry::wire::descriptor;
    using l_t = ferry::wire::list;
    fails(errc::bad_descriptor, [&] { forged([](d_t&, l_t& l) { std::get<0>(l[0]).byte_offset = 1; }); },
          {"/list/0/tensor"});
    fails(errc::bad_descriptor, [&] { forged([](d_t&, l_t& l) { std::get<0>(l[0]).memory = 9; }); },
          {"/list/0/tensor/memory"});
    fails(errc::bad_descriptor, [&] { forged([](d_t&, l_t& l) { std::get<1>(l[1]).buffers[1].length = 1 << 20; }); },
          {"/list/1/column/buffers/1"});
    fails(errc::bad_column, [&] { forged([](d_t&, l_t& l) { std::get<1>(l[1]).length = 1000; }); }, {"x: data"});
    fails(errc::bad_descriptor, [&] { forged([](d_t& d, l_t& l) { d.memories.clear(), l.clear(); }); }, {"no memory"});
    fails(errc::exporter_gone, [&] { forged([](d_t& d, l_t&) { d.memories[1].name.back() ^= 1; }); }, {"item 0: "});
    fails(errc::exporter_gone, [&] { forged([](d_t& d, l_t&) { d.memories[0].name.back() ^= 1; }); },
          {"x: data buffer"});
    // Without its flag, a tensor in sealed or read-only memory is no way to write it: the segment decides.
    auto const sealed = [] {
        session own{{.segments = ferry::ipc::segment_kind::anonymous}};
        return share(list_of(support::tensor({4}, flags::read_only)), {.session = &own});
    }();
    auto d = sealed.descriptor();
    std::get<0>(std::get<l_t>(d.root)[0]).flags = flags::none;
    ++d.from.pid;
    auto const files = sealed.files();
    fails(errc::permission, [&] { static_cast<void>(attach_list(d, {.files = files})); });
}

TEST_CASE("a frozen list cannot be written by any process") {
    session own{{.segments = ferry::ipc::segment_kind::anonymous}},
        other{{.segments = ferry::ipc::segment_kind::anonymous}};
    auto const s = share(list_of(support::tensor({4}), numbers({1, 2})), {.session = &own, .freeze = true});
    CHECK(s.descriptor().memories.size() == 1);
    auto const files = s.files();
    auto const all = attach_list(s.descriptor(), {.session = &other, .files = files});
    CHECK(tensor_at(all, 0).is_read_only());
    CHECK(other.sealed(tensor_at(all, 0).view()));
    CHECK(other.sealed(column_at(all, 1).view()));
}

TEST_CASE("a subscriber that asks for the other kind of a slot that it knows gets an error") {
    support::own_directory const here;
    ferry::ipc::publisher to{"t", support::slots(2), here};
    ferry::ipc::subscriber from{"t", here};
    for (int i = 0; i < 2; ++i) {  // both slots are known as tensors
        support::publish(to);
        CHECK(from.next(support::patience));
    }
    support::publish(to);
    fails(errc::argument, [&] { static_cast<void>(from.next_column(support::patience)); }, {"not that of a column"});

    std::vector<ferry::ipc::shared> two;
    for (int i = 0; i < 2; ++i) two.push_back(share(numbers({i})));
    ferry::ipc::publisher columns{"c", std::move(two), here};
    ferry::ipc::subscriber reader{"c", here};
    auto const publish_column = [&] { columns.publish(*columns.begin(support::patience)); };
    for (int i = 0; i < 2; ++i) {
        publish_column();
        CHECK(reader.next_column(support::patience));
    }
    publish_column();
    fails(errc::argument, [&] { static_cast<void>(reader.next(support::patience)); }, {"not that of a tensor"});
}
