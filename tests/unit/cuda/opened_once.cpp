#include <ferry/cuda/detail/ipc/opened_once.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace {

/// Simulates pool memory: one mapping for the process, which any close removes for all users.
struct mapping {
    static inline std::atomic<int> open[2]{}, opened{0}, wrong{0};

    explicit mapping(int n) : number{n} {
        open[n] = 1;
        ++opened;
    }
    mapping(mapping&& other) noexcept : number{other.number}, is_mine{std::exchange(other.is_mine, false)} {}
    mapping& operator=(mapping&&) = delete;
    ~mapping() {
        if (is_mine && open[number].exchange(0) != 1) ++wrong;
    }
    [[nodiscard]] bool is_there() const { return open[number] == 1; }
    [[nodiscard]] bool is_same(mapping const& other) const { return number == other.number; }
    void join(mapping& again) noexcept { again.is_mine = false; }

   private:
    int number;
    bool is_mine = true;
};

using ferry::cuda::detail::opened_once;

}  // namespace

TEST_CASE("an object stays open until its last use ends") {
    std::optional<opened_once<mapping>> all{std::in_place};
    auto const make = [] { return mapping{0}; };
    std::optional one{all->open(make)};
    std::optional two{all->open(make)};
    auto const other = all->open([] { return mapping{1}; });
    CHECK(mapping::opened == 3);  // nothing reports it before
    auto moved = std::move(*one);
    one.reset();
    two.reset();
    CHECK(moved->is_there());
    all.reset();
    CHECK(moved->is_there());
    {
        auto const last = std::move(moved);
    }
    CHECK(mapping::open[0] == 0);
    CHECK(other->is_there());
    CHECK(mapping::wrong == 0);
}

TEST_CASE("all users of a process share one open object, which none closes for another") {
    auto one = opened_once<mapping>::of_process(), other = opened_once<mapping>::of_process();
    std::optional first{one.open([] { return mapping{0}; })};
    auto const second = other.open([] { return mapping{0}; });
    first.reset();
    CHECK(second->is_there());
    CHECK(mapping::wrong == 0);
}

TEST_CASE("a failed open leaves no entry, and is repeated") {
    opened_once<mapping> all;
    CHECK_THROWS_AS(static_cast<void>(all.open([]() -> mapping { throw std::runtime_error{"closed"}; })),
                    std::runtime_error);
    auto const now = all.open([] { return mapping{0}; });
    CHECK(now->is_there());
}

TEST_CASE("opening waits while an object is being closed") {
    opened_once<mapping> all;
    std::vector<std::thread> threads;
    std::atomic<int> gone = 0;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < 5000; ++i) {
                auto const use = all.open([] { return mapping{0}; });
                if (!use->is_there()) ++gone;
            }
        });
    for (auto& t : threads) t.join();
    CHECK(gone == 0);
    CHECK(mapping::wrong == 0);
    CHECK(mapping::open[0] == 0);
}
