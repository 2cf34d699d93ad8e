// Shares between unrelated programs, which exchange only a line of text and are killed at any point.
#include <ferry/ipc.hpp>
#include <ferry/wire/json.hpp>

#include <support/fails.hpp>
#include <support/ipc.hpp>
#include <support/ipc_peer.hpp>

#include <doctest/doctest.h>

#include <sys/ptrace.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

using ferry::errc;
using ferry::ipc::attach;
using ferry::ipc::session;
using ferry::ipc::share;
using support::peer;
using support::tensor;
using support::values;

namespace {

std::string const program = FERRY_IPC_PEER;

constexpr auto every_call = PTRACE_SYSCALL, every_instruction = PTRACE_SINGLESTEP;

/// Kills a traced program at the `step`-th stop after its first signal. False when it raised its second signal before.
bool kill_at(peer& p, std::size_t step, __ptrace_request how) {
    std::size_t stops = 0;
    bool begun = false;
    for (int status = 0; waitpid(p.pid(), &status, 0) == p.pid();) {
        if (!WIFSTOPPED(status)) return false;
        int const signal = WSTOPSIG(status);
        if (signal == SIGUSR2) return false;
        if (begun && stops++ == step) return true;  // ~peer kills it
        begun = begun || signal == SIGUSR1;
        ptrace(begun ? how : PTRACE_CONT, p.pid(), nullptr, nullptr);
    }
    return false;
}

/// Checks that hold after an exporter was killed at any point.
void check_after_exporter(pid_t killed) {
    auto s = share(tensor({3}));  // removes stale segments
    CHECK(support::segments(killed).empty());
    CHECK(values(attach(s.descriptor())) == std::vector<float>{0, 1, 2});
}

void check_after_importer(ferry::ipc::shared& s) {
    CHECK(s.readers() == 0);
    CHECK(s.wait_for_readers({}));
    auto const& m = s.descriptor().memories[0];
    auto const page =
        ferry::ipc::detail::segment::open(m.name, m.allocation, m.id, ferry::ipc::detail::access_mode::read_write);
    CHECK_FALSE(page.control().is_mapped(page.locks()));
    CHECK(values(attach(s.descriptor()))[999] == 999);
    CHECK(s.readers() == 0);
}

}  // namespace

TEST_CASE("every kind of tensor is attached by an unrelated program, and the reverse") {
    struct {
        char const* kind;
        std::vector<float> expected;
    } const kinds[] = {
        {"whole", {0, 1, 2, 3, 4, 5}},     {"sliced", {2, 3, 4}},    {"strided", {1, 5, 9}}, {"reversed", {3, 2, 1, 0}},
        {"broadcast", {0, 1, 0, 1, 0, 1}}, {"read-only", {0, 1, 2}}, {"empty", {}},          {"scalar", {0}}};
    for (auto const& [kind, expected] : kinds) {
        CAPTURE(support::shown(kind));
        peer exporter{{program, "export", kind}}, importer{{program, "import"}};
        auto const d = support::from_hex(exporter.hear());
        importer.tell(support::to_hex(d));
        std::string said;
        for (auto const v : expected) said += std::to_string(static_cast<int>(v)) + ' ';
        CHECK(importer.hear() == said + (std::string{kind} == "read-only" ? "read-only" : "writable"));
        auto const t = attach(d);
        CHECK(values(t) == expected);
        exporter.tell("");
        CHECK(exporter.finish() == 0);
        support::fails(errc::exporter_gone, [&] { static_cast<void>(attach(d)); });
        CHECK(values(t) == expected);
        importer.tell("");
        CHECK(importer.finish() == 0);
    }
}

TEST_CASE("whatever an exporter killed at any system call of a share leaves is removed by the next one") {
    std::size_t step = 0;
    for (;; ++step) {
        peer exporter{{program, "share"}, true};
        if (!kill_at(exporter, step, every_call)) break;
        auto const pid = exporter.pid();
        exporter.kill();
        CHECK(exporter.finish() == 128 + SIGKILL);
        check_after_exporter(pid);
    }
    CHECK(step > 20);
    MESSAGE(step, " steps");
}

TEST_CASE("an importer killed at any system call of an attach does not count as a reader") {
    auto s = share(tensor({1000}));
    std::size_t step = 0;
    for (;; ++step) {
        peer importer{{program, "attach"}, true};
        importer.tell(support::to_hex(s.descriptor()));
        if (!kill_at(importer, step, every_call)) break;
        importer.kill();
        CHECK(importer.finish() == 128 + SIGKILL);
        check_after_importer(s);
    }
    CHECK(step > 20);
    MESSAGE(step, " steps");
}

TEST_CASE("an exporter or importer can be killed between any two instructions") {
    std::mt19937 random{11};
    auto s = share(tensor({1000}));
    int killed = 0, rounds = 16;
    if (char const* const more = std::getenv("FERRY_IPC_KILLS")) rounds = std::atoi(more);
    for (int i = 0; i < rounds; ++i) {
        bool const exports = i % 2 == 0;
        peer p{{program, exports ? "share" : "attach"}, true};
        if (!exports) p.tell(support::to_hex(s.descriptor()));
        killed += kill_at(p, random() % 30'000, every_instruction);
        auto const pid = p.pid();
        p.kill();
        static_cast<void>(p.finish());
        if (exports) check_after_exporter(pid);
        else check_after_importer(s);
    }
    CHECK(killed > rounds / 2);
}

TEST_CASE("a stopped importer blocks no other process, and counts as a reader until it is killed") {
    session own;
    auto s = share(tensor({3}), {.session = &own});
    peer importer{{program, "import"}};
    importer.tell(support::to_hex(s.descriptor()));
    CHECK(importer.hear() == "0 1 2 writable");
    kill(importer.pid(), SIGSTOP);
    CHECK(s.readers() == 1);
    CHECK_FALSE(s.wait_for_readers(std::chrono::milliseconds{20}));
    s.close();
    s = {};  // returns while it is stopped
    importer.kill();
    CHECK(importer.finish() == 128 + SIGKILL);
}

TEST_CASE("importers keep the memory of a killed exporter, and it can no longer be attached") {
    session own;
    peer exporter{{program, "export", "whole"}};
    auto const d = support::from_hex(exporter.hear());
    auto const kept = attach(d, {.session = &own});
    exporter.kill();
    CHECK(exporter.finish() == 128 + SIGKILL);
    support::fails(errc::exporter_gone, [&] { static_cast<void>(attach(d)); });
    support::fails(errc::exporter_gone, [&] { static_cast<void>(attach(d, {.session = &own})); });
    CHECK(values(kept) == std::vector<float>{0, 1, 2, 3, 4, 5});
    auto onward = share(tensor({3}), {.session = &own});  // sharing continues to work
    CHECK(values(attach(onward.descriptor())) == std::vector<float>{0, 1, 2});
}

TEST_CASE("a reader of a few lines of Python, without ferry, attaches by the JSON alone, and writes") {
    struct integers {
        std::int64_t shape[2] = {2, 3}, strides[2] = {3, -1};
        std::vector<std::int32_t> values{0, 1, 2, 3, 4, 5};
    };
    auto t = ferry::make_managed(
        integers{}, [](integers& i) { return ferry::tensor_view{i.values.data() + 2, {i.shape}, {i.strides}}; });
    session own;
    auto first = share(std::move(t), {.session = &own});
    struct part {
        ferry::managed_tensor whole;
        std::int64_t shape[2] = {2, 2}, strides[2] = {-3, -1};
    };
    // [[5, 4], [2, 1]], through strides and offset of the copy.
    auto sliced = ferry::make_managed(part{first.tensor()}, [](part& p) {
        return ferry::tensor_view{
            static_cast<std::int32_t*>(p.whole.view().writable_data()) + 5, {p.shape}, {p.strides}};
    });
    auto s = share(std::move(sliced), {.session = &own});
    CHECK_FALSE(s.copied());
    peer python{{FERRY_PYTHON, FERRY_IPC_READER}};
    python.tell(ferry::wire::to_json(s.descriptor()));
    CHECK(python.hear() == "[[3, 4], [0, 1]]");  // first is [[2, 1, 0], [5, 4, 3]]
    CHECK(python.finish() == 0);
    CHECK(static_cast<std::int32_t*>(s.view().writable_data())[0] == 42);
}
