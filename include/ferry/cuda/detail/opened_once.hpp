// ferry: what may be open only once in a process, however many use it.
#pragma once

#include <ferry/config.hpp>

#include <cstddef>
#include <list>
#include <memory>  // uses outlive who opened
#include <mutex>   // and end on any thread
#include <utility>

namespace ferry::inline v0::cuda::detail {

/// Things of which a process has one, however often they are opened: the last use closes it, and nobody opens it again
/// while it closes. `a.is_same(b)` tells whether two are the same thing; `a.join(b)` takes over what another opening of
/// the same thing gave, and nothing closes `b`. Thread-safe; what is open may outlive it. A handle: copies are one.
///
/// Which thing it is, is known when it has been opened only. So whoever opens anything waits while anything closes.
template <class Opened>
class opened_once {
    struct entry {
        Opened opened;
        std::size_t users;
    };
    struct state {
        std::mutex mutex;
        std::list<entry> entries;
    };

   public:
    opened_once() = default;
    /// The one of this program, or shared library, for what CUDA has once for a process: two tables would close it
    /// under each other.
    [[nodiscard]] FERRY_HIDDEN static opened_once of_process() {
        // mutant: cuda_opened_process
        static auto const* const one = new opened_once;  // never destroyed: deleters run until the very end
        return *one;
    }

    /// Move-only.
    class use {
       public:
        use(use&& other) noexcept : state_{std::move(other.state_)}, at_{other.at_} {}
        use& operator=(use&&) = delete;
        ~use() {
            if (state_ == nullptr) return;  // moved from
            std::lock_guard const lock{state_->mutex};
            if (--at_->users == 0) state_->entries.erase(at_);  // mutant: cuda_opened_once
        }
        [[nodiscard]] Opened const& operator*() const noexcept { return at_->opened; }
        [[nodiscard]] Opened const* operator->() const noexcept { return &at_->opened; }

       private:
        friend opened_once;
        use(std::shared_ptr<state> of, typename std::list<entry>::iterator at) noexcept
            : state_{std::move(of)}, at_{at} {}

        std::shared_ptr<state> state_;
        typename std::list<entry>::iterator at_;
    };

    /// `make()` opens it, again perhaps. \throws  what it throws;  std::bad_alloc
    template <class Make>
    [[nodiscard]] use open(Make make) {
        std::lock_guard const lock{state_->mutex};
        Opened made = make();
        for (auto at = state_->entries.begin(); at != state_->entries.end(); ++at)
            if (at->opened.is_same(made)) {
                at->opened.join(made);  // mutant: cuda_opened_again
                ++at->users;
                return use{state_, at};
            }
        state_->entries.push_front({std::move(made), 1});
        return use{state_, state_->entries.begin()};
    }

   private:
    std::shared_ptr<state> state_ = std::make_shared<state>();
};

}  // namespace ferry::inline v0::cuda::detail
