#include <ferry/base/result.hpp>

#include <ferry/base/detail/reporter.hpp>

#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <new>
#include <source_location>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

using ferry::errc;
using ferry::error;
using ferry::result;
using support::fails;

namespace {

error const no_rank{errc::rank, "ferry::f", "ndim is -1: pass a tensor"};

/// Counts its live objects, except moved-from ones. Move-only.
class counted {
   public:
    explicit counted(int& live) noexcept : live_{&live} { ++*live_; }
    counted(counted&& other) noexcept : live_{std::exchange(other.live_, nullptr)} {}
    counted& operator=(counted&&) = delete;
    ~counted() {
        if (live_ != nullptr) --*live_;
    }

   private:
    int* live_;
};

struct immovable {
    int number;
    explicit immovable(int n) : number{n} {}
    immovable(immovable&&) = delete;
};

result<immovable> made(int n) {
    if (n < 0) return no_rank;
    return result<immovable>{std::in_place, n};
}

}  // namespace

TEST_CASE("a result contains a value or an error") {
    result<int> const value = 3;
    CHECK(value.has_value());
    CHECK(static_cast<bool>(value));
    CHECK(*value == 3);
    CHECK(value.value() == 3);
    result<int> const failed = no_rank;
    CHECK_FALSE(failed.has_value());
    CHECK(failed.error().code() == errc::rank);
    CHECK(std::string{failed.error().what()} == "ferry::f: ndim is -1: pass a tensor");
    fails(errc::rank, [&] { static_cast<void>(failed.value()); }, {"ndim is -1"});
}

TEST_CASE("a result without a value is a success or an error, and can be copied and assigned") {
    result<> ok;
    CHECK(ok);
    CHECK_NOTHROW(ok.value());
    result<> failed = no_rank;
    fails(errc::rank, [&] { failed.value(); }, {"ndim is -1"});
    result<> const copy = failed;
    CHECK(copy.error().code() == errc::rank);
    failed = ok;
    CHECK(failed);
    ok = copy;
    CHECK(ok.error().where().line() == no_rank.where().line());
    ok = error{errc::shape, "ferry::g", "other"};
    CHECK(ok.error().code() == errc::shape);
}

TEST_CASE("a result destroys its value once, also after a move") {
    int live = 0;
    {
        result<counted> first = counted{live};
        CHECK(live == 1);
        result<counted> second = std::move(first);
        CHECK(live == 1);
        second = result<counted>{no_rank};
        CHECK(live == 0);
        second = result<counted>{counted{live}};
        CHECK(live == 1);
        counted const taken = *std::move(second);
        CHECK(live == 1);
    }
    CHECK(live == 0);
    static_assert(!std::is_copy_constructible_v<result<counted>>);
    static_assert(std::is_nothrow_move_constructible_v<result<counted>>);
}

TEST_CASE("a result can contain an object that cannot be moved") {
    CHECK(made(4)->number == 4);
    CHECK(made(-1).error().code() == errc::rank);
    static_assert(!std::is_move_constructible_v<result<immovable>>);
}

TEST_CASE("a try_ function returns the errors of ferry and failed allocations, and passes other exceptions on") {
    auto const here = std::source_location::current();
    auto const run = [&](auto f) { return ferry::detail::attempt<int>("ferry::try_f", here, f); };
    auto const reported = run([](ferry::detail::reporter r) {
        static_cast<void>(report(r, errc::shape, "no"));
        return 0;
    });
    CHECK(reported.error().code() == errc::shape);
    CHECK(std::string{reported.error().what()} == "ferry::try_f: no");
    CHECK(reported.error().where().line() == here.line());
    CHECK(run([](ferry::detail::reporter) -> int { throw no_rank; }).error().code() == errc::rank);
    support::fails(
        errc::out_of_memory,
        [&] { static_cast<void>(run([](ferry::detail::reporter) -> int { throw std::bad_alloc{}; }).value()); },
        {"ferry::try_f", "allocation failed"});
    CHECK_THROWS_AS(static_cast<void>(run([](ferry::detail::reporter) -> int { throw std::runtime_error{"x"}; })),
                    std::runtime_error);
    CHECK(*run([](ferry::detail::reporter) { return 7; }) == 7);
}
