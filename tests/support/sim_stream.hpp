// Streams of the simulated device: each has a thread that runs queued work late and in sequence.
#pragma once

#include <ferry/base/stream_token.hpp>

#include <support/patience.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>

namespace support {

/// Allocator for the simulation, which bypasses operator new and therefore allocation_failure.
template <class T>
struct uncounted {
    using value_type = T;
    uncounted() = default;
    template <class U>
    uncounted(uncounted<U> const&) noexcept {}
    [[nodiscard]] T* allocate(std::size_t n) {
        auto* const memory = std::malloc(n * sizeof(T));
        if (memory == nullptr) throw std::bad_alloc{};
        return static_cast<T*>(memory);
    }
    void deallocate(T* p, std::size_t) noexcept { std::free(p); }
    friend bool operator==(uncounted, uncounted) { return true; }
};

/// A gate, closed until it is opened; copies are the same gate. Ends the program when it is not opened in time.
class sim_gate {
   public:
    sim_gate() : state_{std::allocate_shared<state>(uncounted<state>{})} {}
    void open() const {
        std::lock_guard const lock{state_->mutex};
        state_->is_open = true;
        state_->opened.notify_all();
    }
    void pass() const {
        std::unique_lock lock{state_->mutex};
        if (!state_->opened.wait_for(lock, patience, [this] { return state_->is_open; })) give_up("a closed gate");
    }
    [[nodiscard]] bool is_open() const {
        std::lock_guard const lock{state_->mutex};
        return state_->is_open;
    }

   private:
    struct state {
        std::mutex mutex;
        std::condition_variable opened;
        bool is_open = false;
    };
    std::shared_ptr<state> state_;
};

class sim_stream;

/// A vector clock: for each stream, the number of the last work that is ordered before.
class sim_clock {
   public:
    [[nodiscard]] std::uint64_t of(sim_stream const& stream) const {
        auto const found = known_.find(&stream);
        return found != known_.end() ? found->second : 0;
    }
    /// Adds the work that is queued on `stream` now.
    void merge(sim_stream const& stream);
    /// Adds the work of another clock.
    void merge(sim_clock const& other) {
        for (auto const& [stream, at] : other.known_) known_[stream] = std::max(known_[stream], at);
    }

   private:
    std::map<sim_stream const*, std::uint64_t, std::less<>,
             uncounted<std::pair<sim_stream const* const, std::uint64_t>>>
        known_;
};

class sim_stream {
   public:
    sim_stream() : worker_{[this] { run(); }} {}
    sim_stream(sim_stream const&) = delete;
    sim_stream& operator=(sim_stream const&) = delete;
    ~sim_stream() {
        push(nullptr);
        worker_.join();
    }

    template <class F>
        requires(!std::is_null_pointer_v<F>)
    void push(F f) {
        push(std::unique_ptr<work>{new work_of<F>{std::move(f)}});
    }
    /// Blocks until the work that is queued now has run.
    void finish() {
        sim_gate const reached;
        push([reached] { reached.open(); });
        reached.pass();
    }
    /// Number of functions queued so far.
    [[nodiscard]] std::uint64_t count() const {
        std::lock_guard const lock{mutex_};
        return count_;
    }

    ferry::stream_token token;
    std::int32_t device_id = -1;  ///< -1: every device of its family
    sim_clock seen;

   private:
    struct work {
        virtual ~work() = default;
        virtual void run() = 0;
        static void* operator new(std::size_t bytes) { return uncounted<std::max_align_t>{}.allocate(bytes / 16 + 1); }
        static void operator delete(void* p) { std::free(p); }
    };
    template <class F>
    struct work_of final : work {
        explicit work_of(F f) : f_{std::move(f)} {}
        void run() override { f_(); }
        F f_;
    };

    void push(std::unique_ptr<work> next) {
        std::lock_guard const lock{mutex_};
        queue_.push_back(std::move(next));
        ++count_;
        changed_.notify_one();
    }
    void push(std::nullptr_t) { push(std::unique_ptr<work>{}); }
    void run() {
        for (;;) {
            std::unique_lock lock{mutex_};
            changed_.wait(lock, [this] { return !queue_.empty(); });
            auto const next = std::move(queue_.front());
            queue_.pop_front();
            lock.unlock();
            if (next == nullptr) return;
            std::this_thread::sleep_for(std::chrono::microseconds{100});
            next->run();
        }
    }

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::unique_ptr<work>, uncounted<std::unique_ptr<work>>> queue_;
    std::uint64_t count_ = 0;
    std::thread worker_;  // last, since it uses the other members
};

inline void sim_clock::merge(sim_stream const& stream) {
    merge(stream.seen);
    known_[&stream] = std::max(known_[&stream], stream.count());
}

}  // namespace support
