// ferry: tensors and columns that are moved to the host, while no lease uses them, when device memory is needed.
#pragma once

#include <ferry/base/detail/check_stream.hpp>
#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/config.hpp>
#include <ferry/lease/detail/spill_core.hpp>
#include <ferry/lease/options.hpp>
#include <ferry/lease/spillable.hpp>
#include <ferry/lease/spillable_column.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/memory_space.hpp>
#include <ferry/tensor/managed.hpp>

#include <cstddef>
#include <memory>  // handles and leases share the state of a manager
#include <source_location>
#include <string>  // the table of leases
#include <utility>

namespace FERRY_NAMESPACE {

/// A number of bytes within the limit of a spill_manager that no other caller can use, until the object is destroyed
/// or passed to `spill_manager::adopt`. Move-only.
class reservation {
   public:
    /// Constructs an empty reservation.
    reservation() = default;
    reservation(reservation&& other) noexcept : core_{std::move(other.core_)}, bytes_{std::exchange(other.bytes_, 0)} {}
    reservation& operator=(reservation&& other) noexcept {
        std::swap(core_, other.core_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~reservation() {
        if (core_ != nullptr && bytes_ != 0) core_->unreserve(bytes_);
    }
    /// Returns the number of bytes.
    [[nodiscard]] std::size_t size() const noexcept { return bytes_; }

   private:
    friend class spill_manager;
    reservation(std::shared_ptr<detail::spill_core> core, std::size_t bytes) noexcept
        : core_{std::move(core)}, bytes_{bytes} {}

    std::shared_ptr<detail::spill_core> core_;
    std::size_t bytes_ = 0;
};

/// Owner of the state that spillable tensors share: a back end that copies, a memory space of one device, a limit, and
/// the order in which allocations were used.
///
/// When memory is needed, allocations that no lease uses leave the device, least recently used first. Each spill waits
/// for the work that the streams of the leases had queued when the leases ended, and copies the bytes to the host. No
/// lock is held during an allocation, a copy, a wait or a call of the back end. Thread-safe; neither copyable nor
/// movable.
class spill_manager {
   public:
    /// Constructs a manager.
    ///
    /// \param b        back end that copies, and allocates host memory; must outlive the manager
    /// \param space    memory space of the device; spilled tensors return to its memory
    /// \param options  limit, pinned memory, stream of the space
    /// \throws error           errc::argument for a limit of 0; errc::no_backend when the back end does not reach the
    ///                         device; errc::stream for a stream of another device
    /// \throws std::bad_alloc  when an allocation fails
    template <back_end B, memory_space Space>
    spill_manager(B& b, Space space, spill_options const& options = {},
                  std::source_location where = std::source_location::current()) {
        detail::reporter const r{"ferry::spill_manager", where};
        if (options.limit == 0)
            static_cast<void>(report(r, errc::argument, "the limit is 0 bytes: pass at least 1, or omit the limit"));
        static_cast<void>(detail::check_support(b, space.device(), r));
        static_cast<void>(detail::check_stream(options.stream, space.device(), r));
        core_ = std::make_shared<detail::spill_core>(b, std::move(space), options);
    }
    spill_manager(spill_manager const&) = delete;
    spill_manager& operator=(spill_manager const&) = delete;
    /// Ends all use of the back end. Waits for calls in progress, and for the work on dropped tensors. Tensors that
    /// outlive the manager can only be destroyed. The memory of a lease that outlives it is freed when the lease ends;
    /// the work that uses it must be complete by then (R50).
    ~spill_manager() { core_->close(); }

    /// Takes over a tensor. If the limit is exceeded, other tensors are spilled, as far as possible.
    ///
    /// \param tensor  tensor on the device of the space; consumed on success, unchanged on failure
    /// \param on      stream on which the tensor is ready, or `already_ready`
    /// \param room    reservation of this manager for the memory of the tensor, which it replaces
    /// \return        handle of the tensor
    /// \throws error  errc::device for a tensor of another device; errc::stream; errc::consumed when `tensor` is empty;
    ///                errc::argument for a reservation of another manager; errc::out_of_memory; errors of the back end
    [[nodiscard]] spillable adopt(managed_tensor&& tensor, stream_token on, reservation room = {},
                                  std::source_location where = std::source_location::current()) {
        check_room(room, where);
        auto* const made = core_->adopt(tensor, on, room.bytes_, {"ferry::spill_manager::adopt", where}).value();
        room.bytes_ = 0;
        return {core_, made};
    }

    /// Takes over a column. Each allocation of the column is spilled separately; allocations that the manager has
    /// already, from a column that shares the memory, are used again. They can be spilled when the program has released
    /// all other copies, slices and children. Blocks to read the size of text if it is unknown, as in a column imported
    /// from Arrow.
    ///
    /// \param c     column on the device of the space; empty on success, unchanged on failure
    /// \param on    stream on which the column is ready, or `already_ready`
    /// \param room  reservation of this manager for the memory of the column, which it replaces
    /// \return      handle of the column
    /// \throws error  errc::device for memory of another device; errc::stream; errc::bad_column for invalid offsets;
    ///                errc::argument for a reservation of another manager; errc::out_of_memory; errors of the back end
    /// \throws std::bad_alloc  when an allocation fails
    [[nodiscard]] spillable_column adopt(column&& c, stream_token on, reservation room = {},
                                         std::source_location where = std::source_location::current()) {
        check_room(room, where);
        auto made = detail::adopt_column(core_, c, on, room.bytes_, {"ferry::spill_manager::adopt", where});
        room.bytes_ = 0;
        return spillable_column{std::move(made)};
    }

    /// Makes room below the limit, by spilling, before the caller allocates.
    ///
    /// \param bytes  number of bytes
    /// \return       reservation
    /// \throws error  errc::out_of_memory when `bytes` exceeds the limit; errc::busy when leases and reservations
    ///                occupy the limit; errors of a spill
    [[nodiscard]] reservation reserve(std::size_t bytes) {
        core_->reserve(bytes).value();
        return {core_, bytes};
    }

    /// Frees the device memory of dropped tensors, then spills tensors, until it has freed at least `bytes` bytes and
    /// the limit holds, or no tensor can be spilled. A tensor whose spill fails stays on the device.
    ///
    /// \param bytes  number of bytes
    /// \return       number of bytes freed
    std::size_t free_up(std::size_t bytes) noexcept { return core_->free_up(bytes); }

    /// A callback for RMM's `failure_callback_resource_adaptor`. Its exception type must be std::bad_alloc, because the
    /// default of RMM ignores a plain std::bad_alloc. Place the adaptor above a pool, not below it.
    ///
    /// \param bytes    size of the allocation that failed
    /// \param manager  pointer to a spill_manager
    /// \return         whether memory was freed, so that the allocation is to be tried again
    static bool on_failure(std::size_t bytes, void* manager) noexcept {
        auto& core = *static_cast<spill_manager*>(manager)->core_;
        return core.make_room(bytes, core.freed());
    }

    /// Returns the statistics of the manager.
    [[nodiscard]] spill_statistics statistics() const noexcept { return core_->statistics(); }
    /// Returns a table of the tensors that leases keep on the device.
    ///
    /// \return  one line for each: size, source location of the call that began the oldest lease, number of leases
    [[nodiscard]] std::string live_leases() const { return core_->live_leases(); }

   private:
    template <memory_space Space>
    friend class retrying_space;

    void check_room(reservation const& room, std::source_location where) const {
        if (room.bytes_ != 0 && room.core_ != core_)
            static_cast<void>(report(detail::reporter{"ferry::spill_manager::adopt", where}, errc::argument,
                                     "the reservation is of another manager: call reserve of this one"));
    }

    std::shared_ptr<detail::spill_core> core_;
};

}  // namespace FERRY_NAMESPACE
