// ferry: publisher, which publishes frames in shared memory under a name.
#pragma once

#include <ferry/ipc/shared.hpp>

#include <iterator>
#include <string_view>

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
    FERRY_INLINE publisher(std::string_view name, std::vector<shared>&& slots, topic_options const& how = {});
    // For a list of shares: `publisher camera{"rig/left", {share(a), share(b), share(c)}}`.
    template <std::size_t N>
    publisher(std::string_view name, shared (&&slots)[N], topic_options const& how = {})
        : publisher{name, std::vector<shared>(std::move_iterator{slots}, std::move_iterator{slots + N}), how} {}
    publisher(publisher const&) = delete;
    publisher& operator=(publisher const&) = delete;
    /// Ends the publication: subscribers keep their frames, and wait for the next publisher. The file stays, without
    /// frames, so that the next publisher continues the generations; see `withdraw`.
    FERRY_INLINE ~publisher();

    /// Returns a slot that is neither the newest nor read, for writing.
    ///
    /// \param limit  longest wait for readers
    /// \param on     stream that writes: it waits for the work of the readers; without a stream the host waits
    /// \return       number of the slot; empty: readers have all slots. Drop the frame, or `replace` a slot.
    /// \throws error  errc::argument: a forked child; errors of the back end
    [[nodiscard]] FERRY_INLINE std::optional<unsigned> begin(std::chrono::nanoseconds limit = {}, stream_token on = {});
    /// Returns the share of a slot, whose `tensor` is written. \param slot  number below that of the slots
    [[nodiscard]] FERRY_INLINE shared const& operator[](unsigned slot) const noexcept;

    /// Gives a slot new memory, which can be written and published at once. Its readers keep the former memory.
    ///
    /// \param slot   any but the newest
    /// \param fresh  an open share of memory that needs no files; owned on success
    /// \throws error  errc::argument: another slot or share, or its descriptor is too large for a topic without a name
    /// \throws std::bad_alloc
    FERRY_INLINE void replace(unsigned slot, shared&& fresh);

    /// Publishes the frame in a slot, atomically: subscribers see all of it, or the frame before.
    ///
    /// Does not wait, unless the back end has no free event.
    /// \param slot  number that `begin` returned, or that of a replaced slot
    /// \param on    stream that writes device memory: the subscribers wait for it; without one, the data is complete
    /// \return      generation of the frame, 1 more than that of the last
    /// \throws error  errc::argument: another slot, or a forked child; errc::out_of_memory; errors of
    ///                `shared::record_ready`
    FERRY_INLINE std::uint64_t publish(unsigned slot, stream_token on = {});

    /// Returns the generation of the newest frame; 0: nothing has been published under the name.
    [[nodiscard]] FERRY_INLINE std::uint64_t generation() const noexcept;
    /// Returns the file descriptors that a subscriber without the name, or of memory that needs files, receives over a
    /// socket (`send`): the topic's file, then those of the slots in anonymous segments. Borrowed.
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
