#include <ferry/cuda/detail/opened_once.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

/// As memory of a pool: one mapping for the process, which whoever closes it takes from all.
struct mapping {
    static inline std::atomic<int> open{0}, opened{0}, wrong{0};

    mapping() {
        if (open.exchange(1) != 0) ++wrong;
        ++opened;
    }
    mapping(mapping&& other) noexcept { other.is_mine = false; }
    mapping& operator=(mapping&&) = delete;
    ~mapping() {
        if (is_mine && open.exchange(0) != 1) ++wrong;
    }
    [[nodiscard]] bool is_there() const { return open == 1; }

   private:
    bool is_mine = true;
};

using ferry::cuda::detail::opened_once;

}  // namespace

TEST_CASE("what is open once stays open until its last use is gone, whoever opened it") {
    mapping::opened = 0;
    std::optional<opened_once<mapping>> all{std::in_place};
    auto const make = [] { return mapping{}; };
    std::optional one{all->open("memory", make)};
    std::optional two{all->open("memory", make)};
    auto moved = std::move(*one);
    one.reset();
    CHECK(mapping::opened == 1);
    two.reset();
    CHECK(moved->is_there());
    all.reset();
    CHECK(moved->is_there());
    {
        auto const last = std::move(moved);
    }
    CHECK(mapping::open == 0);
    CHECK(mapping::wrong == 0);
}

TEST_CASE("what could not be opened is nobody's, and is tried again") {
    opened_once<mapping> all;
    CHECK_THROWS_AS(static_cast<void>(all.open("memory", []() -> mapping { throw std::runtime_error{"closed"}; })),
                    std::runtime_error);
    auto const now = all.open("memory", [] { return mapping{}; });
    CHECK(now->is_there());
}

TEST_CASE("nobody opens it while somebody closes it") {
    opened_once<mapping> all;
    std::vector<std::thread> threads;
    std::atomic<int> gone = 0;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < 5000; ++i) {
                auto const use = all.open("memory", [] { return mapping{}; });
                if (!use->is_there()) ++gone;
            }
        });
    for (auto& t : threads) t.join();
    CHECK(gone == 0);
    CHECK(mapping::wrong == 0);
    CHECK(mapping::open == 0);
}
