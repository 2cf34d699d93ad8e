// GPU memory shared with processes that are killed or stopped at every step: no process hangs, the next one is served,
// and no memory is reused while a process may read it.
#include <ferry/cuda/ipc.hpp>
#include <ferry/ipc/attach.hpp>
#include <ferry/ipc/share.hpp>
#include <ferry/wire/binary.hpp>
#include <gpu/importer.hpp>
#include <gpu/plain_array.hpp>
#include <gpu/world.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace support;
using ferry::errc;
using enum support::order_of_work;
namespace cuda = ferry::cuda;
namespace ipc = ferry::ipc;
using std::chrono::milliseconds;

constexpr std::int64_t length = 65536;

/// Whether the importer's copy counts upwards.
bool counts_up(answer const& a) {
    auto const got = numbers(a);
    for (std::size_t i = 0; i < got.size(); ++i)
        if (got[i] != static_cast<int>(i & 255)) return false;
    return got.size() == static_cast<std::size_t>(length);
}

/// What an importer does until it is killed.
struct step {
    char const* name;
    std::function<void(importer&, std::vector<std::byte> const&)> reach;
};

}  // namespace

TEST_CASE("ipc: an importer killed at any step releases everything, and the next one attaches") {
    load_kernels();
    cuda::shareable back_end;
    ipc::session session;
    importer next_one;
    auto const attaches = [](importer& i, std::vector<std::byte> const& d) { REQUIRE(i.attach(d).code == errc::ok); };
    auto const copies_later = [&](importer& i, std::vector<std::byte> const& d) {
        attaches(i, d);
        REQUIRE(i.tell(hold).code == errc::ok);
        REQUIRE(i.tell(copy_later).code == errc::ok);
    };
    auto const after = [&attaches](int microseconds) {
        return [=](importer& i, std::vector<std::byte> const& d) {
            attaches(i, d);                                      // what takes long is done
            std::vector<std::byte> payload(8, std::byte{0xff});  // this GPU, no file
            payload.insert(payload.end(), d.begin(), d.end());
            i.begin(rounds, payload);
            ::usleep(static_cast<useconds_t>(microseconds));
        };
    };
    step const steps[] = {
        {"started", [](importer& i, auto const&) { REQUIRE(i.tell(usage).code == errc::ok); }},
        {"attached", attaches},
        {"work is queued", copies_later},
        {"dropped while work is queued",
         [&](importer& i, auto const& d) {
             copies_later(i, d);
             REQUIRE(i.tell(drop_later).code == errc::ok);
         }},
        {"dropped",
         [&](importer& i, auto const& d) {
             attaches(i, d);
             REQUIRE(i.tell(copy_later).code == errc::ok);
             REQUIRE(i.tell(finish).code == errc::ok);
             REQUIRE(i.tell(drop).code == errc::ok);
         }},
        {"soon in rounds", after(1357)},
        {"somewhere in rounds", after(29'753)},
    };
    for (auto const& one : steps) {
        CAPTURE(shown(one.name));
        test_stream const s;
        auto a = make_plain({length});
        count_up(a);
        std::weak_ptr<void> const alive = a.memory;
        auto shared = ipc::share(std::move(a), {.session = &session}, back_end);
        auto const described = text(shared);
        importer other;
        one.reach(other, described);
        other.kill();
        support::until("the readers of a dead importer to be gone", [&] { return shared.readers() == 0; });
        CHECK(shared.wait_for_readers(support::patience, s.token()));
        s.finish();  // nothing that the dead had queued holds it up
        REQUIRE(next_one.attach(described).code == errc::ok);
        REQUIRE(next_one.tell(copy_later).code == errc::ok);
        CHECK(counts_up(next_one.tell(finish)));
        REQUIRE(next_one.tell(drop).code == errc::ok);
        shared = {};
        static_cast<void>(next_one.usage());  // which unmaps it
        CHECK(session.collect(support::patience) == 0);
        CHECK(alive.expired());
    }
}

TEST_CASE("ipc: an exporter killed at any step is reported as ended, and its successor's memory is attached") {
    ipc::session session;
    cuda::shareable back_end;
    std::byte const seven[] = {std::byte{7}};
    using bytes = std::vector<std::byte>;
    auto const attach_here = [&](bytes const& d) {
        return ipc::attach(ferry::wire::from_bytes(d), {.session = &session}, back_end);
    };
    auto const shares = [&](importer& e, order_of_work how = share) {
        auto described = e.tell(how, seven);
        REQUIRE_MESSAGE(described.code == errc::ok, text_of(described));
        return std::move(described.bytes);
    };
    ferry::managed_tensor mine;
    struct {
        char const* name;
        std::function<bytes(importer&)> reach;  // answers what cannot be attached any more
    } const steps[] = {
        {"shared", [&](importer& e) { return shares(e); }},
        {"shared behind work that is never done", [&](importer& e) { return shares(e, share_held); }},
        {"attached here",
         [&](importer& e) {
             auto d = shares(e);
             mine = attach_here(d);
             return d;
         }},
        {"attached here, and closed",
         [&](importer& e) {
             auto d = shares(e);
             mine = attach_here(d);
             REQUIRE(e.tell(close_share).code == errc::ok);
             fails(errc::exporter_gone, [&] { static_cast<void>(attach_here(d)); });
             return d;
         }},
        {"somewhere in rounds",
         [&](importer& e) {
             auto d = shares(e);
             e.begin(share_rounds);
             ::usleep(23'456);
             return d;
         }},
    };
    auto exporter = std::make_unique<importer>();
    for (auto const& one : steps) {
        CAPTURE(shown(one.name));
        auto const gone = one.reach(*exporter);
        exporter->kill();
        fails(errc::exporter_gone, [&] { static_cast<void>(attach_here(gone)); });
        mine = {};  // what was attached can be dropped
        session.trim();
        CHECK(left_no_error());
        exporter = std::make_unique<importer>();
        auto const host = ferry::to_host(attach_here(shares(*exporter)), back_end, ferry::already_ready);
        auto const* const p = static_cast<std::byte const*>(host.view().data());
        CHECK(std::all_of(p, p + host.view().nbytes(), [](std::byte b) { return b == std::byte{7}; }));
    }
}

TEST_CASE("ipc: memory that a stopped importer reads is neither freed nor reused") {
    bool goes_on = false;
    SUBCASE("until it goes on and drops the tensor") { goes_on = true; }
    SUBCASE("until it is killed") {}
    cuda::shareable back_end;
    ipc::session session;
    auto a = make_plain({length});
    count_up(a);
    std::weak_ptr<void> const alive = a.memory;
    auto const* const at = a.memory.get();
    auto shared = ipc::share(std::move(a), {.session = &session}, back_end);
    importer other;
    REQUIRE(other.attach(text(shared)).code == errc::ok);
    other.signal(SIGSTOP);
    CHECK_FALSE(shared.wait_for_readers({}));
    shared.close();  // returns while the importer is stopped
    shared = {};
    CHECK(session.collect(milliseconds{200}) == 1);
    CHECK(!alive.expired());
    // Twice as much memory is allocated elsewhere.
    for (int i = 0; i < 2; ++i) {
        auto const more = make_plain({length});
        fill(more.memory.get(), 0xEE, plain_array::bytes);
        CHECK((more.memory.get() + plain_array::bytes <= at || at + plain_array::bytes <= more.memory.get()));
    }
    if (goes_on) {
        other.signal(SIGCONT);
        CHECK(counts_up(other.tell(elements)));
        static_cast<void>(other.usage());  // unmaps it
    } else {
        other.kill();
    }
    CHECK(session.collect(support::patience) == 0);
    CHECK(alive.expired());
}
