// ferry: the page that exporter and importers of a segment have in common. Lock-free: whoever is killed leaves nothing
// locked.
#pragma once

#include <ferry/ipc/handles.hpp>
#include <ferry/ipc/process.hpp>

#include <array>
#include <atomic>  // the page is shared by processes
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ferry::inline v0::ipc {

/// A process in one word, so that one exchange claims a place for good: 22 bits of number (the most that Linux has), 40
/// of start time, and whether it lives in a pid namespace other than the exporter's, where nobody can tell whether it
/// lives.
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
    /// Nobody, or somebody who has certainly ended.
    [[nodiscard]] bool is_gone() const noexcept {
        return word_ == 0 || (!is_foreign() && has_ended(pid(), start_time()));  // mutant: ipc_dead_holders
    }

    friend constexpr bool operator==(holder, holder) = default;

   private:
    static constexpr std::uint64_t pid_mask = (std::uint64_t{1} << 22) - 1, start_mask = (std::uint64_t{1} << 40) - 1;
    std::uint64_t word_ = 0;
};

/// The begin of a segment. All zero but for the head when it is new.
///
/// Nothing in it is believed: other processes of this user can write anything here, and then get what they deserve, but
/// no size, offset or count is ever read from it, and every loop has a bound.
class control_page {
   public:
    static constexpr std::uint64_t the_magic = 0x3147505952524546;  // "FERRYPG1", little-endian
    static constexpr int max_shares = 40, max_importers = 160;

    /// By who made the segment, in the pid namespace `home`, once the rest is ready.
    void begin(std::uint64_t id, std::uint64_t home) noexcept {
        home_.store(home);
        id_.store(id);
        magic_.store(the_magic);
    }
    [[nodiscard]] bool is_valid(std::uint64_t id) const noexcept {
        return magic_.load() == the_magic && id_.load() == id;
    }

    // ---- shares: the ids under which the segment can be attached ----

    /// Opens it for attaches under `id`, by a process of the pid namespace `home`. False when all places are taken: the
    /// dead give theirs up, to processes of the maker's namespace, which alone can tell, and if they were of it.
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
    /// No attach under `id` succeeds that begins after this.
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
    // An importer takes a place, then looks whether the share is still open; the exporter closes, then looks at the
    // places. All of it sequentially consistent: one of the two sees the other.

    /// A place in no place: counted, and nobody knows by whom.
    static constexpr int crowd = -2;

    /// A place for a mapping of this process, which lives in the pid namespace `home`; `crowd` when there are more
    /// importers than places: whoever is killed there counts for good, and the exporter hears that somebody reads until
    /// the last of them has left.
    [[nodiscard]] int enter(holder by, std::uint64_t home) noexcept {
        for (bool const evict : {false, true})
            for (int i = 0; i < max_importers; ++i) {
                if (used_.load() <= i) used_.store(i + 1);  // before the claim: what is claimed is looked at
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
    /// One tensor more, or less, that somebody reads through the mapping.
    void add_reader(int place) noexcept {
        if (place >= 0) places_[at(place)].readers.fetch_add(1);
    }
    void drop_reader(int place) noexcept {
        if (place >= 0) places_[at(place)].readers.fetch_sub(1);
    }

    /// The places that were ever taken.
    [[nodiscard]] int places() const noexcept {
        int const used = used_.load();
        return used < 0 ? 0 : used > max_importers ? max_importers : used;
    }
    /// Whether any living importer has it mapped.
    [[nodiscard]] bool is_mapped() const noexcept {
        if (crowd_.load() != 0) return true;
        for (int i = 0; i < places(); ++i)
            if (!is_gone(places_[at(i)])) return true;
        return false;
    }
    /// The tensors that living importers hold.
    [[nodiscard]] std::uint64_t readers() const noexcept {
        std::uint64_t sum = crowd_.load() != 0;
        for (int i = 0; i < places(); ++i)
            if (auto const n = places_[at(i)].readers.load(); n != 0 && !is_gone(places_[at(i)])) sum += n;
        return sum;
    }

    // ---- events that importers leave behind ----

    /// Says which event stands for the work that the importer has queued. By one thread of the importer at a time.
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
    /// The last event announced in a place by somebody who lives. Unclear: being written, so ask again.
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
        std::atomic<std::uint64_t> home;  // the pid namespace of who is there; 0: not said
        std::uint64_t reserved;
    };

    /// Nobody, or somebody whom this process can see to have ended. The number of a process in another pid namespace
    /// is here somebody else's, or nobody's: it counts as living. Not only the exporter looks, and not all came by its
    /// name: an importer may share again, with processes that the exporter cannot see.
    [[nodiscard]] static bool is_gone(importer_place const& p) noexcept {
        holder const who{p.by.load()};
        if (who.word() == 0 || who.is_foreign()) return who.word() == 0;
        if (!who.is_gone()) return false;
        std::uint64_t const home = p.home.load();  // last: the system takes microseconds to say what is one's own
        return home == 0 || home == own_pid_namespace();  // mutant: ipc_namespace_number
    }

    [[nodiscard]] static std::size_t at(int place) noexcept { return static_cast<std::size_t>(place); }
    /// Claims a free place, or, with `evict`, one of the dead.
    [[nodiscard]] static bool take(std::atomic<std::uint64_t>& place, holder by, bool evict) noexcept {
        std::uint64_t found = place.load();
        if (found != 0 && (!evict || !holder{found}.is_gone())) return false;
        return place.compare_exchange_strong(found, by.word());
    }

    std::atomic<std::uint64_t> magic_, id_;
    std::atomic<std::int32_t> used_, crowd_;
    std::atomic<std::uint64_t> home_;  // the pid namespace of who made it
    [[maybe_unused]] std::uint64_t reserved_[12];
    share_place shares_[max_shares];
    importer_place places_[max_importers];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(control_page) <= 16384);

}  // namespace ferry::inline v0::ipc
