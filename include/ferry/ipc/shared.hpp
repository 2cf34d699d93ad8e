// ferry: shared, the exporter's handle of a share.
#pragma once

#include <ferry/fwd.hpp>
#include <ferry/ipc/options.hpp>
#include <ferry/tensor/managed.hpp>
#include <ferry/tensor/view.hpp>

#include <chrono>
#include <memory>  // tensors of the exporter keep the memory as well
#include <source_location>
#include <utility>

namespace FERRY_NAMESPACE::ipc {

namespace detail {
struct share_access;
struct share_state;
}  // namespace detail

/// A share of a tensor, a column or a list. Once it is closed or destroyed, no process can attach it any more;
/// importers keep their mappings. Move-only.
///
/// Different objects may be used from different threads. In a forked child, closing has no effect, because the share
/// belongs to the parent.
class shared {
   public:
    /// Constructs an empty object, as after a move.
    shared() = default;
    shared(shared&& other) noexcept = default;
    shared& operator=(shared&& other) noexcept {
        shared taken{std::move(other)};  // closes the previous share of this object
        std::swap(state_, taken.state_);
        return *this;
    }
    ~shared() { close(); }

    /// Returns whether it has a share.
    [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }

    /// Returns the descriptor for other processes, which ferry::wire converts to bytes or JSON. Memory of CUDA pools
    /// and anonymous segments also needs a file descriptor, sent over a Unix socket. Valid as long as this object. Must
    /// not be called on an empty object.
    [[nodiscard]] FERRY_INLINE wire::descriptor const& descriptor() const& noexcept;
    // clang-format off
    wire::descriptor const& descriptor() const&& FERRY_DELETED("the descriptor is destroyed with the share: keep the share in a variable");
    // clang-format on

    /// Returns the file descriptor of an anonymous segment (`session_options::segments`), which importers pass as
    /// `attach_options::files`; -1 for a named segment. Borrowed; it is closed with the share and its tensors. For a
    /// column or a list, returns the descriptor of its first memory; see `files`.
    [[nodiscard]] FERRY_INLINE int file() const noexcept;
    /// Returns the file descriptor of the segment of each memory in the descriptor; -1 for named segments.
    /// \throws std::bad_alloc
    [[nodiscard]] FERRY_INLINE std::vector<int> files() const;

    /// Returns a view of the shared memory in this process; for a column or a list, of the bytes of its first memory.
    /// Must not be called on an empty object.
    [[nodiscard]] FERRY_INLINE tensor_view view() const& noexcept;
    tensor_view view() const&& FERRY_DELETED("the view would outlive the share: keep the share in a variable");
    /// Returns a tensor that keeps the shared memory, even after `close`.
    /// \throws std::bad_alloc
    [[nodiscard]] FERRY_INLINE managed_tensor tensor() const;

    /// Returns whether a column is shared.
    [[nodiscard]] FERRY_INLINE bool holds_column() const noexcept;
    /// Returns the shared column, which keeps the memory, even after `close`. Requires #include
    /// <ferry/ipc/share_column.hpp>.
    /// \throws error  errc::argument: no column is shared
    /// \throws std::bad_alloc
    [[nodiscard]] FERRY_INLINE ferry::column column(std::source_location where = std::source_location::current()) const;

    /// Returns the copies that `share` made, of memory that other processes cannot open. Must not be called on an empty
    /// object.
    [[nodiscard]] FERRY_INLINE share_copies const& copied() const noexcept;

    /// Closes the share. No process can attach it any more; importers keep their mappings. Never waits. No effect on a
    /// closed share.
    /// \return  false when the name stays in /dev/shm, because this process may no longer remove it (it runs as another
    ///          user than when it shared); the next exporter of that user removes it
    FERRY_INLINE bool close() noexcept;
    /// Returns whether the share can be attached.
    [[nodiscard]] FERRY_INLINE bool is_open() const noexcept;

    /// Returns the number of tensors of this share that other processes have; those of ended processes do not count.
    ///
    /// A session has one mapping for all its attaches. The tensors of 224 mappings are counted one by one; each further
    /// mapping counts as one tensor, and all beyond 448 as at least one. A child that is forked while a process has a
    /// tensor in host memory counts until the child ends. A child that is forked with a mapping keeps the tensors of a
    /// killed parent counted.
    [[nodiscard]] FERRY_INLINE std::uint64_t readers() const noexcept;

    /// Waits until no other process has a tensor of this share, for an exporter that writes to the memory again.
    ///
    /// Later attaches remain possible, so announce the new data only after writing it.
    /// \param limit  longest wait
    /// \param on     stream that writes; it waits for the work that importers queued before they dropped their
    ///               tensors, and for the work that `record_ready` recorded. Without a stream, the host waits
    /// \return       false when a process still has a tensor
    /// \throws error  errc::stream: a null stream, or one of another device; errors of the back end
    [[nodiscard]] FERRY_INLINE bool wait_for_readers(std::chrono::nanoseconds limit, stream_token on = {},
                                                     std::source_location where = std::source_location::current());

    /// Makes later attaches wait for the work queued on a stream that writes to the memory again, instead of the work
    /// recorded before. Only for device memory. Does not wait, unless the back end has no free event.
    ///
    /// \param on     stream that writes; a token that names no stream has no effect
    /// \return       whether `descriptor` has changed, so that importers need the new one; at most in the first call
    /// \throws error  errc::stream: a null stream, one of another device, or memory of the host; errors of the back end
    FERRY_INLINE bool record_ready(stream_token on, std::source_location where = std::source_location::current());

   private:
    friend struct detail::share_access;
    template <class F>
    void for_each_part(F f) const;
    explicit shared(std::shared_ptr<detail::share_state> state) noexcept : state_{std::move(state)} {}

    /// Makes `on` wait for the events of the importers. Returns false when an event is being written, or cannot be
    /// opened while its process is running.
    [[nodiscard]] FERRY_INLINE bool order_after_importers(stream_token on);

    std::shared_ptr<detail::share_state> state_;
};

namespace detail {

struct share_access {
    [[nodiscard]] static shared wrap(std::shared_ptr<share_state> state) noexcept { return shared{std::move(state)}; }
};

}  // namespace detail
}  // namespace FERRY_NAMESPACE::ipc

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/ipc/detail/shared.ipp>
#endif
