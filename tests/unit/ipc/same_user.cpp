// What a process of the same user can do to a share: the table in docs/SECURITY.md.
#include <ferry/ipc.hpp>

#include <support/fails.hpp>
#include <support/ipc.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using ferry::errc;
using ferry::flags;
using ferry::ipc::attach;
using ferry::ipc::segment_kind;
using ferry::ipc::session;
using ferry::ipc::share;
using ferry::ipc::unique_fd;
using ferry::ipc::detail::control_page;
using ferry::ipc::detail::segment;
using support::tensor;
using support::values;

namespace {

constexpr ferry::ipc::session_options anonymous{.segments = segment_kind::anonymous};

std::string path(ferry::ipc::shared const& s) { return "/dev/shm" + s.descriptor().memories[0].name; }
unique_fd opened(ferry::ipc::shared const& s) { return unique_fd{::open(path(s).c_str(), O_RDWR | O_CLOEXEC)}; }
off_t data_begin() { return static_cast<off_t>(ferry::ipc::detail::page_bytes()); }
bool punch(int file) { return ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, data_begin(), 4096) == 0; }

/// A segment of an attacker under the name of a share.
segment impostor(ferry::wire::descriptor const& d, float value) {
    auto const& m = d.memories[0];
    auto made = segment::create(m.name, m.allocation, m.id);
    auto* const data = reinterpret_cast<float*>(made.data());
    for (std::uint64_t i = 0; i < m.allocation / 4; ++i) data[i] = value;
    return made;
}
ferry::managed_tensor attach_by(int file, ferry::wire::descriptor const& d, session& in) {
    return attach(d, {.session = &in, .files = {&file, 1}});
}

}  // namespace

TEST_CASE(
    "same user: a process that shrinks a named segment ends its users by SIGBUS; anonymous ones cannot be shrunk") {
    auto const end_by_signal = [] { ::signal(SIGBUS, SIG_DFL); };  // sanitizers handle it otherwise
    CHECK(support::in_child([&] {
              end_by_signal();
              auto const s = share(tensor({100'000}));
              if (::truncate(path(s).c_str(), 0) != 0) return 1;
              return static_cast<int>(s.readers());
          }) == 128 + SIGBUS);
    auto const named = share(tensor({100'000}));
    auto const a = attach(named.descriptor());
    CHECK(::truncate(path(named).c_str(), data_begin() + 4096) == 0);
    CHECK(support::in_child([&] {
              end_by_signal();
              return static_cast<int>(values(a).size());
          }) == 128 + SIGBUS);
    CHECK(named.readers() == 1);  // the control page exists

    session own{anonymous};
    auto const s = share(tensor({100'000}), {.session = &own});
    CHECK(::ftruncate(s.file(), 0) != 0);
    CHECK(::ftruncate(s.file(), data_begin()) != 0);
}

TEST_CASE("same user: a read-only named share can be written through its file; a read-only anonymous one cannot") {
    auto const named = share(tensor({3}, flags::read_only));
    auto const a = attach(named.descriptor());
    float const forged = 9;
    CHECK(::pwrite(opened(named).get(), &forged, sizeof forged, data_begin()) == sizeof forged);
    CHECK(values(a) == std::vector<float>{9, 1, 2});

    session own{anonymous};
    auto const s = share(tensor({3}, flags::read_only), {.session = &own});
    CHECK(::pwrite(s.file(), &forged, sizeof forged, data_begin()) < 0);
    CHECK_FALSE(punch(s.file()));
    CHECK(values(s.view()) == std::vector<float>{0, 1, 2});
}

TEST_CASE("same user: a forged control page hides or invents readers, and no wait exceeds its limit") {
    auto s = share(tensor({3}));
    auto const a = attach(s.descriptor());
    auto const file = opened(s);
    auto const forge = [&](int value) {
        std::vector<std::byte> const page(sizeof(control_page) - 64, static_cast<std::byte>(value));
        CHECK(::pwrite(file.get(), page.data(), page.size(), 64) == static_cast<ssize_t>(page.size()));
    };
    CHECK(s.readers() == 1);
    forge(0);
    CHECK(s.readers() == 0);
    forge(0x7f);
    CHECK(s.readers() > 1);
    CHECK_FALSE(s.wait_for_readers({}));
    CHECK(values(a) == std::vector<float>{0, 1, 2});
}

TEST_CASE("same user: locks on all bytes of a segment make attaches fail with an error") {
    for (bool const is_named : {true, false}) {
        session own{is_named ? ferry::ipc::session_options{} : anonymous};
        auto const s = share(tensor({3}), {.session = &own});
        int const file = s.file();
        {
            unique_fd const attacker{is_named ? opened(s).release() : ferry::ipc::detail::reopen(file)};
            for (off_t at = 1; at <= 2 * control_page::max_importers + 3; ++at)
                REQUIRE(ferry::ipc::detail::lock(attacker.get(), F_WRLCK, at));
            support::fails(errc::out_of_memory,
                           [&] { static_cast<void>(attach(s.descriptor(), {.files = {&file, 1}})); },
                           {"locked", "another process of this user"});
            CHECK(s.readers() > 0);  // a lock counts as a reader
        }
        CHECK(s.readers() == 0);
        CHECK(values(attach(s.descriptor(), {.files = {&file, 1}})).size() == 3);
    }
}

TEST_CASE("same user: a name can be removed or taken by another segment; existing mappings keep their memory") {
    auto const s = share(tensor({3}));
    session own;
    auto const before = attach(s.descriptor(), {.session = &own});
    CHECK(::unlink(path(s).c_str()) == 0);
    support::fails(errc::exporter_gone, [&] { static_cast<void>(attach(s.descriptor())); });
    auto const other = impostor(s.descriptor(), 9);
    CHECK(values(attach(s.descriptor())) == std::vector<float>{9, 9, 9});
    CHECK(values(before) == std::vector<float>{0, 1, 2});
    CHECK(other.unlink(s.descriptor().memories[0].name));
}

TEST_CASE("same user: an anonymous segment under the name of another one is not taken for it") {
    session own{anonymous}, importer;
    auto const frozen = share(tensor({3}), {.session = &own, .freeze = true}),
               open = share(tensor({3}, flags::read_only), {.session = &own});
    for (auto const* s : {&frozen, &open}) {
        auto const& d = s->descriptor();
        auto const other = impostor(d, 9);
        REQUIRE(other.freeze());
        CHECK(values(attach_by(other.file(), d, importer)) == std::vector<float>{9, 9, 9});
        auto const a = attach_by(s->file(), d, importer);
        CHECK(values(a) == std::vector<float>{0, 1, 2});
        CHECK(importer.sealed(a.view()) == (s == &frozen));
        support::fails(errc::permission, [&] { static_cast<void>(attach(d, {.session = &importer})); }, {"files"});
    }
}

TEST_CASE("same user: frozen memory that lacks pages does not count as sealed") {
    session own{anonymous}, importer;
    auto const sparse = share(tensor({3000}), {.session = &own}), whole = share(tensor({3000}), {.session = &own});
    CHECK(punch(sparse.file()));
    for (auto const* one : {&sparse, &whole}) {
        auto const frozen = share(one->tensor(), {.session = &own, .freeze = true});
        CHECK((::fcntl(frozen.file(), F_GET_SEALS) & F_SEAL_WRITE) != 0);
        auto const a = attach_by(frozen.file(), frozen.descriptor(), importer);
        CHECK(importer.sealed(a.view()) == (one == &whole));
    }
}
