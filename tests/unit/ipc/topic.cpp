// Publishers and subscribers of topics: frames, names, directories, and files that cannot be trusted.
#include <ferry/ipc/publisher.hpp>
#include <ferry/ipc/subscriber.hpp>
#include <ferry/wire/json.hpp>

#include <support/fails.hpp>
#include <support/ipc.hpp>
#include <support/process.hpp>
#include <support/split_columns.hpp>
#include <support/skip.hpp>
#include <support/topic.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using support::fails;
using support::patience;
namespace ipc = ferry::ipc;
using ferry::errc;

namespace {

using support::code_of;
using support::fill;
using support::is_whole;
using support::own_directory;
using support::publish;
using support::slots;

/// A process that publishes one frame of `camera`, says so, and ends when it hears something.
support::process publish_once(own_directory const& here) {
    return support::process{[&](support::talk const& t) {
        ipc::publisher camera{"camera", slots(2), here};
        publish(camera);
        t.say();
        return static_cast<int>(t.hear());
    }};
}

}  // namespace

TEST_CASE("topic: a subscriber gets the newest frame once, and misses those before it") {
    own_directory const here;
    ipc::publisher camera{"rig/left", slots(3), here};
    ipc::subscriber left{"rig/left", here};
    CHECK_FALSE(left.next(0ms));
    CHECK(publish(camera) == 1);
    {
        auto const first = left.next(patience);
        REQUIRE(first);
        CHECK(first->generation == 1);
        CHECK(is_whole(first->value, 1));
        CHECK(first->value.view().is_read_only() == false);
    }
    CHECK_FALSE(left.next(0ms));
    publish(camera), publish(camera);
    auto const third = left.next(patience);
    REQUIRE(third);
    CHECK(third->generation == 3);
    CHECK(is_whole(third->value, 3));
}

TEST_CASE("topic: a slot is not written while a subscriber has its frame, and the newest never") {
    own_directory const here;
    ipc::publisher camera{"camera", slots(3), here};
    ipc::subscriber one{"camera", here}, other{"camera", here};
    publish(camera);
    auto first = one.next(patience);
    publish(camera);
    auto second = other.next(patience);
    publish(camera);
    REQUIRE(first);
    REQUIRE(second);
    CHECK_FALSE(camera.begin(0ms));
    CHECK_FALSE(camera.begin(5ms));
    CHECK(is_whole(first->value, 1));
    CHECK(is_whole(second->value, 2));
    first.reset();
    auto const slot = camera.begin(0ms);
    REQUIRE(slot);
    CHECK_FALSE(one.next(0ms)->generation == 1);
}

TEST_CASE("topic: a slot whose frame is read gets new memory, and its subscriber keeps the former") {
    own_directory const here;
    ipc::publisher camera{"camera", slots(2), here};
    ipc::subscriber left{"camera", here};
    publish(camera);
    auto const first = left.next(patience);
    publish(camera);
    REQUIRE_FALSE(camera.begin());
    unsigned const taken = camera[0].readers() != 0 ? 0 : 1;
    fails(errc::argument, [&] { camera.replace(1 - taken, support::slot()); }, {"newest"});
    fails(errc::argument, [&] { camera.replace(2, support::slot()); });
    fails(errc::argument, [&] { camera.replace(taken, ipc::shared{}); }, {"ferry::ipc::share"});
    camera.replace(taken, support::slot());
    fill(camera[taken], 3);
    CHECK(camera.publish(taken) == 3);
    CHECK(is_whole(first->value, 1));
    CHECK(is_whole(left.next(patience)->value, 3));
}

TEST_CASE("topic: only a slot that is being written is published") {
    own_directory const here;
    ipc::publisher camera{"camera", slots(2), here};
    fails(errc::argument, [&] { camera.publish(0); }, {"slot 0", "begin"});
    fails(errc::argument, [&] { camera.publish(7); }, {"slot 7"});
    auto const slot = camera.begin();
    REQUIRE(slot);
    camera.publish(*slot);
    fails(errc::argument, [&] { camera.publish(*slot); });
}

TEST_CASE("topic: one publisher has a name until it ends, and the next continues its generations") {
    own_directory const here;
    ipc::subscriber left{"camera", here};
    {
        ipc::publisher camera{"camera", slots(2), here};
        auto mine = slots(2);
        fails(errc::busy, [&] { ipc::publisher{"camera", std::move(mine), here}; }, {"camera", "another name"});
        CHECK(mine.size() == 2);
        CHECK(mine[0].is_open());
        publish(camera), publish(camera);
        CHECK(left.next(patience)->generation == 2);
        CHECK(left.has_publisher());
    }
    CHECK_FALSE(left.has_publisher());
    CHECK_FALSE(left.next(0ms));
    ipc::publisher next{"camera", slots(3), here};
    CHECK_FALSE(left.next(0ms));
    CHECK(publish(next) == 3);
    auto const third = left.next(patience);
    REQUIRE(third);
    CHECK(is_whole(third->value, 3));
    next.withdraw();
    ipc::publisher fresh{"other", slots(2), here};
    CHECK(ipc::topics(here) == std::vector<std::string>{"other"});
}

TEST_CASE("topic: after withdraw the name begins again with generation 1, and subscribers follow") {
    own_directory const here;
    ipc::subscriber left{"camera", here};
    {
        ipc::publisher camera{"camera", slots(2), here};
        publish(camera), publish(camera);
        CHECK(left.next(patience)->generation == 2);
        camera.withdraw();
    }
    ipc::publisher next{"camera", slots(2), here};
    CHECK(publish(next) == 1);
    CHECK(left.next(patience)->generation == 1);
}

TEST_CASE("topic: a publisher that has withdrawn its name continues in its file, which cannot grow") {
    own_directory const here;
    ipc::publisher camera{"camera", slots(2), here};
    ipc::subscriber left{"camera", here};
    publish(camera);
    CHECK(left.next(patience));
    unsigned const slot = *camera.begin();
    camera.replace(slot, ipc::share(support::wide_table(100)));
    camera.withdraw();
    fails(errc::argument, [&] { camera.publish(slot); }, {"has no name"});
    fails(errc::argument, [&] { camera.replace(slot, ipc::share(support::wide_table(100))); });
    camera.replace(slot, support::slot());
    fill(camera[slot], 2);
    CHECK(camera.publish(slot) == 2);
    CHECK(is_whole(left.next(patience)->value, 2));
    CHECK(ipc::topics(here).empty());
}

TEST_CASE("topic: a file beyond the limit of the size of files is an error") {
    own_directory const here;
    auto mine = slots(2);
    ipc::topic_options how = here;
    how.text = [](ferry::wire::descriptor const&) { return std::string(1 << 20, ' '); };
    support::process other{[&](support::talk const&) {
        rlimit const small = {1 << 20, 1 << 20};
        if (::setrlimit(RLIMIT_FSIZE, &small) != 0) return 1;
        bool const is_told = code_of([&] { ipc::publisher{"camera", std::move(mine), how}; }) == errc::out_of_memory;
        return is_told ? 0 : 2;
    }};
    CHECK(other.wait() == 0);
}

TEST_CASE("topic: a subscriber waits for the first publisher, and for the one after a killed one") {
    own_directory const here;
    support::process reader{[&](support::talk const& t) {
        ipc::subscriber left{"camera", here};
        t.say();
        for (std::uint64_t n = 1; n <= 2; ++n) {
            auto const f = left.next(patience);
            if (!f || f->generation != n || !is_whole(f->value, n)) return 1;
            t.say();
        }
        return 0;
    }};
    CHECK(reader.hear() == '.');
    {
        support::process first = publish_once(here);
        CHECK(first.hear() == '.');
        CHECK(reader.hear() == '.');
        first.kill(SIGKILL);
        CHECK(first.wait() == -SIGKILL);
    }
    ipc::publisher camera{"camera", slots(2), here};
    CHECK(publish(camera) == 2);
    CHECK(reader.wait() == 0);
}

TEST_CASE("topic: a subscriber sleeps while the newest frame is that of a killed publisher") {
    own_directory const here;
    support::process first = publish_once(here);
    CHECK(first.hear() == '.');
    first.kill(SIGKILL);
    CHECK(first.wait() == -SIGKILL);
    ipc::subscriber left{"camera", here};
    auto const begin = std::clock();
    CHECK_FALSE(left.next(500ms));
    CHECK(std::clock() - begin < CLOCKS_PER_SEC / 50);
}

TEST_CASE("topic: a publisher belongs to the process that made it, not to forked children") {
    own_directory const here;
    ipc::publisher camera{"camera", slots(2), here};
    publish(camera);
    support::process child{[&](support::talk const&) {
        bool const is_refused = code_of([&] { static_cast<void>(camera.begin()); }) == errc::argument &&
                                code_of([&] { camera.publish(0); }) == errc::argument;
        camera.withdraw();
        std::destroy_at(&camera);
        return is_refused ? 0 : 1;
    }};
    CHECK(child.wait() == 0);
    ipc::subscriber left{"camera", here};
    CHECK(left.next(patience)->generation == 1);
    CHECK(publish(camera) == 2);
}

TEST_CASE("topic: descriptors of any size are published, and a larger one makes the file grow") {
    own_directory const here;
    ipc::publisher camera{"camera", slots(2), here};
    ipc::subscriber left{"camera", here};
    publish(camera);
    CHECK(left.next(patience)->generation == 1);
    auto const slot = camera.begin();
    camera.replace(*slot, ipc::share(support::wide_table(1000)));
    CHECK(camera.publish(*slot) == 2);
    auto const table = left.next_column(patience);
    REQUIRE(table);
    CHECK(table->value.view().child_count() == 1000);
    CHECK(table->generation == 2);
    CHECK(publish(camera) == 3);
    CHECK(is_whole(left.next(patience)->value, 3));
}

TEST_CASE("topic: names of topics") {
    own_directory const here;
    std::pair<std::string, char const*> const refused[] = {
        {"", "the name has 0 bytes: pass 1 to 200 bytes"}, {std::string(201, 'a'), "the name has 201 bytes: "},
        {".hidden", "the name has a dot in front: "},      {"a!b", "the name has a `!`, "},
        {"line\n", "the name has a control character: "},  {"\x7f", "the name has a control character: "}};
    for (auto const& [bad, why] : refused) {
        CAPTURE(bad);
        fails(errc::argument, [&] { ipc::subscriber{bad, here}; }, {why});
        if (!bad.empty()) fails(errc::argument, [&] { ipc::publisher(bad, slots(2), here); }, {why});
    }
    ipc::publisher a{std::string(200, 'a'), slots(2), here}, b{"rig/left", slots(2), here},
        c{"a/../up", slots(2), here};
    CHECK(ipc::topics(here) == std::vector<std::string>{"a/../up", std::string(200, 'a'), "rig/left"});
    fails(errc::argument, [&] { ipc::publisher("one", slots(1), here); }, {"expected 2 to 252 slots, got 1"});
    fails(errc::argument, [&] { ipc::publisher("many", slots(253), here); }, {"got 253"});
}

TEST_CASE("topic: the directory is this user's alone") {
    own_directory const here;
    auto const at = [&](char const* name) { return here.path() + "/" + name; };
    auto const is_refused = [&](std::string const& path) {
        CAPTURE(path);
        fails(errc::permission, [&] { ipc::subscriber("camera", ipc::topic_options{.directory = path}); },
              {path.c_str(), "mode 0700", "topic_options::directory"});
        fails(errc::permission, [&] { ipc::publisher("camera", slots(2), {.directory = path}); });
        fails(errc::permission, [&] { static_cast<void>(ipc::topics({.directory = path})); });
    };
    REQUIRE(::mkdir(at("open").c_str(), 0700) == 0);
    REQUIRE(::chmod(at("open").c_str(), 0750) == 0);
    is_refused(at("open"));
    REQUIRE(::symlink(here.path().c_str(), at("link").c_str()) == 0);
    is_refused(at("link"));
    REQUIRE(::close(::open(at("file").c_str(), O_CREAT | O_WRONLY, 0600)) == 0);
    is_refused(at("file"));
    REQUIRE(::mkdir(at("theirs").c_str(), 0700) == 0);
    if (::chown(at("theirs").c_str(), 65534, 65534) == 0) is_refused(at("theirs"));  // with CAP_CHOWN
    fails(errc::exporter_gone, [&] { ipc::subscriber("camera", ipc::topic_options{.directory = at("no/such")}); });
}

TEST_CASE("topic: without an argument the directory is in XDG_RUNTIME_DIR, or in /dev/shm") {
    own_directory const here;
    support::process other{[&](support::talk const&) {
        ::setenv("XDG_RUNTIME_DIR", here.path().c_str(), 1);
        ipc::publisher camera{"camera", slots(2)};
        bool const is_there = ::access((here.path() + "/ferry/camera").c_str(), F_OK) == 0;
        ::unsetenv("XDG_RUNTIME_DIR");
        ipc::publisher same{"camera", slots(2)};
        bool const is_in_shm =
            ::access(("/dev/shm/ferry-" + std::to_string(::geteuid()) + "/camera").c_str(), F_OK) == 0;
        return is_there && is_in_shm ? 0 : 1;
    }};
    CHECK(other.wait() == 0);
}

TEST_CASE("topic: a subscriber refuses a damaged file, also one that was shortened before the call") {
    own_directory const here;
    ipc::publisher camera{"camera", slots(2), here};
    publish(camera);
    std::string const path = here.path() + "/camera";
    struct stat whole = {};
    REQUIRE(::stat(path.c_str(), &whole) == 0);
    auto const damage = [&](auto value, off_t at) {
        ipc::unique_fd const f{::open(path.c_str(), O_RDWR)};
        decltype(value) former;
        REQUIRE(::pread(f.get(), &former, sizeof former, at) == sizeof former);
        REQUIRE(::pwrite(f.get(), &value, sizeof value, at) == sizeof value);
        return former;
    };
    auto const next = [&] {
        ipc::subscriber left{"camera", here};
        return left.next(0ms).has_value();
    };
    CHECK(next());
    SUBCASE("another magic number") {
        damage(std::uint64_t{1}, 0);
        fails(errc::bad_descriptor, next, {"camera", "not the file of a topic"});
        std::ofstream{here.path() + "/notes"} << "notes of another program";
        fails(errc::bad_descriptor, [&] { ipc::publisher{"notes", slots(2), here}; }, {"notes"});
        CHECK(support::contents(here.path() + "/notes") == "notes of another program");
    }
    SUBCASE("more slots than a topic has") {
        damage(std::uint32_t{1000}, 8);
        fails(errc::bad_descriptor, next);
    }
    SUBCASE("records that are too small, beyond the file, or not aligned") {
        for (std::uint32_t const size : {16u, 0x7ffffff8u, 300u}) {
            damage(size, 12);
            fails(errc::bad_descriptor, next);
        }
    }
    SUBCASE("a slot that does not exist, and a generation that no record has") {
        damage(std::uint64_t{9} << 8 | 17, 16);
        CHECK_FALSE(next());
        damage(std::uint64_t{9} << 8 | 1, 16);
        CHECK_FALSE(next());
    }
    SUBCASE("a descriptor that is longer than its record, or damaged") {
        auto const slot = damage(std::uint64_t{0}, 16) & 255;
        damage(std::uint64_t{1} << 8 | slot, 16);
        std::uint32_t capacity = damage(std::uint32_t{64}, 12);
        damage(capacity, 12);
        auto const record = static_cast<off_t>(64 + slot * capacity);
        auto const length = damage(std::uint32_t{0x7fffffff}, record + 16);
        fails(errc::bad_descriptor, next, {"damaged"});
        damage(length, record + 16);
        CHECK(next());
        damage(std::uint64_t{0x1234567812345678}, record + 40);
        fails(errc::bad_descriptor, next);
    }
    SUBCASE("files that were not received") {
        auto const slot = damage(std::uint64_t{0}, 16) & 255;
        damage(std::uint64_t{1} << 8 | slot, 16);
        auto const capacity = damage(std::uint32_t{64}, 12);
        damage(capacity, 12);
        damage(std::uint32_t{2}, static_cast<off_t>(64 + slot * capacity + 28));
        fails(errc::permission, next, {"publisher::files"});
    }
    SUBCASE("shortened while it is read") {
        ipc::subscriber left{"camera", here};
        CHECK(left.next(0ms));
        for (off_t const size : {off_t{100}, off_t{20}, off_t{0}}) {
            REQUIRE(::truncate(path.c_str(), size) == 0);
            std::optional<ipc::frame<ferry::managed_tensor>> f;
            try {
                f = left.next(2ms);
            } catch (ferry::error const& e) {
                CHECK(e.code() == errc::bad_descriptor);
            }
            CHECK_FALSE(f);
        }
        fails(errc::bad_descriptor, [&] { static_cast<void>(left.next(0ms)); }, {"not the file of a topic"});
        REQUIRE(::truncate(path.c_str(), whole.st_size) == 0);  // or the publisher ends by SIGBUS
    }
}

TEST_CASE("topic: other files under its name are refused, without waiting") {
    own_directory const here;
    REQUIRE(::mkfifo((here.path() + "/pipe").c_str(), 0600) == 0);
    REQUIRE(::symlink("/etc/passwd", (here.path() + "/link").c_str()) == 0);
    REQUIRE(::mkdir((here.path() + "/folder").c_str(), 0700) == 0);
    for (auto const* name : {"pipe", "link", "folder"}) {
        CAPTURE(name);
        ipc::subscriber left{name, here};
        fails(errc::permission, [&] { static_cast<void>(left.next(0ms)); });
        fails(errc::permission, [&] { ipc::publisher(name, slots(2), here); });
    }
}

TEST_CASE("topic: text for readers without ferry follows the descriptor") {
    own_directory const here;
    ipc::topic_options how = here;
    how.text = [](ferry::wire::descriptor const& d) { return ferry::wire::to_json(d); };
    ipc::publisher camera{"camera", slots(2), how};
    publish(camera);
    ipc::subscriber left{"camera", here};
    CHECK(is_whole(left.next(patience)->value, 1));
    auto const file = support::contents(here.path() + "/camera");
    CHECK(file.find(ferry::wire::to_json(camera[0].descriptor())) != std::string::npos);
}

TEST_CASE("topic: a publisher without a name sends its files, and its slots need no /dev/shm") {
    ipc::session s{{.segments = ipc::segment_kind::anonymous}};
    ipc::publisher camera{"", slots(3, &s)};
    auto const files = camera.files();
    CHECK(files.size() == 4);
    auto const received = [&] {
        std::vector<ipc::unique_fd> all;
        for (int const f : files) all.emplace_back(::dup(f));
        return all;
    };
    ipc::subscriber left{received()};
    CHECK_FALSE(left.next(0ms));
    for (std::uint64_t n = 1; n <= 5; ++n) {
        CHECK(publish(camera) == n);
        CHECK(is_whole(left.next(patience)->value, n));
    }
    auto few = received();
    few.resize(1);
    ipc::subscriber late{std::move(few)};
    fails(errc::permission, [&] { static_cast<void>(late.next(0ms)); }, {"publisher::files"});
    fails(errc::bad_descriptor, [] { ipc::subscriber{std::vector<ipc::unique_fd>{}}; });
    unsigned const slot = *camera.begin();
    fails(errc::argument, [&] { camera.replace(slot, support::slot(&s)); }, {"no file"});
    camera.withdraw();  // no effect
    CHECK(publish(camera) == 6);
}

TEST_CASE("topic: a subscriber whose file was removed follows the next publisher, also in a new directory") {
    own_directory const here;
    ipc::subscriber left{"camera", here};
    support::process first = publish_once(here);
    CHECK(first.hear() == '.');
    CHECK(left.next(patience)->generation == 1);
    first.kill(SIGKILL);
    CHECK(first.wait() == -SIGKILL);
    SUBCASE("the file") { REQUIRE(::unlink((here.path() + "/camera").c_str()) == 0); }
    SUBCASE("the directory") {
        std::filesystem::remove_all(here.path());
        REQUIRE(::mkdir(here.path().c_str(), 0700) == 0);
    }
    ipc::publisher camera{"camera", slots(2), here};
    CHECK(publish(camera) == 1);
    auto const f = left.next(patience);
    REQUIRE(f);
    CHECK(is_whole(f->value, 1));
}

TEST_CASE("topic: what another process of the same user does delays or falsifies frames, and ends no process") {
    own_directory const here;
    ipc::publisher camera{"camera", slots(2), here};
    publish(camera);
    ipc::subscriber left{"camera", here};
    CHECK(left.next(patience));
    auto const open = [&](std::string const& path) {
        ipc::unique_fd f{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
        REQUIRE(f);
        return f;
    };
    SUBCASE("it locks all names: a publisher is refused until it ends") {
        {
            auto const file = open(here.path() + "/.names");
            struct flock all = {};
            all.l_type = F_WRLCK;
            REQUIRE(::fcntl(file.get(), F_OFD_SETLK, &all) == -1);  // but for the name that is owned
            all.l_type = F_RDLCK, all.l_len = 1000;
            REQUIRE(::fcntl(file.get(), F_OFD_SETLK, &all) == 0);
        }
        CHECK(publish(camera) == 2);
    }
    SUBCASE("it invents readers: begin returns at its limit") {
        std::vector<ipc::unique_fd> files;
        for (unsigned k = 0; k < 2; ++k) {
            files.push_back(open("/dev/shm" + camera[k].descriptor().memories[0].name));
            struct flock byte = {};
            byte.l_type = F_RDLCK, byte.l_start = 227, byte.l_len = 1;
            REQUIRE(::fcntl(files.back().get(), F_OFD_SETLK, &byte) == 0);
        }
        CHECK_FALSE(camera.begin(1ms));
        files.clear();
        CHECK(publish(camera) == 2);
    }
    SUBCASE("it removes the file: subscribers that have it continue, others wait for the next publisher") {
        REQUIRE(::unlink((here.path() + "/camera").c_str()) == 0);
        CHECK(publish(camera) == 2);
        CHECK(left.next(patience)->generation == 2);
        ipc::subscriber late{"camera", here};
        CHECK_FALSE(late.next(0ms));
    }
    SUBCASE("it publishes another generation, which has no frame") {
        auto const file = open(here.path() + "/camera");
        std::uint64_t const latest = std::uint64_t{77} << 8 | 1;
        REQUIRE(::pwrite(file.get(), &latest, sizeof latest, 16) == sizeof latest);
        CHECK_FALSE(left.next(1ms));
        CHECK(publish(camera) == 2);
        CHECK(left.next(patience)->generation == 2);
    }
    SUBCASE("it sends a frame of the other slot, which is whole") {
        publish(camera);
        auto const file = open(here.path() + "/camera");
        std::uint64_t word = 0;
        REQUIRE(::pread(file.get(), &word, sizeof word, 16) == sizeof word);
        std::uint64_t const first = std::uint64_t{1} << 8 | (1 - (word & 255));
        REQUIRE(::pwrite(file.get(), &first, sizeof first, 16) == sizeof first);
        ipc::subscriber late{"camera", here};
        auto const f = late.next(0ms);
        CHECK((f && is_whole(f->value, 1)));
    }
}
