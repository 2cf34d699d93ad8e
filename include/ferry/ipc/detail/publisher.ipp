// ferry: the engine of ipc/publisher.hpp.
#pragma once

#include <ferry/ipc/publisher.hpp>

#include <ferry/ipc/detail/process.hpp>
#include <ferry/ipc/detail/topic_file.hpp>

namespace FERRY_NAMESPACE::ipc {

struct publisher::state {
    static constexpr char const* api = "ferry::ipc::publisher";

    /// Claims a name. If it is empty, the file has no name.
    state(std::string_view wanted, topic_options const& options) : how{options} {
        if (wanted.empty()) return;
        name = detail::file_of(wanted, api);
        directory = detail::names_directory(how.directory, api);
        names = {directory.get(), api};
        if (!names.claim(name))
            detail::fail(errc::busy, api, name.c_str(), " has a publisher: end it, or choose another name");
    }
    void check_process() const {
        if (!process.is_here())
            detail::fail(errc::argument, api, "a forked child has no publisher: make one under another name");
    }
    [[nodiscard]] detail::topic_slot describe(shared const& s) {
        if (!s.is_open())
            detail::fail(errc::argument, api, "a slot has no open share: pass the result of ferry::ipc::share");
        auto made = detail::describe(s.descriptor(), how, ++stamps, api);
        made.record.files = static_cast<std::uint32_t>(std::ranges::count_if(s.files(), [](int i) { return i >= 0; }));
        return made;
    }

    /// The mapped file of the topic. `handout` is the descriptor for subscribers, whose open file description has no
    /// locks.
    struct topic_file : detail::topic_map {
        unique_fd file{}, handout{};
    };
    [[nodiscard]] bool has_room_for(detail::topic_slot const& s) const noexcept {
        return sizeof s.record + s.bytes.size() <= its.capacity;
    }
    static void put(topic_file const& to, std::size_t k, detail::topic_slot const& s) noexcept {
        constexpr auto first = offsetof(detail::topic_record, length);
        auto* const at = to.byte(to.place_of(k));
        std::memcpy(at + first, &s.record.length, sizeof s.record - first);
        std::memcpy(at + sizeof s.record, s.bytes.data(), s.bytes.size());
        to.stamp(k) = s.record.stamp;
        to.generation(k) = s.record.generation;
    }
    /// Makes a file with a record for each slot, which replaces the file that has the name and continues its
    /// generations. The new file is complete and locked before it has the name. On failure nothing has changed.
    void make() {
        bool const has_name = !name.empty();
        if (!has_name && its.file)
            detail::fail(
                errc::argument, api,
                "a descriptor is larger than those before, and subscribers find no larger file, because this topic "
                "has no name: make another publisher");
        topic_file fresh;
        // Leaves room for more digits in names, so that other memory of the same shape does not need a larger file.
        constexpr std::size_t spare = 128;
        for (auto const& s : records)
            fresh.capacity = std::max(fresh.capacity, (sizeof s.record + s.bytes.size() + spare + 7) / 8 * 8);
        auto const bytes = fresh.place_of(records.size());
        fresh.file = unique_fd{has_name ? ::openat(directory.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)
                                        : ::memfd_create("ferry-topic", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
        int const file = fresh.file.get();
        if (!fresh.file || ::fchmod(file, 0600) != 0)
            detail::fail_system(api, has_name ? "open(O_TMPFILE)" : "memfd_create");
        int number = detail::exceeds_file_limit(bytes) ? EFBIG : EINTR;
        while (number == EINTR) number = ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
        if (number != 0) detail::fail_system(api, "posix_fallocate", number);
        if (!has_name && ::fcntl(file, F_ADD_SEALS, detail::fixed_size) != 0)
            detail::fail_system(api, "fcntl(F_ADD_SEALS)");
        fresh.handout = unique_fd{detail::reopen(file, O_RDONLY)};
        if (!fresh.handout) detail::fail_system(api, "open(/proc/self/fd)");
        fresh.at = detail::map_file(file, bytes, PROT_READ | PROT_WRITE, api);
        auto last = generation, in = stream;
        unique_fd old{};
        if (!its.file) {
            detail::topic_head head;
            if (has_name) old = detail::open_own(directory.get(), name.c_str(), O_RDWR, api);
            if (old && (!detail::read_at(old.get(), 0, &head, sizeof head) || head.magic != head.the_magic))
                detail::fail_other(name, api);
            bool const is_known = old && head.latest >> 8 < std::uint64_t{1} << 54;
            last = is_known ? head.latest >> 8 : 0;
            in = is_known ? head.stream : detail::fresh_id(api, std::source_location::current());
        }
        detail::topic_head const head{.magic = detail::topic_head::the_magic,
                                      .slots = static_cast<std::uint32_t>(records.size()),
                                      .capacity = static_cast<std::uint32_t>(fresh.capacity),
                                      .latest = last << 8 | newest,
                                      .stream = in};
        std::memcpy(fresh.at.get(), &head, sizeof head);
        for (std::size_t k = 0; k < records.size(); ++k) put(fresh, k, records[k]);
        if (!detail::lock(file, F_WRLCK, detail::owner_byte)) detail::fail_system(api, "fcntl(F_OFD_SETLK)");
        if (has_name) link(file);
        // No operation below can fail.
        for (auto& s : records) s.is_written = true;
        generation = last, stream = in;
        std::swap(its, fresh);
        if (fresh.file) {
            leave(fresh, detail::has_moved);
        } else if (std::uint64_t const moved = last << 8 | detail::has_moved; old) {
            // The former file is that of a publisher that was killed or has ended.
            constexpr auto at = offsetof(detail::topic_head, latest);
            if (::pwrite(old.get(), &moved, sizeof moved, at) > 0) detail::wake_waiters(old.get(), at, api);
        }
        if (has_name) names.announce(api);
    }
    void link(int file) const {
        inplace_text const self = inplace_text{"/proc/self/fd/"} << file;
        std::string const passing = ".new!" + name;
        ::unlinkat(directory.get(), passing.c_str(), 0);  // may remain of a killed owner; only the owner makes it
        if (::linkat(AT_FDCWD, self.c_str(), directory.get(), passing.c_str(), AT_SYMLINK_FOLLOW) == 0 &&
            ::renameat(directory.get(), passing.c_str(), directory.get(), name.c_str()) == 0)
            return;
        int const number = errno;
        ::unlinkat(directory.get(), passing.c_str(), 0);
        detail::fail_system(api, name.c_str(), number);
    }
    /// Ends the frames of a file, and tells its subscribers the reason. Its records must become invalid before the
    /// slots are written again.
    void leave(topic_file const& former, unsigned why) const noexcept {
        for (std::size_t k = 0; k < records.size(); ++k) former.generation(k) = 0;
        former.latest() = generation << 8 | why;
        detail::futex_wake(&former.latest());
    }
    /// Withdraws a slot from the subscribers. Returns false if one of them reads it.
    [[nodiscard]] bool take(unsigned k, stream_token on) {
        auto& r = records[k];
        its.generation(k) = generation + 1;  // first, so that a subscriber that attaches the slot now drops it
        std::atomic_thread_fence(std::memory_order_seq_cst);
        try {
            if (slots[k].wait_for_readers({}, on)) {
                r.record.generation = generation + 1;
                return r.is_begun = true;
            }
        } catch (...) {
            its.generation(k) = r.record.generation;
            throw;
        }
        its.generation(k) = r.record.generation;
        return false;
    }

    topic_options how;
    std::string name{};
    unique_fd directory{};
    detail::names_file names{};
    topic_file its{};
    std::vector<shared> slots{};
    std::vector<detail::topic_slot> records{};
    std::uint64_t generation = 0, stream = 0, stamps = 0;
    unsigned taken = 0, newest = detail::no_slot;  // own copies, because the values in the file are not trusted
    detail::process_mark process = detail::process_mark::here();
};

FERRY_INLINE publisher::publisher(std::string_view name, std::vector<shared>&& slots, topic_options const& how)
    : state_{std::make_unique<state>(name, how)} {
    auto& s = *state_;
    if (slots.size() < 2 || slots.size() > detail::most_slots)
        detail::fail(errc::argument, s.api, "expected 2 to 252 slots, got ", slots.size(),
                     ": pass more or fewer shares");
    std::uint32_t files = 1;  // the topic's own file is the first
    for (auto const& slot : slots) {
        s.records.push_back(s.describe(slot));
        s.records.back().record.first_file = files;
        files += s.records.back().record.files;
    }
    s.make();
    s.slots.swap(slots);
}

FERRY_INLINE publisher::~publisher() {
    if (state_->process.is_here()) state_->leave(state_->its, detail::has_ended);
}

FERRY_INLINE std::optional<unsigned> publisher::begin(std::chrono::nanoseconds limit, stream_token on) {
    auto& s = *state_;
    s.check_process();
    auto const end = detail::deadline(limit);
    std::chrono::nanoseconds pause = std::chrono::microseconds{10};
    for (;;) {
        for (std::size_t i = 1; i <= s.slots.size(); ++i) {
            auto const k = static_cast<unsigned>((s.taken + i) % s.slots.size());
            if (k != s.newest && s.take(k, on)) return s.taken = k;
        }
        auto const left = end - std::chrono::steady_clock::now();
        if (left <= std::chrono::nanoseconds{0}) return {};
        std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, left));
        pause = std::min<std::chrono::nanoseconds>(2 * pause, std::chrono::milliseconds{1});
    }
}

FERRY_INLINE shared const& publisher::operator[](unsigned slot) const noexcept { return state_->slots[slot]; }

FERRY_INLINE void publisher::replace(unsigned slot, shared&& fresh) {
    auto& s = *state_;
    s.check_process();
    if (slot >= s.slots.size() || slot == s.newest)
        detail::fail(errc::argument, s.api, "slot ", slot,
                     " is the newest, or does not exist: pass a slot that begin() returned");
    auto made = s.describe(fresh);
    if (made.record.files != 0 || (s.name.empty() && !s.has_room_for(made)))
        detail::fail(errc::argument, s.api, "subscribers have no file for the new memory of slot ", slot,
                     ": make another publisher, or share it in a named segment");
    s.its.generation(slot) = 0;
    made.is_begun = true;
    s.records[slot] = std::move(made);
    s.slots[slot] = std::move(fresh);  // closes the former share
    s.taken = slot;
}

FERRY_INLINE std::uint64_t publisher::publish(unsigned slot, stream_token on) {
    auto& s = *state_;
    s.check_process();
    if (slot >= s.slots.size() || !s.records[slot].is_begun)
        detail::fail(errc::argument, s.api, "slot ", slot, " is not being written: pass the result of begin");
    auto& r = s.records[slot];
    if (s.slots[slot].record_ready(on)) {
        auto made = s.describe(s.slots[slot]);
        made.record.first_file = r.record.first_file;
        made.is_begun = true;
        r = std::move(made);
    }
    if (!s.has_room_for(r)) s.make();
    r.record.generation = s.generation + 1;
    if (!std::exchange(r.is_written, true)) s.put(s.its, slot, r);
    s.its.generation(slot) = ++s.generation;
    s.its.latest() = s.generation << 8 | slot;
    detail::futex_wake(&s.its.latest());
    r.is_begun = false;
    s.newest = slot;
    return s.generation;
}

FERRY_INLINE std::uint64_t publisher::generation() const noexcept { return state_->generation; }

FERRY_INLINE std::vector<int> publisher::files() const {
    std::vector<int> all{state_->its.handout.get()};
    for (auto const& s : state_->slots)
        for (int const file : s.files())
            if (file >= 0) all.push_back(file);
    return all;
}

FERRY_INLINE void publisher::withdraw() noexcept {
    auto& s = *state_;
    if (!s.process.is_here()) return;
    if (!s.name.empty()) ::unlinkat(s.directory.get(), s.name.c_str(), 0);
    s.name.clear();
}

}  // namespace FERRY_NAMESPACE::ipc
