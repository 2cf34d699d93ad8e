// ferry: a table of objects that a process may open only once, with any number of users.
#pragma once

#include <ferry/config.hpp>

#include <cstddef>
#include <list>
#include <memory>  // a use may outlive the table
#include <mutex>   // a use may end on any thread
#include <utility>

namespace FERRY_NAMESPACE::cuda::detail {

/// Objects that a process may open only once. An object is closed when its last `use` is destroyed.
///
/// `a.is_same(b)` returns whether two opened objects are the same; `a.join(b)` takes over the access that opening `b`
/// added, so that the destructor of `b` closes nothing. Thread-safe. Copies of this object refer to one table, which
/// exists until the last copy and the last `use` are destroyed.
///
/// An object can be identified only after it has been opened, so `open` waits while any object is being closed.
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
    /// Returns the table of this program or shared library, for objects that CUDA opens once for a process. There must
    /// be only one table, because a second one would close objects that the first one uses.
    [[nodiscard]] FERRY_HIDDEN static opened_once of_process() {
        static auto const* const one = new opened_once;  // never destroyed: deleters run at exit
        return *one;
    }

    /// Keeps an object open for one of its users. Move-only.
    class use {
       public:
        use(use&& other) noexcept : state_{std::move(other.state_)}, at_{other.at_} {}
        use& operator=(use&&) = delete;
        ~use() {
            if (state_ == nullptr) return;  // moved from
            std::lock_guard const lock{state_->mutex};
            if (--at_->users == 0) state_->entries.erase(at_);
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

    /// Opens an object by `make()`, or joins it with the same object opened before. Throws the exceptions of `make`.
    ///
    /// \throws std::bad_alloc  when the allocation fails
    template <class Make>
    [[nodiscard]] use open(Make make) {
        std::lock_guard const lock{state_->mutex};
        Opened made = make();
        for (auto at = state_->entries.begin(); at != state_->entries.end(); ++at)
            if (at->opened.is_same(made)) {
                at->opened.join(made);
                ++at->users;
                return use{state_, at};
            }
        state_->entries.push_front({std::move(made), 1});
        return use{state_, state_->entries.begin()};
    }

   private:
    std::shared_ptr<state> state_ = std::make_shared<state>();
};

}  // namespace FERRY_NAMESPACE::cuda::detail
