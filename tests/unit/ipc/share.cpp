#include <ferry/ipc.hpp>

#include <support/fails.hpp>
#include <support/ipc.hpp>
#include <support/no_owner.hpp>
#include <support/own_shm.hpp>
#include <support/sim_space.hpp>
#include <support/skip.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using ferry::copy_policy;
using ferry::errc;
using ferry::flags;
using ferry::managed_tensor;
using ferry::ipc::attach;
using ferry::ipc::session;
using ferry::ipc::share;
using ferry::ipc::unique_fd;
using support::fails;
using support::restrided;
using support::tensor;
using support::values;

namespace {

std::atomic<int> claims_that_fail = 0, claims_made = 0;

}  // namespace

/// Replaces posix_fallocate; some calls fail as if another program had just used the free space.
extern "C" int posix_fallocate(int fd, off_t offset, off_t length) {
    ++claims_made;
    if (claims_that_fail > 0 && claims_that_fail-- > 0) return ENOSPC;
    for (;;) {
        if (::fallocate(fd, 0, offset, length) == 0) return 0;
        if (errno != EINTR) return errno;
    }
}

namespace {

std::string path(ferry::ipc::shared const& s) { return "/dev/shm" + s.descriptor().memories[0].name; }

std::vector<std::int64_t> list(ferry::shape_view s) { return {s.begin(), s.end()}; }
std::vector<std::int64_t> list(ferry::strides_view s) { return {s.begin(), s.end()}; }

/// Attaches without the session, which makes a new mapping.
managed_tensor map(ferry::ipc::shared const& s) { return attach(s.descriptor()); }

void write(managed_tensor const& t, std::int64_t at, float value) { t.as<float, 1>()(at) = value; }

/// Gives this process a private /dev/shm of 1 MiB; only for a child process.
bool enter_small_shm() { return support::mount_own_shm("tmpfs", "size=1m"); }
bool lacks_small_shm() {
    return support::lacks(support::in_child([] { return enter_small_shm() ? 0 : 1; }) == 0,
                          "no mount namespace of one's own, for a /dev/shm that may fill up");
}

}  // namespace

TEST_CASE("a tensor in ordinary memory is copied once, and attached without another copy") {
    auto t = tensor({2, 3});
    auto* const original = t.view().data();
    auto s = share(std::move(t));
    CHECK(s.copied());
    CHECK(s.view().data() != original);
    CHECK(values(s.view()) == std::vector<float>{0, 1, 2, 3, 4, 5});
    auto const a = map(s), b = map(s);
    CHECK(a.view().data() != b.view().data());
    CHECK(values(a) == values(s.view()));
    a.as<float, 2>()(1, 1) = 44;
    CHECK(values(s.tensor())[4] == 44);
    CHECK(b.as<float, 2>()(1, 1) == 44);
    CHECK_FALSE(a.is_copied());
    CHECK_FALSE(a.is_read_only());
}

TEST_CASE("memory that cannot be shared in place is an error when a copy is forbidden") {
    auto t = tensor({2, 3});
    support::fails(errc::copy_needed, [&] { static_cast<void>(share(std::move(t), {.copy = copy_policy::never})); },
                   {"shared_space"});
    CHECK(values(t).size() == 6);  // still owned by the caller
    for (auto const type : {ferry::device_type::cuda_host, ferry::device_type::cuda_managed}) {
        float here[2] = {};
        std::int64_t const shape[] = {2};
        auto pinned =
            ferry::make_managed(support::no_owner{}, ferry::tensor_view{here, shape, {}, ferry::device{type}});
        support::fails(errc::copy_needed,
                       [&] { static_cast<void>(share(std::move(pinned), {.copy = copy_policy::never})); },
                       {ferry::name(type), "no handle"});
    }
    support::fails(errc::consumed, [] { static_cast<void>(share(managed_tensor{})); });
    CHECK(support::segments(getpid()).empty());
}

TEST_CASE("R53: share_only shares memory in place, and refuses to copy") {
    session own;
    auto const first = share(tensor({2, 3}), {.session = &own});
    CHECK_FALSE(share(first.tensor(), {.session = &own}, ferry::share_only).copied());
    for (auto const policy : {copy_policy::if_needed, copy_policy::always})
        support::fails(errc::copy_needed,
                       [&] { static_cast<void>(share(tensor({2}), {.copy = policy}, ferry::share_only)); });
    CHECK_FALSE(share(tensor({0}), ferry::share_only).copied());
}

TEST_CASE("memory in a named segment that was shared read-only is shared writable in place") {
    session own;
    ferry::buffer<ferry::ipc::shared_space> memory{2 * sizeof(float), ferry::ipc::shared_space{own}};
    std::int64_t const shape[] = {2};
    auto const share_with = [&](flags f) {
        ferry::tensor_view const v{static_cast<void*>(memory.data()), ferry::dtype_of<float>, shape, {}, ferry::cpu, f};
        return share(ferry::make_managed(support::no_owner{}, v), {.session = &own, .copy = copy_policy::never});
    };
    auto const first = share_with(flags::read_only), second = share_with(flags::none);
    auto const reader = map(first), writer = map(second);
    write(writer, 1, 5);
    CHECK(reader.as<float const, 1>()(1) == 5);
}

TEST_CASE("shape, values and read-only are kept, whatever the strides") {
    struct {
        managed_tensor t;
        std::vector<float> expected;
    } cases[] = {
        {tensor({2, 3}), {0, 1, 2, 3, 4, 5}},
        {tensor({}), {0}},
        {tensor({1}), {0}},
        {restrided(tensor({6}), 1, {2}, {2}), {1, 3}},
        {restrided(tensor({6}), 5, {6}, {-1}), {5, 4, 3, 2, 1, 0}},
        {restrided(tensor({2, 3}), 0, {3, 2}, {1, 3}), {0, 3, 1, 4, 2, 5}},
        {restrided(tensor({2, 3}), 5, {2, 3}, {-3, -1}), {5, 4, 3, 2, 1, 0}},
        {restrided(tensor({3}), 0, {2, 3}, {0, 1}), {0, 1, 2, 0, 1, 2}},
        {restrided(tensor({5}), 0, {3, 3}, {1, 1}), {0, 1, 2, 1, 2, 3, 2, 3, 4}},
        {restrided(tensor({4}), 2, {1, 2}, {77, 1}), {2, 3}},
    };
    session owner;
    ferry::ipc::shared_space space{owner};
    for (auto& [t, expected] : cases) {
        auto const shape = list(t.view().shape());
        auto s = share(std::move(t), {.session = &owner});
        CHECK(s.copied());
        auto const a = map(s);
        CHECK(list(a.view().shape()) == shape);
        CHECK(values(a) == expected);
        CHECK(values(s.view()) == expected);
    }
    auto s = share(tensor({4}, flags::read_only));
    CHECK(map(s).is_read_only());
    CHECK(s.tensor().is_read_only());
}

TEST_CASE("R29: a share of a broadcast tensor has no repeated elements") {
    auto s = share(restrided(tensor({3}), 0, {1000, 3, 1000}, {0, 1, 0}));
    CHECK(s.descriptor().memories[0].length == 12);
    auto const a = map(s);
    CHECK(list(a.view().strides()) == std::vector<std::int64_t>{0, 1, 0});
    CHECK(values(a)[1'500'000 - 1] == values(s.view())[1'500'000 - 1]);
}

TEST_CASE("R26: a tensor without elements is shared, attached, and closed") {
    auto s = share(tensor({2, 0, 3}));
    CHECK_FALSE(s.copied());
    {
        auto const a = map(s);
        CHECK(list(a.view().shape()) == std::vector<std::int64_t>{2, 0, 3});
        CHECK(a.view().data() == nullptr);
        CHECK(s.readers() == 1);
    }
    s.close();
    support::fails(errc::exporter_gone, [&] { map(s); });
}

TEST_CASE("R19, R13: packed elements are shared packed, padded ones padded") {
    ferry::data_type const f4{ferry::type_code::float4_e2m1fn, 4};
    struct bytes {
        std::vector<unsigned char> memory{0x21, 0x43, 0x05};
        std::int64_t shape[1] = {5};
    };
    for (auto const bits : {flags::none, flags::subbyte_padded}) {
        auto const t = [&] {
            return ferry::make_managed(bytes{{0x21, 0x43, 0x05, 4, 5}}, [&](bytes& b) {
                return ferry::tensor_view{static_cast<void*>(b.memory.data()), f4, {b.shape}, {}, ferry::cpu, bits};
            });
        };
        auto s = share(t());
        CHECK(s.descriptor().memories[0].length == (bits == flags::none ? 3 : 5));
        auto const a = map(s);
        CHECK(a.view().is_padded() == (bits != flags::none));
        CHECK(static_cast<unsigned char const*>(a.view().data())[2] == 0x05);
    }
}

TEST_CASE("segments are accessible to their user only") {
    auto const old = umask(0777);
    auto s = share(tensor({4}));
    umask(old);
    struct stat facts = {};
    REQUIRE(stat(path(s).c_str(), &facts) == 0);
    CHECK((facts.st_mode & 07777) == 0600);
    CHECK(facts.st_uid == geteuid());
    REQUIRE(chmod(path(s).c_str(), 0644) == 0);
    support::fails(errc::permission, [&] { map(s); }, {"0", "one user"});
    REQUIRE(chmod(path(s).c_str(), 0600) == 0);
}

TEST_CASE("a segment that another user owns is not opened" * doctest::skip(support::lacks_root())) {
    auto s = share(tensor({4}));
    REQUIRE(chown(path(s).c_str(), 12345, 12345) == 0);
    support::fails(errc::permission, [&] { map(s); }, {"12345"});
}

TEST_CASE("closing ends attaches immediately, and importers keep the memory") {
    session importer;
    auto s = share(tensor({3}));
    auto const d = s.descriptor();
    auto const before = attach(d, {.session = &importer});
    CHECK(s.is_open());
    s.close();
    s.close();
    CHECK_FALSE(s.is_open());
    support::fails(errc::exporter_gone, [&] { map(s); });
    // Cached, and closed.
    support::fails(errc::exporter_gone, [&] { static_cast<void>(attach(d, {.session = &importer})); });
    CHECK(values(before) == std::vector<float>{0, 1, 2});
    CHECK(values(s.view()) == std::vector<float>{0, 1, 2});
    CHECK(support::segments(getpid()).empty());
    auto const own = s.tensor();
    s = {};
    CHECK(values(own) == std::vector<float>{0, 1, 2});
    CHECK(values(before) == std::vector<float>{0, 1, 2});
}

TEST_CASE("destroying a share closes it, and so does an assignment") {
    {
        auto s = share(tensor({3}));
        CHECK(support::segments(getpid()).size() == 1);
        auto const old = s.descriptor();
        s = share(tensor({4}));
        CHECK(support::segments(getpid()).size() == 1);
        support::fails(errc::exporter_gone, [&] { static_cast<void>(attach(old)); });
        auto moved = std::move(s);
        CHECK(values(map(moved)).size() == 4);
        CHECK_FALSE(s);  // NOLINT: a moved-from share is empty
        s.close();
    }
    CHECK(support::segments(getpid()).empty());
}

TEST_CASE("storage that is already shared is shared again without a copy, and each share is closed separately") {
    session own;
    auto s = share(tensor({2, 3}), {.session = &own});
    auto again = share(s.tensor(), {.session = &own});
    auto part = share(restrided(s.tensor(), 5, {2}, {-3}), {.session = &own, .copy = copy_policy::never});
    CHECK_FALSE(again.copied());
    CHECK_FALSE(part.copied());
    CHECK(again.view().data() == s.view().data());
    CHECK(again.descriptor().memories[0].name != s.descriptor().memories[0].name);
    CHECK(values(map(part)) == std::vector<float>{5, 2});
    s.close();
    support::fails(errc::exporter_gone, [&] { map(s); });
    auto const a = map(again);
    a.as<float, 2>()(1, 2) = 55;
    CHECK(values(map(part)) == std::vector<float>{55, 2});
    auto third = share(s.tensor(), {.session = &own});  // by the name of `again`
    CHECK_FALSE(third.copied());
    again.close();
    part.close();
    CHECK(values(map(third))[5] == 55);
    third.close();
    CHECK(support::segments(getpid()).empty());
    auto last = share(s.tensor(), {.session = &own});  // the segment has no valid name
    CHECK(last.copied());
    support::fails(errc::copy_needed,
                   [&] { static_cast<void>(share(third.tensor(), {.session = &own, .copy = copy_policy::never})); });
}

TEST_CASE("copy_policy::always copies memory that is already shared") {
    session own;
    auto s = share(tensor({3}), {.session = &own});
    auto copy = share(s.tensor(), {.session = &own, .copy = copy_policy::always});
    CHECK(copy.copied());
    write(map(copy), 0, 9);
    CHECK(values(s.view())[0] == 0);
}

TEST_CASE("sessions do not know the shares of other sessions") {
    session one, other;
    auto s = share(tensor({3}), {.session = &one});
    CHECK(share(s.tensor(), {.session = &other}).copied());
}

TEST_CASE("an attached tensor is shared again without a copy, and outlives the first exporter") {
    session importer;
    auto first = share(tensor({3}));
    auto second = share(attach(first.descriptor(), {.session = &importer}), {.session = &importer});
    CHECK_FALSE(second.copied());
    auto const a = map(second);
    write(first.tensor(), 1, 11);
    CHECK(values(a)[1] == 11);
    first.close();
    CHECK(values(map(second))[1] == 11);
    auto read_only = share(tensor({3}, flags::read_only));
    auto onward = share(attach(read_only.descriptor(), {.session = &importer}), {.session = &importer});
    CHECK(map(onward).is_read_only());
}

TEST_CASE("memory of the shared space is shared in place") {
    session own;
    ferry::ipc::shared_space space{own};
    std::int64_t const shape[] = {1000};
    ferry::buffer<ferry::ipc::shared_space> memory{4000, space};
    CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % 4096 == 0);
    auto* const p = static_cast<float*>(memory.data());
    p[999] = 7;
    auto t = ferry::make_managed(std::move(memory), ferry::tensor_view{p, {shape}});
    auto s = share(std::move(t), {.session = &own, .copy = copy_policy::never});
    CHECK_FALSE(s.copied());
    CHECK(s.view().data() == p);
    auto const a = map(s);
    CHECK(values(a)[999] == 7);
    p[0] = 3;
    CHECK(values(a)[0] == 3);
    s = {};
    CHECK(values(a)[0] == 3);
    CHECK(support::segments(getpid()).empty());
    support::fails(errc::alignment, [&] { static_cast<void>(space.allocate(10, 8192)); });
    void* const none = space.allocate(0);
    CHECK(none != nullptr);
    space.deallocate(none, 0);
    CHECK(support::segments(getpid()).empty());
}

TEST_CASE(
    "memory of a closed share is shared again in place if it has a file descriptor, and copied with the reason if not") {
    for (auto const kind : {ferry::ipc::segment_kind::named, ferry::ipc::segment_kind::anonymous}) {
        bool const is_named = kind == ferry::ipc::segment_kind::named;
        session own{{.segments = kind}};
        auto s = share(tensor({3}), {.session = &own});
        auto const open = share(s.tensor(), {.session = &own, .copy = copy_policy::never});
        CHECK(open.copied().reason == nullptr);
        s.close();
        auto const again = share(s.tensor(), {.session = &own});  // the other share still names the memory
        CHECK(again.view().data() == s.view().data());
        auto alone = share(tensor({3}), {.session = &own});
        alone.close();
        auto const late = share(alone.tensor(), {.session = &own});
        CHECK(bool{late.copied()} == is_named);
        CHECK((late.view().data() != alone.view().data()) == is_named);
        CHECK((late.copied().reason != nullptr) == is_named);
        CHECK(values(late.view()) == std::vector<float>{0, 1, 2});
        if (!is_named) continue;
        CHECK(std::string{late.copied().reason}.starts_with("its share is closed"));
        support::fails(errc::copy_needed,
                       [&] { static_cast<void>(share(alone.tensor(), {.session = &own, .copy = copy_policy::never})); },
                       {"its share is closed"});
        CHECK(std::string{share(tensor({3})).copied().reason} == "it is not in shared memory");
    }
}

TEST_CASE("a full /dev/shm is an error, and no segment is left") {
    session own;
    ferry::ipc::shared_space space{own};
    auto const all = std::filesystem::space("/dev/shm").capacity;
    int const claims = claims_made;
    support::fails(errc::out_of_memory, [&] { static_cast<void>(space.allocate(all + 1)); }, {"/dev/shm", "free memory there"});
    CHECK(claims_made == claims);  // fails before it allocates pages
    support::fails(errc::overflow, [&] { static_cast<void>(space.allocate(SIZE_MAX / 2)); });
    support::fails(errc::overflow, [&] { static_cast<void>(space.allocate(SIZE_MAX)); });
    CHECK(support::segments(getpid()).empty());
}

TEST_CASE("free space that another process takes before the allocation is an error, and no segment is left") {
    session own;
    ferry::ipc::shared_space space{own};
    claims_that_fail = 1;
    support::fails(errc::out_of_memory, [&] { static_cast<void>(space.allocate(80'000)); }, {"/dev/shm", "free memory there"});
    CHECK(claims_that_fail == 0);
    CHECK(support::segments(getpid()).empty());
    space.deallocate(space.allocate(80'000), 80'000);
}

TEST_CASE("a /dev/shm without a limit, which reports 0 blocks, is usable" * doctest::skip(lacks_small_shm())) {
    CHECK(support::in_child([] {
              if (!enter_small_shm() || mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=0") != 0) return 1;
              auto const s = share(tensor({3}));
              return values(s.view()).size() == 3 ? 0 : 2;
          }) == 0);
}

TEST_CASE("a /dev/shm that fills up never ends in SIGBUS" * doctest::skip(lacks_small_shm())) {
    int const status = support::in_child([] {
        if (!enter_small_shm()) return 6;
        session own;
        ferry::ipc::shared_space space{own};
        std::vector<void*> untouched;
        try {
            while (untouched.size() < 100) untouched.push_back(space.allocate(80'000));
        } catch (ferry::error const& e) {
            if (e.code() != errc::out_of_memory || untouched.size() < 5) return 5;
        }
        for (void* const p : untouched) std::memset(p, 1, 80'000);
        for (void* const p : untouched) space.deallocate(p, 80'000);
        std::vector<ferry::ipc::shared> kept;
        try {
            for (int i = 0; i < 100; ++i) {
                kept.push_back(share(tensor({20'000})));
                if (values(kept.back().view())[19'999] != 19'999) return 1;
            }
        } catch (ferry::error const& e) {
            auto const here = support::segments().size();
            if (e.code() != errc::out_of_memory || kept.size() < 5 || here != kept.size()) return 2;
            kept.pop_back();
            return share(tensor({20'000})).is_open() ? 0 : 3;
        }
        return 4;
    });
    CHECK(status == 0);
}

TEST_CASE("of two threads that need the last free space at most one gets it, and the other leaves no segment" *
          doctest::skip(lacks_small_shm())) {
    int const status = support::in_child([] {
        if (!enter_small_shm()) return 6;
        session own;
        ferry::ipc::shared_space space{own};
        constexpr std::size_t most = 600'000;  // of a MiB
        int served = 0;
        for (int round = 0; round < 200; ++round) {
            void* got[2] = {};
            int failed[2] = {};
            auto const want = [&](int i) {
                try {
                    got[i] = space.allocate(most);
                    std::memset(got[i], 1, most);
                } catch (ferry::error const& e) {
                    failed[i] = e.code() == errc::out_of_memory ? 1 : 2;
                }
            };
            std::thread other{want, 1};
            want(0);
            other.join();
            if (failed[0] + failed[1] == 0 || failed[0] == 2 || failed[1] == 2) return 1;
            for (void* const p : got)
                if (p != nullptr) space.deallocate(p, most), ++served;
            if (!support::segments().empty()) return 2;
            void* const whole = space.allocate(most);  // all of it is free again
            std::memset(whole, 1, most);
            space.deallocate(whole, most);
        }
        return served > 0 ? 0 : 3;
    });
    CHECK(status == 0);
}

TEST_CASE("a fresh segment is written without a fault for each page") {
    session own;
    ferry::ipc::shared_space space{own};
    constexpr std::ptrdiff_t pages = 1024;
    auto const page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), bytes = pages * page;
    void* const p = space.allocate(bytes);
    // A word for each page; bit 63: it is mapped.
    unique_fd const map{open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)};
    std::vector<std::uint64_t> words(static_cast<std::size_t>(pages));
    auto const at = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(p) / page * 8);
    REQUIRE(pread(map.get(), words.data(), static_cast<std::size_t>(pages * 8), at) == static_cast<ssize_t>(pages * 8));
    auto const mapped = std::ranges::count_if(words, [](std::uint64_t w) { return w >> 63 != 0; });
    if (madvise(p, 1, 23) == 0) CHECK(mapped == pages);  // MADV_POPULATE_WRITE: Linux 5.14
    space.deallocate(p, bytes);
}

TEST_CASE("a segment can have any number of shares, which are closed one by one") {
    session own;
    auto s = share(tensor({3}), {.session = &own});
    std::vector<ferry::ipc::shared> more;
    for (int i = 1; i < 100; ++i) more.push_back(share(s.tensor(), {.session = &own, .copy = copy_policy::never}));
    CHECK(support::segments(getpid()).size() == 100);
    CHECK(own.counts().shares == 100);
    s.close();
    more.resize(1);
    CHECK(values(map(more[0])).size() == 3);
    CHECK(support::segments(getpid()).size() == 1);
}

TEST_CASE("a forked child neither removes nor closes the shares of its parent") {
    session own;
    ferry::ipc::shared_space space{own};
    void* const memory = space.allocate(100);
    auto s = share(tensor({3}), {.session = &own});
    auto const count = support::segments(getpid()).size();
    CHECK(support::in_child([&] {
              space.deallocate(memory, 100);
              s.close();
              s = {};
              own.close_all();
              static_cast<void>(own.collect());
              return 0;
          }) == 0);
    CHECK(support::segments(getpid()).size() == count);
    CHECK(values(map(s)).size() == 3);
    CHECK(support::in_child([&] {  // shares and attaches of its own
              auto mine = share(tensor({4}), {.session = &own});
              auto again = share(s.tensor(), {.session = &own});
              auto const theirs = attach(s.descriptor(), {.session = &own});
              auto const ours = attach(mine.descriptor(), {.session = &own});
              theirs.as<float, 1>()(0) = 77;
              bool const good = s.readers() == 1 && !again.copied() && ours.view().data() == mine.view().data();
              again.close();
              mine.close();
              return good && support::segments(getpid()).empty() ? 0 : 1;
          }) == 0);
    CHECK(values(s.view())[0] == 77);
    CHECK(s.readers() == 0);
    CHECK(values(map(s))[0] == 77);
    space.deallocate(memory, 100);
}

TEST_CASE("a close says that the name stays when the process may no longer remove it" *
          doctest::skip(support::lacks_root())) {
    CHECK(support::in_child([] {
              auto s = share(tensor({3})), other = share(tensor({3}));
              if (!other.close() || !other.close()) return 1;
              if (::setresuid(65534, 65534, 65534) != 0 || s.close()) return 2;
              return s.is_open() || !s.close() ? 3 : 0;  // the second close has no effect
          }) == 0);
    CHECK(support::segments().size() == 1);
    static_cast<void>(share(tensor({3})));  // of the user that shared
    CHECK(support::segments().empty());
}

TEST_CASE("a session can close all open shares at the end of a process") {
    session own;
    auto a = share(tensor({3}), {.session = &own}), b = share(tensor({3}), {.session = &own});
    own.close_all();
    CHECK_FALSE(a.is_open());
    CHECK_FALSE(b.is_open());
    CHECK(own.counts().shares == 0);
    CHECK(support::segments(getpid()).empty());
}

TEST_CASE("device memory needs a back end with handles, and pinned memory is copied") {
    using ferry::device_type;
    support::sim_system sim{{device_type::cuda, 0}, {device_type::cuda_host, 0}};
    std::int64_t const shape[] = {4};
    auto const make = [&](ferry::device where) {
        auto memory = sim.make_memory(where, 16);
        auto* const p = memory.data();
        return ferry::make_managed(std::move(memory),
                                   ferry::tensor_view{p, ferry::dtype_of<float>, {shape}, {}, where});
    };
    support::fails(errc::no_backend, [&] { static_cast<void>(share(make({device_type::cuda, 0}))); },
                   {"ferry/cuda/ipc.hpp"});
    support::fails(errc::no_backend, [&] { static_cast<void>(share(make({device_type::cuda, 0}), sim)); },
                   {"ferry/cuda/ipc.hpp"});
    support::fails(errc::no_backend, [&] { static_cast<void>(share(make({device_type::cuda_host, 0}))); });
    auto pinned = make({device_type::cuda_host, 0});
    auto const stream = sim.make_stream(device_type::cuda_host);
    auto gate = sim.close(stream);
    auto block = sim.make_memory({device_type::cuda_host, 0}, 16);
    float const data[] = {5, 6, 7, 8};
    sim.write(stream, block.block(), data, sizeof data);
    auto* const p = block.data();
    auto late = ferry::make_managed(
        std::move(block), ferry::tensor_view{p, ferry::dtype_of<float>, {shape}, {}, {device_type::cuda_host, 0}});
    std::thread opener{[&] {
        sim.until_host_waits();
        gate.open();
    }};
    auto s = share(std::move(late), {.ready_on = stream}, sim);
    opener.join();
    CHECK(s.copied());
    CHECK(values(map(s)) == std::vector<float>{5, 6, 7, 8});
    CHECK(map(s).device() == ferry::cpu);
    auto empty = share(restrided(make({device_type::cuda, 0}), 0, {0}, {1}));
    CHECK(map(empty).device().type == device_type::cuda);
}

namespace {

/// An array that can only be moved.
struct movable {
    std::unique_ptr<float[]> elements = std::make_unique<float[]>(4);
    std::int64_t extents[1] = {4};
};
/// An array that contains its elements.
struct inside {
    float elements[4] = {1, 2, 3, 4};
};

}  // namespace

template <>
struct ferry::array_traits<movable> {
    static tensor_view view(movable& a) { return {a.elements.get(), {a.extents}}; }
};
template <>
struct ferry::array_traits<inside> {
    static inplace_view<1> view(inside& a) { return {a.elements, {4}}; }
};

TEST_CASE("D25: an array that is moved into a share is unchanged when the share fails, and moved last") {
    movable array;
    array.elements[3] = 4;
    fails(errc::copy_needed, [&] { static_cast<void>(share(std::move(array), {.copy = copy_policy::never})); });
    REQUIRE(array.elements != nullptr);
    claims_that_fail = 1;
    fails(errc::out_of_memory, [&] { static_cast<void>(share(std::move(array), {})); });
    REQUIRE(array.elements != nullptr);
    array.extents[0] = -1;
    fails(errc::shape, [&] { static_cast<void>(share(std::move(array), {})); });
    REQUIRE(array.elements != nullptr);
    array.extents[0] = 4;
    auto const s = share(std::move(array), {});
    CHECK(array.elements == nullptr);
    CHECK(values(map(s)).at(3) == 4);
    auto const copied = share(inside{}, {});
    CHECK(values(map(copied)).at(3) == 4);
    fails(errc::copy_needed, [] { static_cast<void>(share(inside{}, {.copy = copy_policy::never})); });
}

TEST_CASE("an array of any library is shared by its adapter") {
    support::numbers n = support::make_numbers({2, 2});
    auto s = share(ferry::make_managed(std::move(n), [](support::numbers& x) { return x.view(); }), ferry::host_only);
    CHECK(values(map(s)).size() == 4);
}
