// Anonymous segments, which are attached by their file descriptor.
#include <ferry/column.hpp>
#include <ferry/column/concat.hpp>
#include <ferry/ipc.hpp>
#include <ferry/wire/binary.hpp>

#include <support/fails.hpp>
#include <support/ipc.hpp>
#include <support/process.hpp>
#include <support/random_columns.hpp>
#include <support/sim_space.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

using ferry::errc;
using ferry::flags;
using ferry::ipc::attach;
using ferry::ipc::segment_kind;
using ferry::ipc::session;
using ferry::ipc::share;
using ferry::ipc::shared;
using ferry::ipc::unique_fd;
using support::tensor;
using support::values;

namespace {

constexpr ferry::ipc::session_options anonymous{.segments = segment_kind::anonymous};

ferry::managed_tensor attach_by(int file, ferry::wire::descriptor const& d, session* in = nullptr) {
    return attach(d, {.session = in, .files = {&file, 1}});
}

}  // namespace

TEST_CASE("an anonymous segment is attached only through its file descriptor") {
    auto const named = support::segments(::getpid());
    session exporter{anonymous};
    shared s = share(tensor({3}), {.session = &exporter});
    CHECK(support::segments(::getpid()) == named);
    REQUIRE(s.file() >= 0);
    CHECK((::fcntl(s.file(), F_GETFD) & FD_CLOEXEC) != 0);
    auto const d = ferry::wire::from_bytes(ferry::wire::to_bytes(s.descriptor()));
    CHECK(d.memories[0].name.starts_with("/ferry-memfd-"));

    auto const a = attach_by(s.file(), d);
    CHECK(values(a) == std::vector<float>{0, 1, 2});
    *static_cast<float*>(a.view().writable_data()) = 9;
    CHECK(values(s.tensor()) == std::vector<float>{9, 1, 2});
    CHECK(s.readers() == 1);
    support::fails(errc::permission, [&] { static_cast<void>(attach(d)); });
    auto const alias = attach(d, {.session = &exporter});  // an alias needs no file descriptor
    CHECK(alias.view().data() == s.view().data());

    int const file = ::fcntl(s.file(), F_DUPFD_CLOEXEC, 0);
    unique_fd const kept{file};
    s.close();
    support::fails(errc::exporter_gone, [&] { static_cast<void>(attach_by(file, d)); });
    CHECK(values(a) == std::vector<float>{9, 1, 2});

    shared const with_name = share(tensor({3}));
    CHECK(with_name.file() == -1);
    CHECK(values(attach_by(file, with_name.descriptor())) == std::vector<float>{0, 1, 2});  // file is not used
}

TEST_CASE("the size of an anonymous segment is sealed, and files whose size could change are refused") {
    session exporter{anonymous};
    shared const s = share(tensor({3000}), {.session = &exporter}),
                 other = share(tensor({3000}), {.session = &exporter});
    CHECK(::ftruncate(s.file(), 0) != 0);
    CHECK(::ftruncate(s.file(), 1 << 20) != 0);
    auto const refused = [&](errc code, int file) {
        CAPTURE(file);
        support::fails(code, [&] { static_cast<void>(attach_by(file, s.descriptor())); });
    };
    refused(errc::stale_handle, other.file());
    unique_fd const null{::open("/dev/null", O_RDWR | O_CLOEXEC)};
    refused(errc::permission, null.get());
    unique_fd const unsealed{::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    REQUIRE(::fchmod(unsealed.get(), 0600) == 0);
    REQUIRE(::ftruncate(unsealed.get(), 1 << 20) == 0);
    refused(errc::permission, unsealed.get());
    REQUIRE(::fcntl(unsealed.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    refused(errc::permission, unsealed.get());
    REQUIRE(::fcntl(unsealed.get(), F_ADD_SEALS, F_SEAL_GROW) == 0);
    refused(errc::stale_handle, unsealed.get());  // it has no control page
    unique_fd const small{::memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    REQUIRE(::fchmod(small.get(), 0600) == 0);
    REQUIRE(::fcntl(small.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    refused(errc::bad_descriptor, small.get());
    unique_fd const open_to_others{::memfd_create("open to others", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    REQUIRE(::fchmod(open_to_others.get(), 0644) == 0);
    refused(errc::permission, open_to_others.get());
    // A file with the contents of a segment in a file system without seals (tmpfs has them, disks do not).
    char path[] = "./ferry-no-memfd-XXXXXX";
    unique_fd const on_disk{::mkostemp(path, O_CLOEXEC)};
    REQUIRE(on_disk);
    ::unlink(path);
    std::vector<std::byte> bytes(1 << 16);
    auto const size = ::pread(s.file(), bytes.data(), bytes.size(), 0);
    REQUIRE(size > 0);
    REQUIRE(::pwrite(on_disk.get(), bytes.data(), static_cast<std::size_t>(size), 0) == size);
    refused(errc::permission, on_disk.get());
    refused(errc::argument, 1 << 20);  // not an open file descriptor
}

TEST_CASE("an anonymous segment is shared again in place, by its exporter and by importers") {
    session exporter{anonymous}, importer;
    ferry::ipc::shared_space const space{exporter};
    ferry::buffer<ferry::ipc::shared_space> memory{3 * sizeof(float), space};
    auto* const begin = reinterpret_cast<float*>(memory.data());
    begin[0] = 7;
    struct owner {
        ferry::buffer<ferry::ipc::shared_space> memory;
        [[nodiscard]] ferry::tensor_view view() {
            static constexpr std::int64_t shape[] = {3};
            return {reinterpret_cast<float*>(memory.data()), shape};
        }
    };
    auto made = ferry::make_managed(owner{std::move(memory)}, [](owner& o) { return o.view(); });
    shared first = share(std::move(made), {.session = &exporter, .copy = ferry::copy_policy::never});
    CHECK(first.view().data() == begin);
    CHECK_FALSE(first.copied());

    auto a = attach_by(first.file(), first.descriptor(), &importer);
    shared second = share(std::move(a), {.session = &importer, .copy = ferry::copy_policy::never});
    first = {};
    CHECK(second.file() >= 0);
    session third;
    auto const b = attach_by(second.file(), second.descriptor(), &third);
    CHECK(values(b)[0] == 7);
    // Also for a segment that is mapped already: the name alone does not tell whose it is.
    support::fails(errc::permission, [&] { static_cast<void>(attach(second.descriptor(), {.session = &third})); });
}

TEST_CASE("read-only anonymous segments are mapped read-only, and columns are shared like tensors") {
    session exporter{anonymous};
    shared const s = share(tensor({3}, flags::read_only), {.session = &exporter});
    auto const a = attach_by(s.file(), s.descriptor());
    CHECK(support::faults([&] { *static_cast<float volatile*>(const_cast<void*>(a.view().data())) = 1; }));

    auto const numbers = std::make_shared<std::vector<float> const>(std::vector<float>{1, 2, 3});
    ferry::column_buffer const buffers[] = {{}, {numbers->data(), 12}};
    shared const c =
        share(ferry::make_column({.format = "f", .length = 3, .buffers = buffers}, numbers), {.session = &exporter});
    REQUIRE(c.file() >= 0);
    int const file = c.file();
    auto const again = ferry::ipc::attach_column(c.descriptor(), {.files = {&file, 1}});
    CHECK(support::shown(again) == support::shown(c.column()));
}

TEST_CASE("no importer can write a read-only anonymous segment, and its readers are counted") {
    session exporter{anonymous}, importer;
    ferry::ipc::shared_space const space{exporter};
    shared s = share(tensor({3}, flags::read_only), {.session = &exporter});
    auto const writes = [](int file) {
        void* const page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (page != MAP_FAILED) ::munmap(page, 4096);
        return page != MAP_FAILED || ::pwrite(file, "x", 1, 0) == 1;
    };
    CHECK_FALSE(writes(s.file()));
    auto forged = s.descriptor();
    std::get<ferry::wire::tensor>(forged.root).flags = flags::none;
    support::fails(errc::permission, [&] { static_cast<void>(attach_by(s.file(), forged)); }, {"read-only"});
    {
        auto const a = attach_by(s.file(), s.descriptor(), &importer), b = attach_by(s.file(), s.descriptor());
        CHECK(s.readers() == 2);                 // mappings
        CHECK_FALSE(importer.sealed(a.view()));  // its exporter can write
    }
    CHECK(s.wait_for_readers({}));
    CHECK(importer.counts().unused == 1);
    {
        auto const a = attach_by(s.file(), s.descriptor(), &importer);
        CHECK(s.readers() == 1);
        support::process child{[&](support::talk to) { return to.hear() == 'e' && values(a)[2] == 2 ? 0 : 1; }};
        CHECK(s.readers() == 1);
        child.say('e');
        CHECK(child.wait() == 0);
    }
    CHECK(s.wait_for_readers({}));
    auto a = attach_by(s.file(), s.descriptor(), &importer);
    support::process child{[&](support::talk to) { return to.hear() == 'e' && values(a)[2] == 2 ? 0 : 1; }};
    auto again = share(std::move(a), {.session = &importer, .copy = ferry::copy_policy::never});
    CHECK(values(attach_by(again.file(), again.descriptor())) == std::vector<float>{0, 1, 2});
    again = {};
    CHECK_FALSE(s.wait_for_readers({}));  // the child reads
    child.say('e');
    CHECK(child.wait() == 0);
    CHECK(s.wait_for_readers({}));

    shared const writable = share(tensor({3}), {.session = &exporter});
    CHECK(writes(writable.file()));
    shared const part = share(support::restrided(writable.tensor(), 0, {2}, {1}), {.session = &exporter});
    CHECK_FALSE(part.copied());
    shared const other = share(support::restrided(s.tensor(), 0, {2}, {1}), {.session = &exporter});
    CHECK(other.descriptor().memories[0].name != s.descriptor().memories[0].name);
}

TEST_CASE("frozen memory cannot be written by any process, and is not frozen while one can") {
    session exporter{anonymous}, importer;
    ferry::ipc::share_options const frozen{.session = &exporter, .freeze = true};
    shared const s = share(tensor({3000}), frozen);
    CHECK(s.view().is_read_only());
    auto const a = attach_by(s.file(), s.descriptor(), &importer);
    CHECK(values(a)[2999] == 2999);
    CHECK(importer.sealed(a.view()));
    CHECK(exporter.sealed(s.view()));
    for (auto const* const p : {a.view().data(), s.view().data()})
        CHECK(support::faults([&] { *static_cast<float volatile*>(const_cast<void*>(p)) = 1; }));
    CHECK(values(s.tensor())[0] == 0);

    shared const open = share(tensor({3}), {.session = &exporter});
    auto t = attach_by(open.file(), open.descriptor());
    support::fails(errc::busy, [&] { static_cast<void>(share(open.tensor(), frozen)); }, {"drop"});
    CHECK_FALSE(exporter.sealed(open.view()));
    *static_cast<float*>(open.view().writable_data()) = 5;  // as before
    CHECK(values(t)[0] == 5);
    {
        auto const b = attach_by(open.file(), open.descriptor(), &importer);
        support::fails(errc::busy, [&] {
            static_cast<void>(
                share(attach_by(open.file(), open.descriptor(), &importer), {.session = &importer, .freeze = true}));
        });
    }
    importer.trim();
    t = {};
    {
        support::process child{[&](support::talk to) { return to.hear() == 'e' ? 0 : 1; }};  // it has the mapping
        support::fails(errc::busy, [&] { static_cast<void>(share(open.tensor(), frozen)); });
        child.say('e');
        CHECK(child.wait() == 0);
    }
    shared const late = share(open.tensor(), frozen);
    CHECK_FALSE(late.copied());
    CHECK(values(attach_by(late.file(), late.descriptor()))[0] == 5);
    support::fails(errc::permission, [&] { static_cast<void>(attach_by(open.file(), open.descriptor())); });

    support::fails(errc::argument, [] { static_cast<void>(share(tensor({3}), {.freeze = true})); }, {"segments"});
    auto const numbers = std::make_shared<std::vector<float> const>(std::vector<float>{1, 2, 3});
    ferry::column_buffer const buffers[] = {{}, {numbers->data(), 12}};
    shared const c = share(ferry::make_column({.format = "f", .length = 3, .buffers = buffers}, numbers), frozen);
    CHECK(exporter.sealed(c.view()));
    CHECK_FALSE(session{}.sealed(c.view()));
}

TEST_CASE("a column is sealed when all of its memories are frozen") {
    session exporter{anonymous}, importer;
    support::column_maker maker{5};
    auto const views = ferry::compact(maker.make("vu", 40, 1));
    auto const attached = [&](shared const& s) {
        return ferry::ipc::attach_column(s.descriptor(), {.session = &importer, .files = s.files()});
    };
    shared const frozen = share(views, {.session = &exporter, .freeze = true});
    shared const open = share(views, {.session = &exporter});
    auto const a = attached(frozen), b = attached(open);
    CHECK(importer.sealed(a));
    CHECK(exporter.sealed(frozen.column()));
    CHECK_FALSE(importer.sealed(b));
    CHECK_FALSE(exporter.sealed(a));  // of another session
    CHECK_FALSE(importer.sealed(views));
    CHECK_FALSE(importer.sealed(ferry::column{}));
    ferry::column const both[] = {a, b}, one[] = {a, a};
    CHECK_FALSE(importer.sealed(ferry::make_struct(both)));
    CHECK(importer.sealed(ferry::make_struct(one)));

    // The lengths of the data in memory that the exporter can write.
    shared const lengths = share(tensor({64}), {.session = &exporter});
    auto d = frozen.descriptor();
    d.memories.push_back(lengths.descriptor().memories[0]);
    auto& buffers_of_views = std::get<ferry::wire::node>(d.root).buffers;
    buffers_of_views.back() = {1, 0, 8 * (buffers_of_views.size() - 3)};
    int const files[] = {frozen.file(), lengths.file()};
    CHECK_FALSE(importer.sealed(ferry::ipc::attach_column(d, {.session = &importer, .files = files})));
}

TEST_CASE("a copy of writable memory whose share is gone stays writable") {
    session first, second{anonymous};
    auto s = share(tensor({4}, flags::read_only), {.session = &first});
    auto const a = std::make_shared<ferry::managed_tensor>(attach(s.descriptor(), {.session = &second}));
    s.close();
    std::int64_t const shape[] = {4};
    ferry::tensor_view const v{const_cast<void*>(a->view().data()), a->dtype(), shape, {}, ferry::cpu};
    auto const copy = share(ferry::make_managed(std::shared_ptr{a}, [&](auto&) { return v; }), {.session = &second});
    CHECK(copy.copied());
    CHECK_FALSE(copy.view().is_read_only());
    CHECK(values(attach_by(copy.file(), copy.descriptor())) == std::vector<float>{0, 1, 2, 3});
}

TEST_CASE("pinned memory is not frozen, and stays writable") {
    session exporter{anonymous};
    shared const s = share(tensor({3}), {.session = &exporter});
    void* const data = s.view().writable_data();
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    unique_fd reader{ends[0]}, writer{ends[1]};
    iovec const bytes{data, 12};
    if (::vmsplice(writer.get(), &bytes, 1, 0) != 12) {  // the pipe has the page until it is read
        MESSAGE("SKIPPED: this kernel does not move pages into a pipe");
        return;
    }
    auto const freeze = [&] { return share(s.tensor(), {.session = &exporter, .freeze = true}); };
    support::fails(errc::busy, [&] { static_cast<void>(freeze()); }, {"unpin"});
    *static_cast<float volatile*>(data) = 5;
    reader = unique_fd{};
    writer = unique_fd{};
    CHECK(values(freeze().tensor())[0] == 5);
}

TEST_CASE("anonymous segments leave no file descriptor and no mapping") {
    auto const files = support::open_files(), named = support::segments().size();
    auto const mapped = [] {
        std::ifstream maps{"/proc/self/maps"};
        std::size_t n = 0;
        for (std::string line; std::getline(maps, line);) n += line.find("ferry-memfd-") != line.npos;
        return n;
    };
    {
        session exporter{anonymous}, importer{{.unused_mappings = 0}};
        for (int i = 0; i < 1000; ++i) {
            shared const s = share(tensor({3}), {.session = &exporter});
            auto const a = attach_by(s.file(), s.descriptor(), &importer);
            CHECK(mapped() == 2 + (s.file() < 0));  // two mappings: the exporter's and the importer's
        }
    }
    CHECK(support::open_files() == files);
    CHECK(mapped() == 0);
    CHECK(support::segments().size() == named);
}
