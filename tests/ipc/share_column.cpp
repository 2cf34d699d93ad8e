// Columns between unrelated programs, which exchange only a line of text.
#include <ferry/column.hpp>
#include <ferry/column/concat.hpp>
#include <ferry/ipc.hpp>
#include <ferry/wire/json.hpp>

#include <support/fails.hpp>
#include <support/ipc.hpp>
#include <support/ipc_peer.hpp>
#include <support/random_columns.hpp>
#include <support/split_columns.hpp>

#include <doctest/doctest.h>

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

using ferry::errc;
using support::peer;

namespace {

std::string const program = FERRY_IPC_PEER;

}  // namespace

TEST_CASE("columns of any structure are attached by an unrelated program, and the reverse") {
    for (unsigned seed = 1; seed < 9; ++seed) {
        peer exporter{{program, "column", std::to_string(seed)}}, importer{{program, "rows"}};
        auto const d = support::from_hex(exporter.hear());
        auto const c = ferry::ipc::attach_column(d);
        support::column_maker maker{seed};
        auto const original = maker.make("+s", 40, 3);
        auto const expected = support::shown(original.view());
        CHECK(support::shown(c.view()) == expected);
        importer.tell(support::to_hex(d));
        std::string said;
        for (auto const& row : expected) said.append(row).append(" ");
        CHECK(importer.hear() == said);
        CHECK(importer.finish() == 0);
        exporter.tell("");
        CHECK(exporter.finish() == 0);
        support::fails(errc::exporter_gone, [&] { static_cast<void>(ferry::ipc::attach_column(d)); });
        CHECK(support::shown(c.view()) == expected);  // its memory is valid
    }
}

TEST_CASE("a table of 1000 columns, with one allocation or one for each column, is read without a copy") {
    rlimit files{};  // an allocation of the host has a file in each process
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = std::max(files.rlim_cur, std::min<rlim_t>(files.rlim_max, 4096));
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &files) == 0);
    ferry::ipc::session session;
    auto split = support::split_into(ferry::cpu, ferry::ipc::shared_space{session}, std::memcpy);
    auto const table = support::wide_table(1000);
    std::string expected;
    for (auto const& row : support::shown(table.view())) expected.append(row).append(" ");
    for (bool const is_split : {false, true}) {
        auto const c = is_split ? split.put(table) : ferry::compact(table, ferry::ipc::shared_space{session});
        auto const s = ferry::ipc::share(c, {.session = &session, .copy = ferry::copy_policy::never});
        CHECK_FALSE(s.copied());
        CHECK(s.descriptor().memories.size() == (is_split ? 1001 : 1));  // the columns have one validity buffer
        peer importer{{program, "rows"}};
        importer.tell(support::to_hex(s.descriptor()));
        CHECK(importer.hear() == expected);
        CHECK(importer.finish() == 0);
    }
}

TEST_CASE("tables without rows are attached by an unrelated program") {
    ferry::ipc::session session;
    support::column_maker maker{81};
    for (auto const* const format : {"i", "b", "u", "vu", "w:3", "+l", "+s", "n"}) {
        CAPTURE(support::shown(format));
        auto const child = maker.make(format, 20, 2);
        for (auto const& c : {child.slice(7, 0), ferry::compact(child.slice(7, 0), ferry::ipc::shared_space{session}),
                              ferry::compact(child, ferry::ipc::shared_space{session}).slice(7, 0)}) {
            auto const table = ferry::make_struct({&c, 1}, "t");
            auto const s = ferry::ipc::share(table, {.session = &session});
            peer importer{{program, "rows"}};
            importer.tell(support::to_hex(s.descriptor()));
            CHECK(importer.hear() == "");
            CHECK(importer.finish() == 0);
            ferry::ipc::session another;
            auto const a = ferry::ipc::attach_column(s.descriptor(), {.session = &another});
            ferry::validate(a.view());
            CHECK(a.length() == 0);
            CHECK(a.child(0).format() == c.format());
        }
    }
}

TEST_CASE("the JSON of a column has its type") {
    std::int32_t const values[] = {1, 2, 3};
    ferry::column_buffer const none[] = {{}}, numbers[] = {{}, {values, sizeof values}};
    ferry::column_parts const price{.format = "i", .name = "price", .length = 3, .buffers = numbers};
    auto const c = ferry::make_column(
        {.format = "+s", .name = "orders", .length = 3, .buffers = none, .children = {&price, 1}}, nullptr);
    auto const s = ferry::ipc::share(c);
    auto const text = ferry::wire::to_json(s.descriptor());
    for (auto const* part : {"\"orders\"", "\"price\"", "\"+s\"", "\"children\"", "\"length\""})
        CHECK_MESSAGE(text.find(part) != text.npos, support::shown(part), " in ", text);
}
