// Readers of topics without ferry, in other languages.
#include <ferry/ipc/publisher.hpp>
#include <ferry/ipc/share.hpp>
#include <ferry/wire/json.hpp>

#include <support/ipc_peer.hpp>
#include <support/skip.hpp>
#include <support/topic.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

/// Shares three rows of 5000 numbers, or a transposed view of them.
ferry::ipc::shared make_slot(ferry::ipc::session& session, bool is_transposed) {
    struct grid {
        std::vector<double> values = std::vector<double>(15'000);
        std::int64_t shape[2] = {3, 5000};
        [[nodiscard]] ferry::tensor_view view() { return {values.data(), {shape}}; }
    };
    auto rows = ferry::ipc::share(ferry::make_managed(grid{}, [](grid& g) { return g.view(); }), {.session = &session});
    if (!is_transposed) return rows;
    return ferry::ipc::share(support::restrided(rows.tensor(), 0, {5000, 3}, {1, 5000}),
                             {.session = &session, .copy = ferry::copy_policy::never});
}

/// Publishes until the reader has read many frames; for the second half, another publisher has the name.
void check_reader(std::vector<std::string> command, bool is_transposed) {
    support::own_directory const run;
    REQUIRE(::setenv("XDG_RUNTIME_DIR", run.path().c_str(), 1) == 0);
    command.insert(command.end(), {"rig/left", "100"});
    support::peer reader{command};  // before the publisher
    std::uint64_t generation = 0;
    for (int half = 1; half <= 2; ++half) {
        ferry::ipc::session session;
        std::vector<ferry::ipc::shared> slots;
        for (int i = 0; i < 3; ++i) slots.push_back(make_slot(session, is_transposed));
        ferry::ipc::publisher camera{
            "rig/left", std::move(slots), {.text = [](auto& d) { return ferry::wire::to_json(d); }}};
        if (half == 2) reader.tell("continue");
        std::atomic<bool> is_done = false;
        std::string line;
        std::thread listener{[&] { line = reader.hear(), is_done = true; }};
        while (!is_done) {
            auto const slot = camera.begin(support::patience);
            REQUIRE(slot);
            auto const t = camera[*slot].tensor();
            auto* const values = static_cast<double*>(t.view().writable_data());
            for (int i = 0; i < 15'000; ++i) values[i] = 1e6 * static_cast<double>(generation + 1) + i;
            CHECK(camera.publish(*slot) == generation + 1);
            ++generation;
        }
        listener.join();
        CHECK(line == "frames");
    }
    CHECK(reader.finish() == 0);
    REQUIRE(::unsetenv("XDG_RUNTIME_DIR") == 0);
}

std::string script(char const* name) { return std::filesystem::path{FERRY_IPC_READER}.replace_filename(name); }
bool runs(std::string const& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

}  // namespace

TEST_CASE("topic: a reader in Python without ferry reads whole frames in place, from one publisher and the next" *
          doctest::skip(support::lacks(runs(FERRY_PYTHON " -c 'import numpy'"), "no NumPy"))) {
    for (bool const is_transposed : {false, true}) check_reader({FERRY_PYTHON, script("topic.py")}, is_transposed);
}

TEST_CASE("topic: a reader in JavaScript without ferry copies whole frames, from one publisher and the next" *
          doctest::skip(support::lacks(runs("node --version"), "no Node"))) {
    check_reader({"/usr/bin/env", "node", script("topic.mjs")}, false);
}
