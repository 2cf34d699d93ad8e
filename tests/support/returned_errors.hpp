// A back end whose operations return a result, except `reaches`, over simulated devices; and a check that the failure
// of each operation of a call is the error of the call.
#pragma once

#pragma GCC diagnostic error "-Wunused-result"  // of the headers that are included after this one

#include <ferry/base/error.hpp>
#include <ferry/base/result.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/detail/operations.hpp>
#include <support/sim_space.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace support {

/// The operations that were called, of which the n-th fails.
class called_operations {
   public:
    /// Calls `f` and returns a result with its value, or with the error that it throws. Fails without a call if this is
    /// the operation to fail; with `Runs`, after the call, as a wait does: no queued work remains.
    template <bool Runs = false, class F>
    auto call(char const* name, F f) -> ferry::result<decltype(f())> {
        names_ += names_.empty() ? name : std::string{" "} + name;
        bool const fails = ++count_ == failing_;
        ferry::error const injected{ferry::errc::driver, "sim", ferry::message{"injected: "} << name};
        if (fails && !Runs) return injected;
        try {
            if constexpr (std::is_void_v<decltype(f())>) {
                f();
                if (fails) return injected;
                return {};
            } else {
                return f();
            }
        } catch (ferry::error const& e) {
            return e;
        }
    }
    /// Makes the n-th operation from now on fail; 0: none.
    void fail_at(int n) {
        names_.clear();
        count_ = 0;
        failing_ = n;
    }
    /// The names of the operations that were called.
    [[nodiscard]] std::string const& names() const noexcept { return names_; }
    [[nodiscard]] int count() const noexcept { return count_; }

   private:
    std::string names_;
    int count_ = 0, failing_ = 0;
};

/// The back end of simulated devices. References the system.
class returning_back_end {
   public:
    explicit returning_back_end(sim_system& sim) : sim_{&sim} {}

    [[nodiscard]] bool reaches(ferry::device d) const { return sim_->reaches(d); }
    [[nodiscard]] auto allocate(ferry::device d, std::size_t bytes, ferry::stream_token on) {
        return calls.call("allocate", [&] { return sim_->allocate(d, bytes, on); });
    }
    [[nodiscard]] auto copy(ferry::copy_plan const& plan, void* dst, ferry::device to, void const* src,
                            ferry::device from, ferry::stream_token on) {
        return calls.call("copy", [&] { sim_->copy(plan, dst, to, src, from, on); });
    }
    [[nodiscard]] auto order(ferry::stream_token from, ferry::stream_token to) {
        return calls.call("order", [&] { sim_->order(from, to); });
    }
    [[nodiscard]] auto wait(ferry::stream_token on) {
        return calls.call<true>("wait", [&] { sim_->wait(on); });
    }
    [[nodiscard]] auto mark(ferry::stream_token on) {
        return calls.call("mark", [&] { return sim_->mark(on); });
    }

    called_operations calls;

   protected:
    sim_system* sim_;
};
static_assert(ferry::marking_back_end<returning_back_end>);

/// Returns the error that `verb()` throws or returns, if any. Destroys its value.
template <class Verb>
[[nodiscard]] std::optional<ferry::error> error_of(Verb verb) {
    try {
        if constexpr (ferry::detail::is_result<decltype(verb())>) {
            auto const got = verb();
            if (!got) return got.error();
        } else {
            static_cast<void>(verb());
        }
    } catch (ferry::error const& e) {
        return e;
    }
    return {};
}

/// Calls `verb` until it succeeds, and lets its first operation fail, then its second, and so on. Checks that each
/// failure is the error of the call, that nothing keeps memory after it, and which operations the last call made, the
/// release of its value included. `verb` makes its arguments, and throws or returns a result.
template <class Verb>
void fails_at_each_operation(called_operations& calls, sim_system& sim, std::string const& expected, Verb verb) {
    auto const live = sim.live_bytes();
    for (int n = 1; n < 100; ++n) {
        calls.fail_at(n);
        int made = 0;
        auto const failure = error_of([&] {
            auto value = verb();
            made = calls.count();
            return value;
        });
        CAPTURE(n);
        CHECK(sim.live_bytes() == live);
        if (!failure) {
            calls.fail_at(0);
            static_cast<void>(error_of(verb));
            CHECK(calls.names() == expected);
            CHECK(n == made + 1);
            return;
        }
        CHECK(failure->code() == ferry::errc::driver);
        CHECK(std::strstr(failure->what(), "injected: ") != nullptr);
    }
    FAIL("the call has too many operations, or does not end");
}

}  // namespace support
