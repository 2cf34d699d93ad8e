// ferry: publisher, which publishes frames in shared memory under a name.
#pragma once

#include <ferry/ipc/shared.hpp>

#include <iterator>
#include <string_view>

namespace FERRY_NAMESPACE::ipc {

/// Publishes frames under a name, in slots of shared memory, to any number of subscribers of the same user.
///
/// One publisher at a time has a name. When it ends or is killed, the next publisher of the name continues the numbers
/// of the frames (generations), and the subscribers continue with its frames. No call waits for a reader, except
/// `begin` up to its limit. Not thread-safe. In a forked child, calls fail and the destructor has no effect; the name
/// stays owned until the child ends or calls exec.
class publisher {
   public:
    /// Claims a name. Subscribers see the first frame after the first `publish`.
    ///
    /// \param name   1 to 200 bytes, such as `rig/left`; if empty, no file is made, and subscribers need `files`
    /// \param slots  2 to 252 shares of memory that this process can write; owned on success
    /// \param how    directory, and text for readers without ferry
    /// \throws error  errc::busy: the name has a publisher; errc::argument; errc::permission: the directory is not this
    ///                user's alone; errc::out_of_memory
    /// \throws std::bad_alloc
    FERRY_INLINE publisher(std::string_view name, std::vector<shared>&& slots, topic_options const& how = {});
    // For a list of shares: `publisher camera{"rig/left", {share(a), share(b), share(c)}}`.
    template <std::size_t N>
    publisher(std::string_view name, shared (&&slots)[N], topic_options const& how = {})
        : publisher{name, std::vector<shared>(std::move_iterator{slots}, std::move_iterator{slots + N}), how} {}
    publisher(publisher const&) = delete;
    publisher& operator=(publisher const&) = delete;
    /// Ends the publication. Subscribers keep their frames, and wait for the next publisher. The file stays, without
    /// frames, so that the next publisher continues the generations; see `withdraw`.
    FERRY_INLINE ~publisher();

    /// Returns a slot for writing, which neither contains the newest frame nor is read by a subscriber.
    ///
    /// \param limit  longest wait for readers
    /// \param on     stream that writes; it waits for the work of the readers. Without a stream, the host waits
    /// \return       number of the slot; empty if readers have all slots: drop the frame, or `replace` a slot
    /// \throws error  errc::argument: a forked child; errors of the back end
    [[nodiscard]] FERRY_INLINE std::optional<unsigned> begin(std::chrono::nanoseconds limit = {}, stream_token on = {});
    /// Returns the share of a slot. Write the frame to its `tensor`. \param slot  less than the number of slots
    [[nodiscard]] FERRY_INLINE shared const& operator[](unsigned slot) const noexcept;

    /// Gives a slot new memory, which can be written and published at once. Its readers keep the former memory.
    ///
    /// \param slot   any slot but the one of the newest frame
    /// \param fresh  an open share of memory that needs no files; owned on success
    /// \throws error  errc::argument: an invalid slot or share, or a descriptor that is too large for a topic without a
    ///                name
    /// \throws std::bad_alloc
    FERRY_INLINE void replace(unsigned slot, shared&& fresh);

    /// Publishes the frame in a slot, atomically: subscribers see all of it, or the frame before.
    ///
    /// Does not wait, unless the back end has no free event.
    /// \param slot  number that `begin` returned, or the number of a replaced slot
    /// \param on    stream that writes device memory, for which subscribers wait; without one, the data must be ready
    /// \return      generation of the frame, 1 more than that of the frame before
    /// \throws error  errc::argument: another slot, or a forked child; errc::out_of_memory; errors of
    ///                `shared::record_ready`
    FERRY_INLINE std::uint64_t publish(unsigned slot, stream_token on = {});

    /// Returns the generation of the newest frame; 0 if nothing has been published under the name.
    [[nodiscard]] FERRY_INLINE std::uint64_t generation() const noexcept;
    /// Returns the file descriptors to send to subscribers over a socket (`send`), if the topic has no name or its
    /// memory needs files: the topic's file, then those of the slots in anonymous segments. Borrowed.
    /// \throws std::bad_alloc
    [[nodiscard]] FERRY_INLINE std::vector<int> files() const;
    /// Removes the name, so that the next publisher begins with generation 1. This publisher continues with those
    /// subscribers that have opened it.
    FERRY_INLINE void withdraw() noexcept;

   private:
    struct state;
    std::unique_ptr<state> state_;
};

}  // namespace FERRY_NAMESPACE::ipc

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/ipc/detail/publisher.ipp>
#endif
