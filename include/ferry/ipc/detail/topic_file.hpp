// ferry: the file of a topic: a head, and a record for each slot. docs/wire.md has its layout.
//
// The generation of a record is that of no published frame while its slot is written. The publisher stores the next one
// and then looks for readers of the memory; a reader attaches the memory and then compares the generation with that of
// the newest frame. The two are ordered, so at least one sees the other: the publisher leaves the slot, or the reader
// drops it and takes the newest frame.
//
// The publisher writes the file by pwrite and does not read it; readers read it by pread. Neither trusts it.
#pragma once

#include <ferry/ipc/detail/directory.hpp>
#include <ferry/ipc/detail/segment.hpp>
#include <ferry/ipc/options.hpp>
#include <ferry/wire/binary.hpp>
#include <ferry/wire/descriptor.hpp>

#include <algorithm>
#include <atomic>  // fences
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>  // names, and what `text` returns
#include <string_view>
#include <utility>
#include <vector>  // bytes of descriptors

namespace FERRY_NAMESPACE::ipc::detail {

struct topic_head {
    static constexpr std::uint64_t the_magic = 0x3143505452524546;  // "FERRTPC1", little-endian
    std::uint64_t magic = 0;
    std::uint32_t slots = 0, capacity = 0;  // capacity: bytes of a record
    std::uint64_t latest = 0;               // generation << 8 | slot; its low half is a futex
    std::uint64_t stream = 0;               // random; the generations of one stream increase
    std::uint64_t reserved[4] = {};

    [[nodiscard]] std::uint64_t generation() const noexcept { return latest >> 8; }
    [[nodiscard]] unsigned slot() const noexcept { return static_cast<unsigned>(latest & 255); }
};
struct topic_record {
    std::uint64_t generation = 0;             // of the last frame, or of the one that is written
    std::uint64_t stamp = 0;                  // changes with the descriptor
    std::uint32_t length = 0, text = 0;       // bytes of the descriptor, and of the text after it
    std::uint32_t first_file = 0, files = 0;  // of the slot, in publisher::files
};
static_assert(sizeof(topic_head) == 64 && sizeof(topic_record) == 32);

inline constexpr off_t latest_at = offsetof(topic_head, latest);
inline constexpr std::size_t most_slots = 252;  // with the topic's own file, as many files as a message has
/// Most bytes of a descriptor, so that a damaged file does not make a reader allocate more.
inline constexpr std::size_t most_descriptor = std::size_t{64} << 20;
/// Slot numbers of `latest`: the publisher has ended; another file has the name; nothing is published.
inline constexpr unsigned has_ended = 254, has_moved = 253, no_slot = 255;
/// The byte that the publisher locks.
inline constexpr off_t owner_byte = off_t{1} << 62;

/// Reads bytes of a file. \return  false: the file is shorter
[[nodiscard]] inline bool read_at(int file, off_t at, void* to, std::size_t bytes) noexcept {
    return ::pread(file, to, bytes, at) == static_cast<ssize_t>(bytes);
}
inline void write_at(int file, off_t at, void const* from, std::size_t bytes, char const* api) {
    for (auto const* p = static_cast<std::byte const*>(from); bytes != 0;) {
        auto const n = ::pwrite(file, p, bytes, at);
        if (n <= 0) fail_system(api, "pwrite", n < 0 ? errno : ENOSPC);
        p += n, at += n, bytes -= static_cast<std::size_t>(n);
    }
}

[[noreturn]] FERRY_COLD inline void fail_other(std::string const& name, char const* api) {
    fail(errc::bad_descriptor, api,
         message{name.c_str()} << " is not the file of a topic: remove it, or choose another name");
}

/// A slot of a publisher, and what its record has to be.
struct topic_slot {
    topic_record record{};
    std::vector<std::byte> bytes{};  // of the descriptor, and of its text
    bool is_written = false;         // in the file
    bool is_begun = false;           // no subscriber reads it: it may be published
};

/// Describes shared memory. Its generation is 0.
[[nodiscard]] inline topic_slot describe(wire::descriptor const& d, topic_options const& how, std::uint64_t stamp,
                                         char const* api) {
    topic_slot s{.record = {.stamp = stamp}, .bytes = wire::to_bytes(d)};
    auto const text = how.text != nullptr ? how.text(d) : std::string{};
    s.record.length = static_cast<std::uint32_t>(s.bytes.size());
    s.record.text = static_cast<std::uint32_t>(text.size());
    auto const its = std::as_bytes(std::span{text});
    s.bytes.insert(s.bytes.end(), its.begin(), its.end());
    if (s.bytes.size() > most_descriptor)
        fail(errc::argument, api,
             message{"the descriptor and its text have "}
                 << std::uint64_t{s.bytes.size()} << " bytes, expected at most " << std::uint64_t{most_descriptor}
                 << ": put the buffers into one allocation, with compact");
    return s;
}

/// The file of a topic, as its publisher writes it.
class topic_writer {
   public:
    /// Claims a name; empty: the file has none.
    topic_writer(std::string_view name, topic_options const& how) {
        if (name.empty()) return;
        name_ = file_of(name, api);
        directory_ = names_directory(how.directory, api);
        names_ = {directory_.get(), api};
        if (!names_.claim(name_))
            fail(errc::busy, api, message{name_.c_str()} << " has a publisher: end it, or choose another name");
    }
    /// Makes a file with a record for each slot, in place of the one that has the name, whose generations continue. It
    /// is complete and locked before it has the name. On failure nothing has changed.
    void make(std::vector<topic_slot>& slots, unsigned newest) {
        if (name_.empty() && file_)
            fail(errc::argument, api,
                 message{"a descriptor is larger than those before, and subscribers find no larger file, because this "
                         "topic has no name: make another publisher"});
        topic_writer fresh{*this, slots};
        unique_fd old{};
        if (!name_.empty() && !file_) old = fresh.adopt(directory_.get());
        topic_head const head{.magic = topic_head::the_magic,
                              .slots = static_cast<std::uint32_t>(slots.size()),
                              .capacity = static_cast<std::uint32_t>(fresh.capacity_),
                              .latest = fresh.generation_ << 8 | newest,
                              .stream = fresh.stream_};
        write_at(fresh.file_.get(), 0, &head, sizeof head, api);
        if (!lock(fresh.file_.get(), F_WRLCK, owner_byte)) fail_system(api, "fcntl(F_OFD_SETLK)");
        for (std::size_t k = 0; k < slots.size(); ++k) fresh.put(k, slots[k]);
        if (!name_.empty()) link(fresh.file_.get());
        // Nothing fails from here on.
        for (auto& s : slots) s.is_written = true;
        generation_ = fresh.generation_, stream_ = fresh.stream_, capacity_ = fresh.capacity_;
        std::swap(file_, fresh.file_);
        std::swap(handout_, fresh.handout_);
        std::swap(bell_, fresh.bell_);
        // Subscribers of the former file must not take its records for those of slots that are written from now on.
        if (fresh.file_)
            static_cast<void>(::ftruncate(fresh.file_.get(), sizeof(topic_head)));
        leave(fresh.file_ ? fresh.file_ : old, has_moved);
        if (!name_.empty()) names_.announce();
    }
    [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
    [[nodiscard]] bool has_name() const noexcept { return !name_.empty(); }
    [[nodiscard]] bool has_room_for(topic_slot const& s) const noexcept {
        return sizeof s.record + s.bytes.size() <= capacity_;
    }
    /// A file descriptor for subscribers, whose open file description has no locks.
    [[nodiscard]] int handout() const noexcept { return handout_.get(); }

    void put(std::size_t k, topic_slot const& s) const {
        write_at(file_.get(), place_of(k), &s.record, sizeof s.record, api);
        write_at(file_.get(), place_of(k) + off_t{sizeof s.record}, s.bytes.data(), s.bytes.size(), api);
    }
    void put_generation(std::size_t k, std::uint64_t generation) const {
        write_at(file_.get(), place_of(k), &generation, sizeof generation, api);
    }
    /// Publishes a slot, whose record has the next generation. \return  its generation
    std::uint64_t publish(unsigned k) {
        std::uint64_t const latest = (generation_ + 1) << 8 | k;
        write_at(file_.get(), latest_at, &latest, sizeof latest, api);
        bell_.wake();
        return ++generation_;
    }
    /// Leaves the file without frames, for the generations of the next publisher.
    void end() const noexcept {
        leave(file_, has_ended);
        if (has_name()) static_cast<void>(::ftruncate(file_.get(), sizeof(topic_head)));
    }
    void remove_name() noexcept {
        if (has_name()) ::unlinkat(directory_.get(), name_.c_str(), 0);
        name_.clear();
    }

    static constexpr char const* api = "ferry::ipc::publisher";

   private:
    /// An empty file of the size for these slots.
    topic_writer(topic_writer const& of, std::vector<topic_slot> const& slots)
        : generation_{of.generation_}, stream_{of.stream_} {
        // With room for the digits of names, so that other memory of the same shape does not need a larger file.
        constexpr std::size_t spare = 128;
        for (auto const& s : slots)
            capacity_ = std::max(capacity_, (sizeof s.record + s.bytes.size() + spare + 7) / 8 * 8);
        file_ = unique_fd{of.has_name() ? ::openat(of.directory_.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)
                                        : ::memfd_create("ferry-topic", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
        if (!file_ || ::fchmod(file_.get(), 0600) != 0)
            fail_system(api, of.has_name() ? "open(O_TMPFILE)" : "memfd_create");
        int number = exceeds_file_limit(static_cast<std::uint64_t>(place_of(slots.size()))) ? EFBIG : EINTR;
        while (number == EINTR) number = ::posix_fallocate(file_.get(), 0, place_of(slots.size()));
        if (number != 0) fail_system(api, "posix_fallocate", number);
        if (!of.has_name() && ::fcntl(file_.get(), F_ADD_SEALS, fixed_size) != 0)
            fail_system(api, "fcntl(F_ADD_SEALS)");
        handout_ = unique_fd{reopen(file_.get(), O_RDONLY)};
        if (!handout_) fail_system(api, "open(/proc/self/fd)");
        bell_ = {file_.get(), static_cast<std::size_t>(latest_at), api};
        name_ = of.name_;
    }
    [[nodiscard]] off_t place_of(std::size_t k) const noexcept {
        return static_cast<off_t>(sizeof(topic_head) + k * capacity_);
    }
    /// Continues the generations of the file that has the name. \return  the file
    [[nodiscard]] unique_fd adopt(int directory) {
        auto old = open_own(directory, name_.c_str(), O_RDWR, api);
        topic_head head;
        if (old && (!read_at(old.get(), 0, &head, sizeof head) || head.magic != head.the_magic)) fail_other(name_, api);
        bool const is_known = old && head.generation() < std::uint64_t{1} << 54;
        generation_ = is_known ? head.generation() : 0;
        stream_ = is_known ? head.stream : fresh_id(api, std::source_location::current());
        return old;
    }
    void link(int file) const {
        message const self = message{"/proc/self/fd/"} << file;
        std::string const passing = ".new!" + name_;
        ::unlinkat(directory_.get(), passing.c_str(), 0);  // of a killed process: only the owner of the name makes it
        if (::linkat(AT_FDCWD, self.c_str(), directory_.get(), passing.c_str(), AT_SYMLINK_FOLLOW) == 0 &&
            ::renameat(directory_.get(), passing.c_str(), directory_.get(), name_.c_str()) == 0)
            return;
        int const number = errno;
        ::unlinkat(directory_.get(), passing.c_str(), 0);
        fail_system(api, name_.c_str(), number);
    }
    /// Tells the subscribers of a file why it has no more frames.
    void leave(unique_fd const& file, unsigned why) const noexcept {
        std::uint64_t const latest = generation_ << 8 | why;
        if (!file || ::pwrite(file.get(), &latest, sizeof latest, latest_at) < 0) return;
        try {
            futex_word{file.get(), static_cast<std::size_t>(latest_at), api}.wake();
        } catch (...) {  // they look again after a second
        }
    }

    std::string name_{};
    unique_fd directory_{}, file_{}, handout_{};
    names_file names_{};
    futex_word bell_{};
    std::size_t capacity_ = 0;
    std::uint64_t generation_ = 0, stream_ = 0;
};

}  // namespace FERRY_NAMESPACE::ipc::detail
