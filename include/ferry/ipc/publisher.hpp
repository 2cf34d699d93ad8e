// ferry: publisher, which publishes frames in shared memory under a name.
#pragma once

#include <ferry/base/stream_token.hpp>
#include <ferry/ipc/detail/process.hpp>
#include <ferry/ipc/detail/topic_file.hpp>
#include <ferry/ipc/shared.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>  // the name is owned
#include <string_view>
#include <thread>
#include <utility>
#include <vector>  // slots

namespace FERRY_NAMESPACE::ipc {

/// Publishes frames under a name, in slots of shared memory, to any number of subscribers of the same user.
///
/// One publisher at a time has a name. When it ends or is killed, the next one continues its generations, and the
/// subscribers follow. No call waits for a reader, except `begin` up to its limit. Not thread-safe. In a forked child,
/// calls fail and the destructor has no effect; the name stays owned until the child ends or calls exec.
class publisher {
   public:
    /// Claims a name. Subscribers see the first frame after the first `publish`.
    ///
    /// \param name   1 to 200 bytes, such as `rig/left`; empty: no file, and subscribers need `files`
    /// \param slots  2 to 252 shares of memory that this process can write; owned on success
    /// \param how    directory, and text for readers without ferry
    /// \throws error  errc::busy: the name has a publisher; errc::argument; errc::permission: the directory is not this
    ///                user's alone; errc::out_of_memory
    /// \throws std::bad_alloc
    publisher(std::string_view name, std::vector<shared>&& slots, topic_options const& how = {})
        : how_{how}, file_{name, how} {
        if (slots.size() < 2 || slots.size() > detail::most_slots)
            detail::fail(errc::argument, api,
                         message{"expected 2 to 252 slots, got "} << std::uint64_t{slots.size()}
                                                                  << ": pass more or fewer shares");
        std::uint32_t files = 1;  // the topic's own file is the first
        for (auto const& s : slots) {
            records_.push_back(describe(s));
            records_.back().record.first_file = files;
            files += records_.back().record.files;
        }
        file_.make(records_, newest_);
        slots_.swap(slots);
    }
    // For a list of shares: `publisher camera{"rig/left", {share(a), share(b), share(c)}}`.
    template <std::size_t N>
    publisher(std::string_view name, shared (&&slots)[N], topic_options const& how = {})
        : publisher{name, std::vector<shared>(std::move_iterator{slots}, std::move_iterator{slots + N}), how} {}
    publisher(publisher const&) = delete;
    publisher& operator=(publisher const&) = delete;
    /// Ends the publication: subscribers keep their frames, and wait for the next publisher. The file stays, without
    /// frames, so that the next publisher continues the generations; see `withdraw`.
    ~publisher() {
        if (process_.is_here()) file_.end();
    }

    /// Returns a slot that is neither the newest nor read, for writing.
    ///
    /// \param limit  longest wait for readers
    /// \param on     stream that writes: it waits for the work of the readers; without a stream the host waits
    /// \return       number of the slot; empty: readers have all slots. Drop the frame, or `replace` a slot.
    /// \throws error  errc::argument: a forked child; errors of the back end
    [[nodiscard]] std::optional<unsigned> begin(std::chrono::nanoseconds limit = {}, stream_token on = {}) {
        check_process();
        auto const end = detail::deadline(limit);
        std::chrono::nanoseconds pause = std::chrono::microseconds{10};
        for (;;) {
            for (std::size_t i = 1; i <= slots_.size(); ++i) {
                auto const k = static_cast<unsigned>((last_ + i) % slots_.size());
                if (k != newest_ && take(k, on)) return last_ = k;
            }
            auto const left = end - std::chrono::steady_clock::now();
            if (left <= std::chrono::nanoseconds{0}) return {};
            std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, left));
            pause = std::min<std::chrono::nanoseconds>(2 * pause, std::chrono::milliseconds{1});
        }
    }
    /// Returns the share of a slot, whose `tensor` is written. \param slot  number below that of the slots
    [[nodiscard]] shared const& operator[](unsigned slot) const noexcept { return slots_[slot]; }

    /// Gives a slot new memory, which can be written and published at once. Its readers keep the former memory.
    ///
    /// \param slot   any but the newest
    /// \param fresh  an open share of memory that needs no files; owned on success
    /// \throws error  errc::argument: another slot or share, or its descriptor is too large for a topic without a name
    /// \throws std::bad_alloc
    void replace(unsigned slot, shared&& fresh) {
        check_process();
        if (slot >= slots_.size() || slot == newest_)
            detail::fail(
                errc::argument, api,
                message{"slot "} << slot << " is the newest, or does not exist: pass a slot that begin() returned");
        auto made = describe(fresh);
        if (made.record.files != 0 || (!file_.has_name() && !file_.has_room_for(made)))
            detail::fail(errc::argument, api,
                         message{"subscribers have no file for the new memory of slot "}
                             << slot << ": make another publisher, or share it in a named segment");
        file_.put_generation(slot, 0);
        made.is_begun = true;
        records_[slot] = std::move(made);
        slots_[slot] = std::move(fresh);  // closes the former share
        last_ = slot;
    }

    /// Publishes the frame in a slot, atomically: subscribers see all of it, or the frame before.
    ///
    /// Does not wait, unless the back end has no free event.
    /// \param slot  number that `begin` returned, or that of a replaced slot
    /// \param on    stream that writes device memory: the subscribers wait for it; without one, the data is complete
    /// \return      generation of the frame, 1 more than that of the last
    /// \throws error  errc::argument: another slot, or a forked child; errc::out_of_memory; errors of
    ///                `shared::record_ready`
    std::uint64_t publish(unsigned slot, stream_token on = {}) {
        check_process();
        if (slot >= slots_.size() || !records_[slot].is_begun)
            detail::fail(errc::argument, api,
                         message{"slot "} << slot << " is not being written: pass the result of begin");
        auto& r = records_[slot];
        if (slots_[slot].record_ready(on)) {
            auto made = describe(slots_[slot]);
            made.record.first_file = r.record.first_file;
            made.is_begun = true;
            r = std::move(made);
        }
        if (!file_.has_room_for(r)) file_.make(records_, newest_);
        if (auto const next = file_.generation() + 1; !r.is_written || r.record.generation != next) {
            r.record.generation = next;
            r.is_written ? file_.put_generation(slot, next) : file_.put(slot, r);
        }
        r.is_written = true;
        file_.publish(slot);
        r.is_begun = false;
        newest_ = slot;
        return r.record.generation;
    }

    /// Returns the generation of the newest frame; 0: nothing has been published under the name.
    [[nodiscard]] std::uint64_t generation() const noexcept { return file_.generation(); }
    /// Returns the file descriptors that a subscriber without the name, or of memory that needs files, receives over a
    /// socket (`send`): the topic's file, then those of the slots in anonymous segments. Borrowed.
    /// \throws std::bad_alloc
    [[nodiscard]] std::vector<int> files() const {
        std::vector<int> all{file_.handout()};
        for (auto const& s : slots_)
            for (int const file : s.files())
                if (file >= 0) all.push_back(file);
        return all;
    }
    /// Removes the name, so that the next publisher begins with generation 1. This publisher continues with those
    /// subscribers that have opened it.
    void withdraw() noexcept {
        if (process_.is_here()) file_.remove_name();
    }

   private:
    static constexpr char const* api = detail::topic_writer::api;

    void check_process() const {
        if (!process_.is_here())
            detail::fail(errc::argument, api, message{"a forked child has no publisher: make one under another name"});
    }
    [[nodiscard]] detail::topic_slot describe(shared const& s) {
        if (!s.is_open())
            detail::fail(errc::argument, api,
                         message{"a slot has no open share: pass the result of ferry::ipc::share"});
        auto made = detail::describe(s.descriptor(), how_, ++stamps_, api);
        made.record.files = static_cast<std::uint32_t>(std::ranges::count_if(s.files(), [](int i) { return i >= 0; }));
        return made;
    }
    /// Takes a slot from the subscribers, unless one of them reads it.
    [[nodiscard]] bool take(unsigned k, stream_token on) {
        auto& r = records_[k];
        auto const next = file_.generation() + 1;
        file_.put_generation(k, next);  // first: from here on no subscriber keeps it
        std::atomic_thread_fence(std::memory_order_seq_cst);
        try {
            if (slots_[k].wait_for_readers({}, on)) {
                r.record.generation = next;
                return r.is_begun = true;
            }
        } catch (...) {
            file_.put_generation(k, r.record.generation);
            throw;
        }
        file_.put_generation(k, r.record.generation);
        return false;
    }

    topic_options how_;
    detail::topic_writer file_;
    std::vector<shared> slots_{};
    std::vector<detail::topic_slot> records_{};
    std::uint64_t stamps_ = 0;
    unsigned last_ = 0, newest_ = detail::no_slot;  // own copies: what is in the file is not trusted
    detail::process_mark process_ = detail::process_mark::here();
};

}  // namespace FERRY_NAMESPACE::ipc
