#include <ferry/ipc.hpp>
#include <ferry/wire/binary.hpp>

#include <support/fails.hpp>
#include <support/ipc.hpp>
#include <support/patience.hpp>
#include <support/process.hpp>
#include <support/sim_space.hpp>
#include <support/skip.hpp>

#include <doctest/doctest.h>

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using ferry::errc;
using ferry::flags;
using ferry::managed_tensor;
using ferry::ipc::attach;
using ferry::ipc::session;
using ferry::ipc::share;
using ferry::ipc::detail::control_page;
using support::tensor;
using support::values;

namespace {

/// The pages of the segment of a share, which a malicious process of this user can write.
ferry::ipc::detail::segment raw(ferry::ipc::shared const& s, std::uint64_t bytes) {
    auto const& m = s.descriptor().memories[0];
    return ferry::ipc::detail::segment::open(m.name, bytes, m.id, ferry::ipc::detail::access_mode::read_write);
}

}  // namespace

TEST_CASE("writing to a read-only tensor faults in the importer") {
    auto s = share(tensor({3000}, flags::read_only));
    auto const a = attach(s.descriptor());
    CHECK(a.is_read_only());
    CHECK(support::faults([&] { *static_cast<float volatile*>(const_cast<void*>(a.view().data())) = 1; }));
    CHECK(support::faults([&] { static_cast<float volatile*>(const_cast<void*>(a.view().data()))[2999] = 1; }));
    auto w = share(tensor({3}));
    auto const b = attach(w.descriptor());
    CHECK_FALSE(support::faults([&] { *static_cast<float volatile*>(b.view().writable_data()) = 1; }));
    session one;  // readable and writable mappings of one segment are kept apart
    auto again = share(tensor({3}), {.session = &one});
    auto ro = share(support::restrided(again.tensor(), 0, {3}, {1}), {.session = &one});
    auto d = ro.descriptor();
    std::get<ferry::wire::tensor>(d.root).flags |= flags::read_only;
    session importer;
    auto const writable = attach(ro.descriptor(), {.session = &importer});
    auto const readable = attach(d, {.session = &importer});
    CHECK(support::faults([&] { *static_cast<float volatile*>(const_cast<void*>(readable.view().data())) = 1; }));
    CHECK_FALSE(support::faults([&] { *static_cast<float volatile*>(writable.view().writable_data()) = 1; }));
}

TEST_CASE("attaching a share of this session returns an alias that keeps the memory") {
    session own;
    auto s = share(tensor({3}), {.session = &own});
    auto const a = attach(s.descriptor(), {.session = &own});
    CHECK(a.view().data() == s.view().data());
    CHECK(own.counts().mappings == 0);
    auto d = s.descriptor();
    d.memories[0].length = d.memories[0].allocation = 1 << 20;
    std::get<ferry::wire::tensor>(d.root).shape = {1 << 18};
    std::get<ferry::wire::tensor>(d.root).strides = {1};
    support::fails(errc::bad_descriptor, [&] { static_cast<void>(attach(d, {.session = &own})); });
    auto ro = share(tensor({3}, flags::read_only), {.session = &own});
    auto forged = ro.descriptor();
    std::get<ferry::wire::tensor>(forged.root).flags = flags::none;
    CHECK(attach(forged, {.session = &own}).is_read_only());
    s.close();
    support::fails(errc::exporter_gone, [&] { static_cast<void>(attach(s.descriptor(), {.session = &own})); });
    s = {};
    CHECK(values(a) == std::vector<float>{0, 1, 2});
}

TEST_CASE("all tensors of a session use one mapping, which is kept for later attaches") {
    auto s = share(tensor({3}));
    session importer;
    {
        auto const a = attach(s.descriptor(), {.session = &importer}),
                   b = attach(s.descriptor(), {.session = &importer});
        CHECK(a.view().data() == b.view().data());
        CHECK(importer.counts().mappings == 1);
        CHECK(importer.counts().unused == 0);
        CHECK(s.readers() == 2);
    }
    CHECK(s.readers() == 0);
    CHECK(importer.counts().unused == 1);
    auto const mapped = support::mapped_segments();
    CHECK(values(attach(s.descriptor(), {.session = &importer})).size() == 3);
    CHECK(support::mapped_segments() == mapped);
    importer.trim();
    CHECK(importer.counts().mappings == 0);
    CHECK(support::mapped_segments() == mapped - 1);
}

TEST_CASE("the number of unused mappings is bounded, and the most recently used ones are kept") {
    session importer{{.unused_mappings = 2}};
    std::vector<ferry::ipc::shared> shares;
    for (int i = 0; i < 4; ++i) shares.push_back(share(tensor({3})));
    for (auto const& s : shares) static_cast<void>(attach(s.descriptor(), {.session = &importer}));
    CHECK(importer.counts().unused == 2);
    auto const mapped = support::mapped_segments();
    {
        auto const a = attach(shares[2].descriptor(), {.session = &importer});
        auto const b = attach(shares[3].descriptor(), {.session = &importer});
        CHECK(support::mapped_segments() == mapped);
        auto const c = attach(shares[0].descriptor(), {.session = &importer});
        CHECK(support::mapped_segments() == mapped + 1);
    }
    CHECK(importer.counts().mappings == 2);
    {
        session none{{.unused_mappings = 0}};
        static_cast<void>(attach(shares[0].descriptor(), {.session = &none}));
        CHECK(none.counts().mappings == 0);
    }
}

TEST_CASE("the bytes of unused mappings are bounded, and mappings of closed shares are removed by any share") {
    session importer{{.unused_mappings = 8, .unused_bytes = 10'000}};
    std::vector<ferry::ipc::shared> shares;
    for (int i = 0; i < 3; ++i) shares.push_back(share(tensor({1000})));
    for (auto const& s : shares) static_cast<void>(attach(s.descriptor(), {.session = &importer}));
    CHECK(importer.counts().unused == 2);
    auto const large = share(tensor({3000}));
    static_cast<void>(attach(large.descriptor(), {.session = &importer}));
    CHECK(importer.counts().unused == 2);
    auto const kept = attach(shares[2].descriptor(), {.session = &importer});
    CHECK(importer.counts().unused == 1);
    shares.clear();
    auto const other = share(tensor({3}), {.session = &importer});
    CHECK(importer.counts().unused == 0);
    CHECK(importer.counts().mappings == 1);
}

TEST_CASE("unused mappings of closed shares are removed") {
    session importer;
    auto s = share(tensor({3})), other = share(tensor({3}));
    static_cast<void>(attach(s.descriptor(), {.session = &importer}));
    CHECK(importer.counts().mappings == 1);
    s.close();
    static_cast<void>(attach(other.descriptor(), {.session = &importer}));
    CHECK(importer.counts().mappings == 1);
    auto third = share(tensor({3}));
    auto a = attach(third.descriptor(), {.session = &importer});
    third.close();
    a = {};
    CHECK(importer.counts().mappings == 1);
}

TEST_CASE("tensors outlive the session, the share and the segment's name") {
    managed_tensor a;
    {
        session importer;
        auto s = share(tensor({3}));
        a = attach(s.descriptor(), {.session = &importer});
    }
    CHECK(values(a) == std::vector<float>{0, 1, 2});
}

TEST_CASE("each forged descriptor is an error with its own code, and maps nothing") {
    auto s = share(tensor({3}));
    auto const mapped = support::mapped_segments(), files = support::open_files();
    auto const forged = [&](auto change) {
        auto d = s.descriptor();
        change(d, d.memories[0], std::get<ferry::wire::tensor>(d.root));
        static_cast<void>(attach(d));
    };
    auto const& m = s.descriptor().memories[0];
    auto const name = *ferry::ipc::detail::parse_segment_name(m.name);
    auto const renamed = [&](auto change) {
        auto n = name;
        change(n);
        return to_string(n);
    };
    using d_t = ferry::wire::descriptor;
    using m_t = ferry::wire::memory;
    using t_t = ferry::wire::tensor;
    support::fails(errc::bad_descriptor, [&] { forged([](d_t&, m_t&, t_t& t) { t.byte_offset = 4; }); });
    support::fails(errc::bad_descriptor, [&] { forged([](d_t&, m_t&, t_t& t) { t.byte_offset = -4; }); });
    support::fails(errc::bad_descriptor, [&] { forged([](d_t&, m_t&, t_t& t) { t.shape = {4}; }); });
    support::fails(errc::bad_descriptor, [&] { forged([](d_t&, m_t&, t_t& t) { t.strides = {INT64_MAX / 2}; }); });
    support::fails(errc::bad_descriptor,
                   [&] { forged([](d_t&, m_t& x, t_t& t) { x.length = x.allocation = 1 << 20, t.shape = {1000}; }); },
                   {"1048576", "16396"});
    support::fails(errc::bad_descriptor,
                   [&] { forged([](d_t&, m_t& x, t_t&) { x.allocation = x.length = INT64_MAX; }); });
    support::fails(errc::bad_descriptor, [&] { forged([](d_t& d, m_t&, t_t&) { d.major = 1; }); });
    support::fails(errc::bad_descriptor, [&] { forged([](d_t&, m_t& x, t_t&) { x.name = "/../../etc/passwd"; }); });
    support::fails(errc::bad_descriptor, [&] { forged([](d_t&, m_t& x, t_t&) { x.name = "/something"; }); });
    support::fails(errc::bad_descriptor, [&] { forged([](d_t&, m_t& x, t_t&) { x.name = ""; }); });
    forged([](d_t& d, m_t&, t_t&) { d.from.pid = 1; });  // informational
    support::fails(errc::bad_descriptor,
                   [&] { forged([](d_t& d, m_t&, t_t&) { d.memories.push_back(d.memories[0]); }); });
    support::fails(errc::bad_descriptor, [&] { forged([](d_t& d, m_t&, t_t&) { d.memories.clear(); }); });
    support::fails(errc::argument,
                   [&] { forged([](d_t& d, m_t&, t_t&) { d.root = ferry::wire::node{.format = "i"}; }); }, {"column"});
    forged([](d_t& d, m_t&, t_t&) { d.from.boot_id[3] ^= 1; });  // informational
    support::fails(errc::exporter_gone,
                   [&] {
                       forged([&](d_t& d, m_t& x, t_t&) {
                           d.from.boot_id[3] ^= 1;
                           x.name = renamed([](auto& n) { n.id ^= 1; });
                       });
                   },
                   {"another machine"});
    support::fails(errc::exporter_gone,
                   [&] { forged([&](d_t&, m_t& x, t_t&) { x.name = renamed([](auto& n) { n.id ^= 1; }); }); });
    support::fails(errc::permission,
                   [&] { forged([&](d_t&, m_t& x, t_t&) { x.name = renamed([](auto& n) { n.uid += 1; }); }); },
                   {"user"});
    support::fails(errc::stale_handle, [&] { forged([](d_t&, m_t& x, t_t&) { x.id ^= 1; }); });
    auto const as_cuda = [](d_t&, m_t& x, t_t&) {
        x.kind = ferry::wire::memory_kind::cuda_legacy;
        x.type = ferry::device_type::cuda;
        x.device[0] = 1;
        x.handle.resize(64);
    };
    support::fails(errc::same_process, [&] { forged(as_cuda); }, {"session"});
    CHECK(support::in_child([&] {
              try {
                  forged(as_cuda);
              } catch (ferry::error const& e) {
                  return e.code() == errc::no_backend && std::strstr(e.what(), "ferry/cuda/ipc.hpp") != nullptr ? 0 : 1;
              }
              return 2;
          }) == 0);
    CHECK(support::mapped_segments() == mapped);
    CHECK(support::open_files() == files);
    CHECK(values(attach(s.descriptor())).size() == 3);
}

TEST_CASE("a name that no process has locked is that of an ended exporter") {
    auto s = share(tensor({3}));
    auto d = s.descriptor();
    auto n = *ferry::ipc::detail::parse_segment_name(d.memories[0].name);
    n.id ^= 1;
    auto const name = to_string(n);
    std::filesystem::create_hard_link("/dev/shm" + d.memories[0].name, "/dev/shm" + name);
    d.memories[0].name = name;
    support::fails(errc::exporter_gone, [&] { static_cast<void>(attach(d)); });
    std::filesystem::remove("/dev/shm" + name);
}

TEST_CASE("files that are not segments are never read") {
    auto s = share(tensor({3}));
    auto const d = s.descriptor();
    auto const path = "/dev/shm" + d.memories[0].name;
    std::filesystem::remove(path);
    auto const refused = [&](errc code) { support::fails(code, [&] { static_cast<void>(attach(d)); }); };
    refused(errc::exporter_gone);
    std::filesystem::create_symlink("/etc/passwd", path);
    refused(errc::permission);
    std::filesystem::remove(path);
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    refused(errc::permission);
    std::filesystem::remove(path);
    std::filesystem::create_directory(path);
    CHECK_THROWS_AS(static_cast<void>(attach(d)), ferry::error);
    std::filesystem::remove(path);
    std::ofstream{path} << "short";
    chmod(path.c_str(), 0600);
    refused(errc::bad_descriptor);
    std::ofstream{path} << std::string(100'000, 'x');
    refused(errc::stale_handle);
    std::filesystem::remove(path);
}

TEST_CASE("garbage in the control page causes neither a hang nor an invalid access") {
    std::mt19937_64 random{7};
    std::vector<std::uint64_t> garbage(sizeof(control_page) / 8);
    for (int round = 0; round < 200; ++round) {
        session importer;
        auto s = share(tensor({3}));
        auto const kept = attach(s.descriptor(), {.session = &importer});
        auto const page = raw(s, 12);
        auto& control = page.control();
        auto const words = reinterpret_cast<std::uint64_t*>(&control);
        std::size_t const first = round % 2 == 0 ? 2 : 0;  // with or without the header
        for (auto i = first; i < garbage.size(); ++i) {
            auto const n = random();
            words[i] = round % 4 < 2 ? n : round % 8 < 6 ? ~std::uint64_t{0} : n % 3;
        }
        try {
            auto const a = attach(s.descriptor(), {.session = &importer});
            CHECK(values(a) == std::vector<float>{0, 1, 2});
        } catch (ferry::error const& e) {
            CHECK((e.code() == errc::exporter_gone || e.code() == errc::stale_handle));
        }
        try {
            static_cast<void>(attach(s.descriptor()));
        } catch (ferry::error const& e) {
            CHECK((e.code() == errc::exporter_gone || e.code() == errc::stale_handle));
        }
        static_cast<void>(s.readers());
        static_cast<void>(control.is_mapped(page.locks()));
        static_cast<void>(s.wait_for_readers(std::chrono::milliseconds{2}));
        s.close();  // both return, with any contents of the page
        CHECK(values(kept) == std::vector<float>{0, 1, 2});
    }
}

TEST_CASE("importers beyond the number of slots can attach, and the exporter waits until they have left") {
    auto s = share(tensor({3}));
    auto const page = raw(s, 12);
    std::vector<managed_tensor> held;  // each with a mapping of its own: no session
    for (int i = 0; i < control_page::max_importers; ++i) held.push_back(attach(s.descriptor()));
    CHECK(s.readers() == control_page::max_importers);
    for (int i = 0; i < 3; ++i) held.push_back(attach(s.descriptor()));
    CHECK(values(held.back()).size() == 3);
    held.erase(held.begin(), held.begin() + control_page::max_importers);
    CHECK(s.readers() == 3);
    CHECK(page.control().is_mapped(page.locks()));
    CHECK_FALSE(s.wait_for_readers({}));
    held.pop_back();
    held.pop_back();
    CHECK_FALSE(s.wait_for_readers({}));  // one importer without a slot is left
    held.pop_back();
    CHECK(s.readers() == 0);
    CHECK(s.wait_for_readers({}));
    CHECK_FALSE(page.control().is_mapped(page.locks()));
    CHECK(values(attach(s.descriptor())).size() == 3);
    CHECK(s.readers() == 0);
}

TEST_CASE("260 importers that keep their mappings count as readers only while they have tensors") {
    auto s = share(tensor({3}));
    std::vector<session> importers(260);
    std::vector<managed_tensor> held;
    for (int round = 0; round < 3; ++round) {
        for (auto& one : importers) held.push_back(attach(s.descriptor(), {.session = &one}));
        CHECK(s.readers() == 260);
        held.push_back(attach(s.descriptor(), {.session = &importers[259]}));
        held.erase(held.begin(), held.begin() + 260);
        CHECK(s.readers() == 1);
        CHECK_FALSE(s.wait_for_readers({}));
        held.clear();
        CHECK(s.readers() == 0);
        CHECK(s.wait_for_readers({}));
        for (auto& one : importers) CHECK(one.counts().unused == 1);
    }
    // A child that is forked meanwhile reads until it ends, whether its parent has a slot or not.
    auto a = attach(s.descriptor(), {.session = &importers[259]});
    support::process child{[&](support::talk to) { return to.hear() == 'e' && values(a)[2] == 2 ? 0 : 1; }};
    a = {};
    CHECK(s.readers() == 1);
    child.say('e');
    CHECK(child.wait() == 0);
    CHECK(s.readers() == 0);
}

TEST_CASE("slots of ended processes are reused") {
    auto s = share(tensor({3}));
    auto const page = raw(s, 12);
    for (int i = 0; i < 3 * control_page::max_importers; ++i)
        REQUIRE(support::in_child([&] {
                    auto* const kept = new managed_tensor{attach(s.descriptor())};
                    return kept->view().data() == nullptr;
                }) == 0);  // exits without releasing
    CHECK(s.readers() == 0);
    CHECK_FALSE(page.control().is_mapped(page.locks()));
    CHECK(page.control().enter(page.locks()) == 0);
    auto const a = attach(s.descriptor());
    CHECK(s.readers() == 1);
}

TEST_CASE("a mapping has one file descriptor, and a session none") {
    auto s = share(tensor({3}));
    session importer;
    auto const before = support::open_files();
    for (int i = 0; i < 3; ++i) static_cast<void>(attach(s.descriptor(), {.session = &importer}));
    CHECK(support::open_files() == before + 1);
    importer.trim();
    CHECK(support::open_files() == before);
}

TEST_CASE("the exporter counts an importer in another pid namespace, also if another importer shared with it" *
          doctest::skip(support::lacks_namespaces())) {
    auto s = share(tensor({3}));
    int told[2], go[2];
    REQUIRE(::pipe(told) == 0);
    REQUIRE(::pipe(go) == 0);
    pid_t const child = ::fork();
    if (child == 0) {
        if (::unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) ::_exit(1);
        pid_t const first = ::fork();
        if (first == 0) {
            if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
                ::mount("proc", "/proc", "proc", 0, nullptr) != 0)
                ::_exit(2);
            char c = 0;
            pid_t reader = -1;
            {
                session keeps;
                auto const again = share(attach(s.descriptor(), {.session = &keeps}), {.session = &keeps});
                if (again.copied()) ::_exit(3);
                int here[2];
                if (::pipe(here) != 0) ::_exit(4);
                reader = ::fork();
                if (reader == 0) {
                    auto const t = attach(again.descriptor());
                    static_cast<void>(::write(here[1], "", 1) + ::read(go[0], &c, 1));
                    ::_exit(values(t).size() == 3 ? 0 : 5);
                }
                if (::read(here[0], &c, 1) != 1) ::_exit(6);
            }  // from here on only the reader has it, and its copy of the tensor that was shared
            static_cast<void>(::write(told[1], "", 1));
            int status = 0;
            ::waitpid(reader, &status, 0);
            ::_exit(WEXITSTATUS(status));
        }
        int status = 0;
        ::waitpid(first, &status, 0);
        ::_exit(WEXITSTATUS(status));
    }
    ::close(told[1]);
    char c = 0;
    CHECK(::read(told[0], &c, 1) == 1);
    CHECK(s.readers() == 2);
    CHECK_FALSE(s.wait_for_readers({}));
    CHECK(::write(go[1], "", 1) == 1);
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(WEXITSTATUS(status) == 0);
    for (int const fd : {told[0], go[0], go[1]}) ::close(fd);
}

TEST_CASE("a wait for readers with the maximum limit ends when the last reader is gone") {
    auto s = share(tensor({3}));
    auto held = attach(s.descriptor());
    std::thread later{[&] {
        std::this_thread::sleep_for(std::chrono::milliseconds{100});
        held = {};
    }};
    CHECK(s.wait_for_readers(std::chrono::nanoseconds::max()));
    CHECK(s.readers() == 0);
    later.join();
}

TEST_CASE("a forked child counts as a reader while it has the tensor of its parent") {
    auto s = share(tensor({3}));
    session importer;
    bool child_drops = false;
    SUBCASE("the child drops its copy") { child_drops = true; }
    SUBCASE("the child reads") {}
    auto a = attach(s.descriptor(), {.session = &importer});
    support::process child{[&](support::talk to) {
        if (child_drops) a = {};
        to.say();
        return to.hear() == 'r' && (child_drops || values(a)[2] == 2) ? 0 : 1;
    }};
    REQUIRE(child.hear() == '.');
    CHECK(s.readers() == 1);  // also if the child has dropped its copy
    a = {};
    CHECK(s.readers() == (child_drops ? 0 : 1));
    CHECK(s.wait_for_readers({}) == child_drops);
    CHECK(importer.counts().mappings == 0);  // it belongs to the child
    auto const again = attach(s.descriptor(), {.session = &importer});
    CHECK(s.readers() == (child_drops ? 1 : 2));
    child.say('r');
    CHECK(child.wait() == 0);
    CHECK(s.readers() == 1);
}

TEST_CASE("a forked child that has no tensor does not count as a reader") {
    auto s = share(tensor({3}));
    session importer;
    static_cast<void>(attach(s.descriptor(), {.session = &importer}));  // keeps the mapping
    support::process child{[&](support::talk to) { return to.hear() == 'e' ? 0 : 1; }};
    CHECK(values(attach(s.descriptor(), {.session = &importer})).size() == 3);
    CHECK(importer.counts().unused == 1);
    CHECK(s.wait_for_readers({}));
    child.say('e');
    CHECK(child.wait() == 0);
}

TEST_CASE("an unused mapping of a killed exporter is removed by the next collect") {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    support::process exporter{[&](support::talk to) {
        auto const s = share(tensor({3000}));
        auto const bytes = ferry::wire::to_bytes(s.descriptor());
        if (::write(ends[1], bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) return 1;
        to.say();
        return static_cast<int>(to.hear());
    }};
    REQUIRE(exporter.hear() == '.');
    std::vector<std::byte> bytes(4096);
    bytes.resize(static_cast<std::size_t>(::read(ends[0], bytes.data(), bytes.size())));
    session importer;
    CHECK(values(attach(ferry::wire::from_bytes(bytes), {.session = &importer}))[2999] == 2999);
    exporter.kill(SIGKILL);
    CHECK(exporter.wait() == -SIGKILL);
    CHECK(importer.counts().unused == 1);
    importer.collect();
    CHECK(importer.counts().mappings == 0);
    static_cast<void>(share(tensor({3})));  // removes the name
    for (int const end : ends) ::close(end);
}

TEST_CASE("an exporter can wait for readers before it writes again") {
    auto s = share(tensor({3}));
    CHECK(s.wait_for_readers({}));
    auto a = attach(s.descriptor());
    CHECK_FALSE(s.wait_for_readers(std::chrono::milliseconds{5}));
    std::thread reader{[&] {
        std::this_thread::sleep_for(std::chrono::milliseconds{20});
        a = {};
    }};
    CHECK(s.wait_for_readers(support::patience));
    reader.join();
}

TEST_CASE("threads can attach, read and drop concurrently while one closes") {
    session importer{{.unused_mappings = 1}};
    std::vector<ferry::ipc::shared> shares;
    for (int i = 0; i < 4; ++i) shares.push_back(share(tensor({100})));
    std::vector<ferry::wire::descriptor> all;
    for (auto const& s : shares) all.push_back(s.descriptor());
    std::atomic<int> good = 0, gone = 0, bad = 0;
    std::vector<std::thread> threads;
    for (std::size_t n = 0; n < 4; ++n)
        threads.emplace_back([&, n] {
            for (std::size_t i = 0; i < 500; ++i) {
                try {
                    auto const a = attach(all[(n + i) % all.size()], {.session = &importer});
                    ++(values(a)[99] == 99 ? good : bad);
                } catch (ferry::error const& e) {
                    ++(e.code() == errc::exporter_gone ? gone : bad);
                }
            }
        });
    while (good < 200) std::this_thread::yield();
    shares[0].close();
    for (auto& t : threads) t.join();
    CHECK(bad == 0);
    CHECK(good + gone == 2000);
    for (auto const& s : shares) CHECK(s.readers() == 0);
    CHECK(importer.counts().mappings <= 1);
}

TEST_CASE("repeated attaches leave no file descriptor, no mapping and no segment") {
    auto const files = support::open_files(), mapped = support::mapped_segments();
    {
        session importer;
        auto s = share(tensor({3}));
        for (int i = 0; i < 100'000; ++i) {
            auto const a = attach(s.descriptor(), {.session = &importer});
            if (a.as<float, 1>()(2) != 2) FAIL("wrong");
        }
        CHECK(support::mapped_segments() <= mapped + 2 + 2);
        char const* const more = std::getenv("FERRY_IPC_ROUNDS");
        for (int i = more != nullptr ? std::atoi(more) : 10'000; i > 0; --i) {
            auto const fresh = share(tensor({3}));
            auto const a = attach(fresh.descriptor(), {.session = &importer});
            if (a.as<float, 1>()(2) != 2) FAIL("wrong");
        }
        CHECK(importer.counts().mappings <= 65);
    }
    CHECK(support::open_files() == files);
    CHECK(support::mapped_segments() == mapped);
    CHECK(support::segments(getpid()).empty());
}

TEST_CASE("a descriptor can be attached after conversion to bytes and back") {
    auto s = share(tensor({2, 3}));
    auto const bytes = ferry::wire::to_bytes(s.descriptor());
    auto const d = ferry::wire::from_bytes(bytes);
    CHECK(d == s.descriptor());
    CHECK(values(attach(d)) == values(s.view()));
}
