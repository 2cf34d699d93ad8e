// ferry: the control page that the exporter and the importers of a segment share. Lock-free: a killed process leaves no
// lock behind.
#pragma once

#include <ferry/ipc/handles.hpp>
#include <ferry/ipc/process.hpp>

#include <array>
#include <atomic>  // the page is shared by processes
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {

/// Identity of a process in one word, so that a single compare-exchange claims a slot: 22 bits of process ID (the
/// maximum of Linux), 40 bits of start time, and a flag for a process of another pid namespace than the exporter's,
/// whose end cannot be detected.
class holder {
   public:
    constexpr holder() = default;
    constexpr explicit holder(std::uint64_t word) noexcept : word_{word} {}
    constexpr holder(wire::origin const& process, bool is_foreign) noexcept
        : word_{(std::uint64_t{process.pid} & pid_mask) | (process.start_time & start_mask) << 22 |
                std::uint64_t{is_foreign} << 62} {}

    [[nodiscard]] constexpr std::uint64_t word() const noexcept { return word_; }
    [[nodiscard]] constexpr std::uint32_t pid() const noexcept { return static_cast<std::uint32_t>(word_ & pid_mask); }
    [[nodiscard]] constexpr std::uint64_t start_time() const noexcept { return word_ >> 22 & start_mask; }
    [[nodiscard]] constexpr bool is_foreign() const noexcept { return (word_ >> 62 & 1) != 0; }
    /// Returns whether the word is empty, or its process has certainly ended.
    [[nodiscard]] bool is_gone() const noexcept {
        return word_ == 0 || (!is_foreign() && has_ended(pid(), start_time()));  // mutant: ipc_dead_holders
    }

    friend constexpr bool operator==(holder, holder) = default;

   private:
    static constexpr std::uint64_t pid_mask = (std::uint64_t{1} << 22) - 1, start_mask = (std::uint64_t{1} << 40) - 1;
    std::uint64_t word_ = 0;
};

/// The first page of a segment. All zero except for its head when it is new.
///
/// No value in it is trusted. Other processes of this user can write to it, and can then make the exporter overwrite or
/// keep memory that they read. No size, offset or number of iterations is read from it.
class control_page {
   public:
    static constexpr std::uint64_t the_magic = 0x3147505952524546;  // "FERRYPG1", little-endian
    static constexpr int max_shares = 40, max_importers = 160;

    /// Initialises the page, after the rest of the segment is ready.
    /// \param id    identifies the allocation
    /// \param home  pid namespace of the process that makes the segment
    void begin(std::uint64_t id, std::uint64_t home) noexcept {
        home_.store(home);
        id_.store(id);
        magic_.store(the_magic);
    }
    [[nodiscard]] bool is_valid(std::uint64_t id) const noexcept {
        return magic_.load() == the_magic && id_.load() == id;
    }

    // ---- shares: the IDs under which the segment can be attached ----

    /// Permits attaches under `id`. Slots of ended processes are reused, unless `process` is in another pid namespace
    /// than the process that made the segment, and cannot tell whether they have ended.
    /// \param id       identifies the share
    /// \param process  the sharing process
    /// \return         false when all slots are in use
    [[nodiscard]] bool publish(std::uint64_t id, wire::origin const& process) noexcept {
        holder const by{process, process.pid_namespace != home_.load()};
        for (bool const evict : {false, !by.is_foreign()})  // mutant: ipc_share_place
            for (auto& s : shares_)
                if (take(s.by, by, evict)) {
                    s.id.store(id);
                    return true;
                }
        return false;
    }
    /// Ends attaches under `id`: those that begin after this call fail.
    void retract(std::uint64_t id) noexcept {
        for (auto& s : shares_)
            if (s.id.load() == id) {
                s.id.store(0);  // mutant: ipc_retract
                s.by.store(0);
            }
    }
    [[nodiscard]] bool is_open(std::uint64_t id) const noexcept {
        for (auto const& s : shares_)
            if (s.id.load() == id) return true;
        return false;
    }

    // ---- importers ----
    // An importer claims a slot and then checks that the share is open; the exporter closes the share and then checks
    // the slots. All accesses are sequentially consistent, so at least one of the two sees the other.

    /// Returned in place of a slot when all are in use: the importer is counted, without an owner.
    static constexpr int crowd = -2;

    /// Claims a slot for a mapping of this process. Importers without a slot are only counted: until the last of them
    /// leaves, `readers` is at least 1, and one that is killed is never subtracted.
    /// \param by    this process
    /// \param home  its pid namespace
    /// \return      index of the slot, or `crowd`
    [[nodiscard]] int enter(holder by, std::uint64_t home) noexcept {
        for (bool const evict : {false, true})
            for (int i = 0; i < max_importers; ++i) {
                if (used_.load() <= i) used_.store(i + 1);  // before the claim, so that scans include the slot
                auto& p = places_[at(i)];
                std::uint64_t found = p.by.load();
                if (found != 0 && !(evict && is_gone(p))) continue;
                if (p.by.compare_exchange_strong(found, by.word())) {
                    p.home.store(home);
                    p.readers.store(0);
                    p.turn.store(0);
                    return i;
                }
            }
        crowd_.fetch_add(1);  // mutant: ipc_crowd
        return crowd;
    }
    void leave(int place) noexcept {
        if (place == crowd) crowd_.fetch_sub(1);
        if (place < 0) return;
        places_[at(place)].readers.store(0);
        places_[at(place)].by.store(0);
    }
    /// Counts a tensor that uses the mapping.
    void add_reader(int place) noexcept {
        if (place >= 0) places_[at(place)].readers.fetch_add(1);
    }
    void drop_reader(int place) noexcept {
        if (place >= 0) places_[at(place)].readers.fetch_sub(1);
    }

    /// Returns the number of slots that have ever been in use.
    [[nodiscard]] int places() const noexcept {
        int const used = used_.load();
        return used < 0 ? 0 : used > max_importers ? max_importers : used;
    }
    /// Returns whether any living importer has the segment mapped.
    [[nodiscard]] bool is_mapped() const noexcept {
        if (crowd_.load() != 0) return true;
        for (int i = 0; i < places(); ++i)
            if (!is_gone(places_[at(i)])) return true;
        return false;
    }
    /// Returns the number of tensors that living importers hold.
    [[nodiscard]] std::uint64_t readers() const noexcept {
        std::uint64_t sum = crowd_.load() != 0;
        for (int i = 0; i < places(); ++i)
            if (auto const n = places_[at(i)].readers.load(); n != 0 && !is_gone(places_[at(i)])) sum += n;
        return sum;
    }

    // ---- events recorded by importers ----

    /// Stores the handle of the event that marks the work queued by the importer. Called by one thread at a time.
    void announce(int place, event_handle const& done) noexcept {
        if (place < 0) return;
        auto& p = places_[at(place)];
        p.turn.fetch_add(1);  // odd: being written
        for (std::size_t i = 0; i < p.done.size(); ++i) {
            std::uint64_t word = 0;
            std::memcpy(&word, done.data() + 8 * i, 8);
            p.done[i].store(word);
        }
        p.turn.fetch_add(1);
    }
    enum class mark { none, event, unclear };
    /// Reads the last event stored in a slot of a living importer. Unclear: it is being written; call again.
    [[nodiscard]] mark announced(int place, event_handle& out) const noexcept {
        auto const& p = places_[at(place)];
        auto const before = p.turn.load();
        if (before == 0 || is_gone(p)) return mark::none;
        for (std::size_t i = 0; i < p.done.size(); ++i) {
            auto const word = p.done[i].load();
            std::memcpy(out.data() + 8 * i, &word, 8);
        }
        return before % 2 == 0 && p.turn.load() == before ? mark::event : mark::unclear;
    }

   private:
    struct share_place {
        std::atomic<std::uint64_t> by, id;
    };
    struct importer_place {
        std::atomic<std::uint64_t> by;
        std::atomic<std::uint32_t> readers, turn;
        std::array<std::atomic<std::uint64_t>, event_handle_bytes / 8> done;
        std::atomic<std::uint64_t> home;  // the pid namespace of that process; 0: unknown
        std::uint64_t reserved;
    };

    /// Whether the slot is empty, or this process can verify that its owner has ended. A process ID of another pid
    /// namespace has no meaning here, so its process counts as living. Importers evaluate this as well, and since an
    /// importer may share the segment again, a slot may belong to a process that is invisible to the exporter.
    [[nodiscard]] static bool is_gone(importer_place const& p) noexcept {
        holder const owner{p.by.load()};
        if (owner.word() == 0 || owner.is_foreign()) return owner.word() == 0;
        if (!owner.is_gone()) return false;
        std::uint64_t const home = p.home.load();  // last: finding the own namespace takes microseconds
        return home == 0 || home == own_pid_namespace();  // mutant: ipc_namespace_number
    }

    [[nodiscard]] static std::size_t at(int place) noexcept { return static_cast<std::size_t>(place); }
    /// Claims a free slot or, with `evict`, that of an ended process.
    [[nodiscard]] static bool take(std::atomic<std::uint64_t>& place, holder by, bool evict) noexcept {
        std::uint64_t found = place.load();
        if (found != 0 && (!evict || !holder{found}.is_gone())) return false;
        return place.compare_exchange_strong(found, by.word());
    }

    std::atomic<std::uint64_t> magic_, id_;
    std::atomic<std::int32_t> used_, crowd_;
    std::atomic<std::uint64_t> home_;  // the pid namespace of the process that made the segment
    [[maybe_unused]] std::uint64_t reserved_[12];
    share_place shares_[max_shares];
    importer_place places_[max_importers];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(control_page) <= 16384);

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
