// ferry: the control page that the exporters and the importers of a segment share. The kernel releases the locks of a
// process that is killed.
#pragma once

#include <ferry/ipc/detail/system.hpp>
#include <ferry/ipc/handles.hpp>

#include <atomic>  // the page is shared by processes

namespace FERRY_NAMESPACE::ipc::detail {

/// The first page of a segment. A new page is zero except for its head.
///
/// No value in the page is trusted, because other processes of this user can write to it. They can make the exporter
/// overwrite or keep memory that they read, but no size, offset or number of iterations is read from the page.
///
/// The importer in slot n has locked byte 1 + n of the segment, so a slot without its lock is free. `file` is a
/// descriptor of the segment; the functions do not see locks of its own open file description.
class control_page {
   public:
    static constexpr std::uint64_t the_magic = 0x3247505952524546;  // "FERRYPG2", little-endian
    static constexpr int max_importers = 224;

    /// Initialises the page, after the rest of the segment is ready. `id` identifies the allocation.
    void begin(std::uint64_t id) noexcept {
        id_.store(id);
        magic_.store(the_magic);
    }
    [[nodiscard]] bool is_valid(std::optional<std::uint64_t> id) const noexcept {
        return magic_.load() == the_magic && (!id || id_.load() == *id);
    }

    // An importer locks a slot and then checks that the share is open; the exporter closes the share and then checks
    // the slots. The kernel orders the two, so at least one of them sees the other.

    /// The result of `enter` when all slots are in use. All such importers have a read lock on the same byte while they
    /// map the segment. Because nothing counts their tensors, they lock one more byte while they have any
    /// (`begin_reading`).
    static constexpr int crowd = -2;

    /// Claims a slot for a mapping. The claim ends with the open file description of `file`, through which the segment
    /// is mapped. Returns the index of the slot, `crowd`, or -1 if the kernel has no memory for a lock.
    [[nodiscard]] int enter(int file) noexcept {
        for (int i = 0; i < max_importers; ++i)
            if (lock(file, F_WRLCK, byte_of(i))) {
                places_[i].readers.store(0);
                places_[i].turn.store(0);
                return i;
            }
        return lock(file, F_RDLCK, byte_of(max_importers)) ? crowd : -1;
    }
    /// Frees the slot of a mapping. Only for mappings that forked children cannot use.
    void leave(int place, int file) noexcept {
        if (place != -1) lock(file, F_UNLCK, byte_of(place == crowd ? max_importers : place));
    }
    /// Counts a tensor that uses the mapping.
    void add_reader(int place) noexcept {
        if (place >= 0) places_[place].readers.fetch_add(1);
    }
    void drop_reader(int place) noexcept {
        if (place >= 0) places_[place].readers.fetch_sub(1);
    }

    /// Locks a byte while a mapping has tensors, for importers whose tensors the page does not count, because it is
    /// sealed or they have no slot. If no byte is free, two importers count as one. Returns the index of the byte, or
    /// -1 if the kernel has no memory for a lock.
    [[nodiscard]] static int begin_reading(int file) noexcept {
        int place = 0;
        while (place < max_importers - 1 && is_locked(file, reading_byte_of(place))) ++place;
        return lock(file, F_RDLCK, reading_byte_of(place)) ? place : -1;
    }
    static void end_reading(int place, int file) noexcept { lock(file, F_UNLCK, reading_byte_of(place)); }

    // The functions below are for exporters: `file` is not the descriptor of an importer.

    /// Returns whether any importer, or a forked child of one, has the segment mapped.
    [[nodiscard]] bool is_mapped(int file) const noexcept { return is_locked(file, byte_of(0), max_importers + 1); }
    /// Returns the number of tensors that importers, or forked children of them, have. A mapping whose tensors the page
    /// does not count adds 1 while it has tensors.
    [[nodiscard]] std::uint64_t readers(int file) const noexcept {
        std::uint64_t sum = count_locked(file, reading_byte_of(0), max_importers);
        for (int i = 0; i < max_importers; ++i)
            if (auto const n = places_[i].readers.load(); n != 0 && is_taken(i, file)) sum += n;
        return sum;
    }

    /// Stores the handle of the event that marks the work queued by the importer. Called by one thread at a time.
    void announce(int place, event_handle const& done) noexcept {
        if (place < 0) return;
        auto& p = places_[place];
        p.turn.fetch_add(1);  // odd while the event is being written
        auto const words = std::bit_cast<event_words>(done);
        for (std::size_t i = 0; i < words.size(); ++i) p.done[i].store(words[i]);
        p.turn.fetch_add(1);
    }
    enum class mark { none, event, unclear };
    /// Reads the last event stored in a slot. Returns `unclear` while it is being written; call again.
    [[nodiscard]] mark announced(int place, event_handle& out, int file) const noexcept {
        auto const& p = places_[place];
        auto const before = p.turn.load();
        if (before == 0 || !is_taken(place, file)) return mark::none;
        event_words words;
        for (std::size_t i = 0; i < words.size(); ++i) words[i] = p.done[i].load();
        out = std::bit_cast<event_handle>(words);
        return before % 2 == 0 && p.turn.load() == before ? mark::event : mark::unclear;
    }

   private:
    using event_words = std::array<std::uint64_t, event_handle_bytes / 8>;
    struct importer_place {
        std::atomic<std::uint32_t> readers, turn;
        std::array<std::atomic<std::uint64_t>, event_handle_bytes / 8> done;
    };

    [[nodiscard]] static constexpr off_t byte_of(int place) noexcept { return 1 + place; }
    /// Not adjacent to another byte of the same importer, because the kernel would report both as one lock.
    [[nodiscard]] static constexpr off_t reading_byte_of(int place) noexcept { return 3 + max_importers + place; }
    [[nodiscard]] static bool is_taken(int place, int file) noexcept { return is_locked(file, byte_of(place)); }

    std::atomic<std::uint64_t> magic_, id_;
    [[maybe_unused]] std::uint64_t reserved_[6];
    importer_place places_[max_importers];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(control_page) <= 16384);

}  // namespace FERRY_NAMESPACE::ipc::detail
