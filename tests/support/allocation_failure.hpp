// Global operator new and delete that count and inject failures. Linked into tests only.
#pragma once

#include <doctest/doctest.h>

#include <exception>
#include <new>

namespace support {

/// During its lifetime, counts the allocations of this thread, makes the `fail_at`-th fail (0: none), and records which
/// are not freed.
class allocation_window {
   public:
    explicit allocation_window(int fail_at = 0) noexcept;
    allocation_window(allocation_window const&) = delete;
    allocation_window& operator=(allocation_window const&) = delete;
    ~allocation_window();

    [[nodiscard]] int allocations() const noexcept;
    /// Number of allocations of this thread, made in this window and not freed.
    [[nodiscard]] int live() const noexcept;
    [[nodiscard]] bool has_failed() const noexcept;
};

/// Runs `f(n)` with the n-th allocation failing, for n = 1, 2, 3, …, until it makes fewer than n. Each run must free
/// all that it allocated. Returns the number of injected failures.
///
/// `f` must not use CHECK, which may allocate.
template <class F>
int for_each_failing_allocation(F f) {
    for (int n = 1;; ++n) {
        bool failed = false;
        int live = 0;
        std::exception_ptr other;
        {
            allocation_window window{n};
            try {
                f(n);
            } catch (std::bad_alloc const&) {
            } catch (...) {
                other = std::current_exception();
            }
            failed = window.has_failed();
            live = window.live();
        }
        INFO("allocation ", n, " fails");
        CHECK(live == 0);
        if (other) std::rethrow_exception(other);
        if (!failed) return n - 1;
        REQUIRE(n < 1000);
    }
}

}  // namespace support
