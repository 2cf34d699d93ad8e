// Registries: entries, bounds, eviction, owners, and files that cannot be trusted.
#include <ferry/ipc/registry.hpp>

#include <support/fails.hpp>
#include <support/ipc.hpp>
#include <support/process.hpp>
#include <support/split_columns.hpp>
#include <support/topic.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

using support::code_of;
using support::fails;
using support::own_directory;
namespace ipc = ferry::ipc;
using ferry::errc;
using names = std::vector<std::string>;

namespace {

ipc::registry make(own_directory const& here, std::uint64_t most_bytes = ~std::uint64_t{0}) {
    return ipc::registry{"results", {.most_bytes = most_bytes, .names = here}};
}
auto find(own_directory const& here, std::string_view name, ipc::session* session = nullptr) {
    return ipc::find_tensor("results", name, {.session = session}, ferry::host_only, here);
}
auto one_slot(std::uint64_t value) {
    auto s = support::slot();
    support::fill(s, value);
    return s;
}
/// Bytes that a slot counts: those of its segment.
std::uint64_t slot_bytes() {
    auto const s = support::slot();
    return s.descriptor().memories[0].allocation + ipc::detail::page_bytes();
}

}  // namespace

TEST_CASE("registry: tensors and columns are found under their names by other sessions") {
    own_directory const here;
    auto results = make(here);
    results.put("scores/2026-11", support::wide_table(3));
    results.put("image", support::tensor({2, 3}));
    results.put("slot", one_slot(7));
    CHECK(results.size() == 3);
    CHECK(ipc::entries("results", here) == names{"image", "scores/2026-11", "slot"});
    auto const table = ipc::find_column("results", "scores/2026-11", {}, ferry::host_only, here);
    REQUIRE(table);
    CHECK(table->view().child_count() == 3);
    CHECK(support::values(*find(here, "image")) == std::vector<float>{0, 1, 2, 3, 4, 5});
    CHECK(support::is_whole(*find(here, "slot"), 7));
    CHECK_FALSE(find(here, "nothing"));
    CHECK_FALSE(ipc::find_tensor("no registry", "image", {}, ferry::host_only, here));
    CHECK(ipc::entries("no registry", here).empty());
    fails(errc::argument, [&] { static_cast<void>(find(here, "scores/2026-11")); }, {"attach_column"});
}

TEST_CASE("registry: the newest entry of a name wins, and readers keep the former") {
    own_directory const here;
    auto results = make(here);
    results.put("slot", one_slot(1));
    auto const first = find(here, "slot");
    results.put("slot", one_slot(2));
    CHECK(support::is_whole(*first, 1));
    CHECK(support::is_whole(*find(here, "slot"), 2));
    CHECK(results.size() == 1);
    CHECK(results.bytes() == slot_bytes());
    CHECK(results.drop("slot"));
    CHECK_FALSE(results.drop("slot"));
    CHECK_FALSE(find(here, "slot"));
    CHECK(results.bytes() == 0);
    CHECK(support::is_whole(*first, 1));
}

TEST_CASE("registry: beyond the bytes, entries that no process reads go, the least recently found first") {
    own_directory const here;
    auto results = make(here, 3 * slot_bytes());
    for (char const* const name : {"a", "b", "c"}) results.put(name, one_slot(1));
    auto touch = [&](char const* name, std::int64_t second) {
        timespec const times[] = {{second, 0}, {0, UTIME_OMIT}};
        REQUIRE(::utimensat(AT_FDCWD, (here.path() + "/results.names/" + name).c_str(), times, 0) == 0);
    };
    touch("a", 1), touch("b", 2), touch("c", 3);
    auto const read = find(here, "a");  // the least recently found no more, and read
    touch("a", 1);
    results.put("d", one_slot(4));
    CHECK(ipc::entries("results", here) == names{"a", "c", "d"});
    CHECK(results.bytes() == 3 * slot_bytes());
    auto const other = find(here, "c"), third = find(here, "d");
    fails(errc::busy, [&] { results.put("e", one_slot(5)); }, {"most_bytes"});
    CHECK(ipc::entries("results", here) == names{"a", "c", "d"});
    results.put("c", one_slot(6));  // replaced: nothing else has to go
    CHECK(ipc::entries("results", here) == names{"a", "c", "d"});
    fails(errc::argument, [&] { results.put("wide", support::tensor({1 << 20})); }, {"wide", "raise the one"});
    CHECK(results.size() == 3);
}

TEST_CASE("registry: beyond the allocations, of which each has a file descriptor, entries go as well") {
    own_directory const here;
    ipc::registry results{"results", {.names = here, .most_allocations = 3}};
    auto const files = support::open_files();
    for (int i = 0; i < 20; ++i) results.put("slot" + std::to_string(i), one_slot(1));
    CHECK(results.size() == 3);
    CHECK(support::open_files() == files + 3);
    auto const listed = ipc::entries("results", here);
    std::vector<std::optional<ferry::managed_tensor>> read;
    for (auto const& name : listed) read.push_back(find(here, name));
    fails(errc::busy, [&] { results.put("more", one_slot(1)); }, {"most_allocations"});
    results.put(listed[0], one_slot(2));  // replaced: nothing else has to go
    CHECK(results.size() == 3);
    ipc::registry none{"none", {.names = here, .most_allocations = 0}};
    fails(errc::argument, [&] { none.put("slot", one_slot(1)); }, {"most_allocations", "raise"});
}

TEST_CASE("registry: one process owns a registry, and the next removes the entries of a killed one") {
    own_directory const here;
    {
        auto results = make(here);
        results.put("slot", one_slot(1));
        fails(errc::busy, [&] { make(here); }, {"results.names", "another name"});
    }
    CHECK(ipc::entries("results", here).empty());
    support::process owner{[&](support::talk const& t) {
        auto results = make(here);
        results.put("slot", one_slot(1));
        t.say();
        return static_cast<int>(t.hear());
    }};
    CHECK(owner.hear() == '.');
    CHECK(support::is_whole(*find(here, "slot"), 1));
    owner.kill(SIGKILL);
    CHECK(owner.wait() == -SIGKILL);
    CHECK_FALSE(find(here, "slot"));
    CHECK(ipc::entries("results", here).empty());
    auto results = make(here);
    CHECK(ipc::entries("results", here).empty());
}

TEST_CASE("registry: a forked child cannot change it") {
    own_directory const here;
    auto results = make(here);
    results.put("slot", one_slot(1));
    support::process child{[&](support::talk const&) {
        bool const is_refused = code_of([&] { results.put("slot", one_slot(2)); }) == errc::argument &&
                                code_of([&] { results.drop("slot"); }) == errc::argument;
        std::destroy_at(&results);
        return is_refused ? 0 : 1;
    }};
    CHECK(child.wait() == 0);
    CHECK(support::is_whole(*find(here, "slot"), 1));
}

TEST_CASE("registry: memory that needs files, closed shares and bad names are refused") {
    own_directory const here;
    auto results = make(here);
    ipc::session s{{.segments = ipc::segment_kind::anonymous}};
    fails(errc::argument, [&] { results.put("slot", support::slot(&s)); }, {"named segments"});
    fails(errc::argument, [&] { results.put("slot", ipc::shared{}); });
    fails(errc::argument, [&] { results.put(".slot", one_slot(1)); });
    auto kept = one_slot(1);
    fails(errc::argument, [&] { results.put("", std::move(kept)); });
    CHECK(kept.is_open());
    CHECK(results.size() == 0);
}

TEST_CASE("registry: damaged and foreign files are errors") {
    own_directory const here;
    auto results = make(here);
    results.put("slot", one_slot(1));
    auto const folder = here.path() + "/results.names";
    REQUIRE(::truncate((folder + "/slot").c_str(), 40) == 0);
    fails(errc::bad_descriptor, [&] { static_cast<void>(find(here, "slot")); },
          {"slot", "call put() for the entry again"});
    REQUIRE(::truncate((folder + "/slot").c_str(), 3) == 0);
    fails(errc::bad_descriptor, [&] { static_cast<void>(find(here, "slot")); });
    REQUIRE(::symlink("/etc/passwd", (folder + "/link").c_str()) == 0);
    REQUIRE(::mkfifo((folder + "/pipe").c_str(), 0600) == 0);
    fails(errc::permission, [&] { static_cast<void>(find(here, "link")); });
    fails(errc::permission, [&] { static_cast<void>(find(here, "pipe")); });
    REQUIRE(::chmod(folder.c_str(), 0711) == 0);
    fails(errc::permission, [&] { ipc::registry{"open", {.names = {.directory = folder}}}; }, {"mode 0700"});
}
