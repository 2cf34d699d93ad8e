// ferry: the file of a topic: a head, and a record for each slot. docs/wire.md has its layout.
//
// While a slot is written, the generation of its record is not that of a published frame. The publisher stores the next
// generation and then checks for readers of the memory; a reader attaches the memory and then compares the generation
// with that of the newest frame. The two are ordered, so at least one sees the other: the publisher does not write the
// slot, or the reader drops it and takes the newest frame.
//
// Both map the file. The publisher does not read it, and a reader checks what it reads.
#pragma once

#include <ferry/ipc/detail/directory.hpp>
#include <ferry/ipc/detail/segment.hpp>
#include <ferry/wire/binary.hpp>

namespace FERRY_NAMESPACE::ipc::detail {

struct topic_head {
    static constexpr std::uint64_t the_magic = 0x3143505452524546;  // "FERRTPC1", little-endian
    std::uint64_t magic = 0;
    std::uint32_t slots = 0, capacity = 0;  // capacity is the size of a record in bytes
    std::uint64_t latest = 0;               // generation << 8 | slot; the lower half is a futex
    std::uint64_t stream = 0;               // random; the generations of one stream increase
    std::uint64_t reserved[4] = {};
};
struct topic_record {
    std::uint64_t generation = 0;             // number of the last frame, or of the frame that is being written
    std::uint64_t stamp = 0;                  // changes with the descriptor
    std::uint32_t length = 0, text = 0;       // sizes of the descriptor, and of the text after it, in bytes
    std::uint32_t first_file = 0, files = 0;  // range of the files of the slot in publisher::files
};
static_assert(sizeof(topic_head) == 64 && sizeof(topic_record) == 32);

inline constexpr std::size_t most_slots = 252;  // with the topic's own file, as many files as a message has
/// Maximum size of a descriptor in bytes, which limits the allocation for a damaged file.
inline constexpr std::size_t most_descriptor = std::size_t{64} << 20;
/// Special slot numbers in `latest`: the publisher has ended, another file has the name, or nothing is published.
inline constexpr unsigned has_ended = 254, has_moved = 253, no_slot = 255;
/// The byte that the publisher locks.
inline constexpr off_t owner_byte = off_t{1} << 62;

/// Reads bytes of a file. \return  false if the file is shorter
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

/// The mapped file of a topic.
struct topic_map {
    mapped_file at{};
    std::size_t capacity = 0;

    [[nodiscard]] std::size_t place_of(std::size_t k) const noexcept { return sizeof(topic_head) + k * capacity; }
    [[nodiscard]] std::byte* byte(std::size_t place) const noexcept {
        return static_cast<std::byte*>(at.get()) + place;
    }
    [[nodiscard]] std::atomic<std::uint64_t>& word(std::size_t place) const noexcept {
        return *reinterpret_cast<std::atomic<std::uint64_t>*>(byte(place));
    }
    [[nodiscard]] std::atomic<std::uint64_t>& latest() const noexcept { return word(offsetof(topic_head, latest)); }
    [[nodiscard]] std::atomic<std::uint64_t>& generation(std::size_t k) const noexcept {
        return word(place_of(k) + offsetof(topic_record, generation));
    }
    [[nodiscard]] std::atomic<std::uint64_t>& stamp(std::size_t k) const noexcept {
        return word(place_of(k) + offsetof(topic_record, stamp));
    }
};

[[noreturn]] FERRY_COLD inline void fail_other(std::string const& name, char const* api) {
    fail(errc::bad_descriptor, api, name.c_str(), " is not the file of a topic: remove it, or choose another name");
}

/// A slot of a publisher, and the record that the file must have for it.
struct topic_slot {
    topic_record record{};
    std::vector<std::byte> bytes{};  // the descriptor, and its text
    bool is_written = false;         // whether the file has the record
    bool is_begun = false;           // whether the slot may be published, because no subscriber reads it
};

/// Returns the slot for shared memory, with generation 0.
[[nodiscard]] inline topic_slot describe(wire::descriptor const& d, topic_options const& how, std::uint64_t stamp,
                                         char const* api) {
    topic_slot s{.record = {.stamp = stamp}, .bytes = wire::to_bytes(d)};
    auto const text = how.text != nullptr ? how.text(d) : std::string{};
    s.record.length = static_cast<std::uint32_t>(s.bytes.size());
    s.record.text = static_cast<std::uint32_t>(text.size());
    auto const its = std::as_bytes(std::span{text});
    s.bytes.insert(s.bytes.end(), its.begin(), its.end());
    if (s.bytes.size() > most_descriptor)
        fail(errc::argument, api, "the descriptor and its text have ", s.bytes.size(), " bytes, expected at most ",
             most_descriptor, ": put the buffers into one allocation, with compact");
    return s;
}

}  // namespace FERRY_NAMESPACE::ipc::detail
