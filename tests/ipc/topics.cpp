// Topics between processes: whole frames, killed publishers and subscribers, and publishers that compete for a name.
#include <ferry/ipc/publisher.hpp>
#include <ferry/ipc/subscriber.hpp>

#include <support/process.hpp>
#include <support/topic.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using support::own_directory;
using support::patience;
namespace ipc = ferry::ipc;

namespace {

int count_of(char const* variable, int otherwise) {
    char const* const text = std::getenv(variable);
    return text != nullptr ? std::atoi(text) : otherwise;
}

/// Publishes frames until it is killed. Reports the first.
int publish_frames(own_directory const& here, support::talk const& t) {
    ipc::publisher camera{"camera", support::slots(3), here};
    for (bool is_first = true;; is_first = false) {
        auto const slot = camera.begin(patience);
        if (!slot) return 1;
        support::fill(camera[*slot], camera.generation() + 1);
        camera.publish(*slot);
        if (is_first) t.say();
    }
}
/// Reads frames until `last`, or until it is killed. 2: torn; 3: a generation came back; 4: no frame in time.
int read_frames(own_directory const& here, support::talk const& t, std::uint64_t last) {
    ipc::subscriber left{"camera", here};
    for (std::uint64_t seen = 0; seen < last;) {
        auto const f = left.next(patience);
        if (!f) return 4;
        if (f->generation <= seen) return 3;
        if (!support::is_whole(f->value, f->generation)) return 2;
        if (seen == 0) t.say();
        seen = f->generation;
    }
    return 0;
}

}  // namespace

TEST_CASE("topic: four subscribers see whole frames, in order") {
    own_directory const here;
    support::process publisher{[&](support::talk const& t) { return publish_frames(here, t); }};
    std::vector<std::unique_ptr<support::process>> readers;
    for (int i = 0; i < 4; ++i)
        readers.push_back(
            std::make_unique<support::process>([&](support::talk const& t) { return read_frames(here, t, 5000); }));
    for (auto& r : readers) CHECK(r->wait() == 0);
}

TEST_CASE("topic: after each kill of a publisher or subscriber the others see whole frames") {
    int const kills = count_of("FERRY_IPC_KILLS", 30);
    auto const seed = static_cast<unsigned>(count_of("FERRY_SEED", 1));
    CAPTURE(seed);
    std::minstd_rand random{seed};
    own_directory const here;
    auto const publisher = [&] {
        return std::make_unique<support::process>([&](support::talk const& t) { return publish_frames(here, t); });
    };
    auto const reader = [&] {
        return std::make_unique<support::process>(
            [&](support::talk const& t) { return read_frames(here, t, ~std::uint64_t{0}); });
    };
    std::vector<std::unique_ptr<support::process>> all;
    all.push_back(publisher());
    for (int i = 0; i < 2; ++i) all.push_back(reader());
    for (auto& p : all) REQUIRE(p->hear() == '.');
    for (int n = 0; n < kills; ++n) {
        auto const k = random() % all.size();
        std::this_thread::sleep_for(std::chrono::microseconds{random() % 2000});  // the kill hits any step
        all[k]->kill(SIGKILL);
        REQUIRE(all[k]->wait() == -SIGKILL);  // it had not ended with a torn frame
        all[k] = k == 0 ? publisher() : reader();
        REQUIRE(all[k]->hear() == '.');
    }
    ipc::subscriber late{"camera", here};
    for (int i = 0; i < 3; ++i) CHECK(late.next(patience));
    for (auto& p : all) {
        p->kill(SIGKILL);
        CHECK(p->wait() == -SIGKILL);
    }
}

TEST_CASE("topic: of publishers that compete for a name one has it at a time") {
    own_directory const here;
    std::vector<std::unique_ptr<support::process>> all;
    for (int i = 0; i < 6; ++i)
        all.push_back(std::make_unique<support::process>([&](support::talk const&) {
            std::uint64_t last = 0;
            for (int won = 0; won < 5;) try {
                    ipc::publisher camera{"camera", support::slots(2), here};
                    if (camera.generation() < last) return 1;  // generations are continued
                    last = support::publish(camera);
                    if (support::publish(camera) != last + 1) return 2;  // and no other publisher was between
                    ++won;
                } catch (ferry::error const& e) {
                    if (e.code() != ferry::errc::busy) return 3;
                    std::this_thread::yield();
                }
            return 0;
        }));
    for (auto& p : all) CHECK(p->wait() == 0);
    CHECK(ipc::publisher{"camera", support::slots(2), here}.generation() == 60);
}

TEST_CASE("topic: a stopped subscriber keeps one slot, and the publisher continues in the others") {
    own_directory const here;
    ipc::publisher camera{"camera", support::slots(3), here};
    support::publish(camera);
    support::process reader{[&](support::talk const& t) {
        ipc::subscriber left{"camera", here};
        auto const f = left.next(patience);
        t.say();
        return t.hear() == '.' && f && support::is_whole(f->value, 1) ? 0 : 1;
    }};
    REQUIRE(reader.hear() == '.');
    reader.kill(SIGSTOP);
    for (int i = 0; i < 100; ++i) support::publish(camera);
    reader.kill(SIGCONT);
    reader.say();
    CHECK(reader.wait() == 0);
}
