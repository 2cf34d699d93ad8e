// Common parts of the targets of descriptors: an oracle in wide integers, a limit of memory, and allocations of exact
// size.
#pragma once

#include "bytes.hpp"

#include <ferry/wire/binary.hpp>
#include <ferry/wire/json.hpp>

#include <sanitizer/allocator_interface.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace fuzz {

/// Bytes that this thread allocated, counted by a hook of the sanitizer, which keeps its checks.
inline thread_local std::size_t allocated = 0;
inline bool const counting = [] {
    __sanitizer_install_malloc_and_free_hooks([](void const volatile*, std::size_t size) { allocated += size; },
                                              [](void const volatile*) {});
    return true;
}();

/// Whether the elements and buffers of a descriptor are within their memory, checked by element where they are few.
inline bool lies_within(ferry::wire::descriptor const& d);

namespace detail {

using namespace ferry::wire;

inline bool lies_within(memory const& m) { return wide{m.offset} + m.length <= m.allocation; }

inline bool lies_within(tensor const& t, std::vector<memory> const& memories) {
    if (t.memory >= memories.size()) return false;
    std::uint64_t const length = memories[t.memory].length;
    wide count = 1, lowest = 0, highest = 0, step = 1;
    bool empty = false;
    for (auto const extent : t.shape) {
        if (extent < 0) return false;
        empty = empty || extent == 0;
    }
    if (empty) return t.byte_offset >= 0 && static_cast<std::uint64_t>(t.byte_offset) <= length;
    wide const bits = ferry::bits_per_element(t.dtype, has(t.flags, ferry::flags::subbyte_padded));
    for (std::size_t i = t.shape.size(); i-- > 0;) {
        wide const stride = t.strides.empty() ? step : wide{t.strides[i]}, reach = (t.shape[i] - 1) * stride;
        (reach < 0 ? lowest : highest) += reach;
        count *= t.shape[i];
        step *= t.shape[i];
        if (count > INT64_MAX || step > INT64_MAX) return false;
    }
    return 8 * wide{t.byte_offset} + lowest * bits >= 0 &&
           8 * wide{t.byte_offset} + (highest + 1) * bits <= 8 * wide{length};
}

inline bool lies_within(slice const& s, std::vector<memory> const& memories) {
    if (s.memory == no_memory) return s.offset == 0 && s.length == 0;
    return s.memory < memories.size() && wide{s.offset} + s.length <= memories[s.memory].length;
}

inline bool lies_within(node const& n, std::vector<memory> const& memories, int depth) {
    bool all = depth <= max_depth && n.dictionary.size() <= 1 && n.length >= 0 && n.offset >= 0 &&
               wide{n.length} + n.offset <= INT64_MAX;
    for (auto const& b : n.buffers) all = all && lies_within(b, memories);
    for (auto const& child : n.children) all = all && lies_within(child, memories, depth + 1);
    for (auto const& child : n.dictionary) all = all && lies_within(child, memories, depth + 1);
    return all;
}

}  // namespace detail

inline bool lies_within(ferry::wire::descriptor const& d) {
    bool all = true;
    for (auto const& m : d.memories) all = all && detail::lies_within(m);
    auto const within = [&](auto const& root) {
        if (auto const* t = std::get_if<ferry::wire::tensor>(&root)) return detail::lies_within(*t, d.memories);
        return detail::lies_within(std::get<ferry::wire::node>(root), d.memories, 1);
    };
    if (auto const* all_items = std::get_if<ferry::wire::list>(&d.root))
        return all && std::all_of(all_items->begin(), all_items->end(), within);
    return all && within(d.root);
}

/// Checks of each descriptor that a decoder returned.
inline void sound(ferry::wire::descriptor d) {
    using namespace ferry::wire;
    check(d);
    HOLDS(lies_within(d));
    for (auto const& m : d.memories) {
        HOLDS(m.name.size() <= 255 && m.name.find('/', 1) == m.name.npos && m.name.find('\0') == m.name.npos);
        HOLDS(m.handle.empty() || m.handle.size() == handle_size);
    }
    d.minor = minor_version;
    auto const bytes = to_bytes(d);
    HOLDS(from_bytes(bytes) == d);
    HOLDS(to_json(from_bytes(bytes)) == to_json(d));
}

/// Decodes bytes from an allocation of exactly their size. A result is valid, an exception is bad_descriptor, and the
/// memory allocated is at most `times` the size of the input.
template <class F>
void decode(std::span<std::byte const> bytes, std::size_t times, F decoder) {
    std::unique_ptr<std::byte[]> const exact{new std::byte[bytes.size()]};
    if (!bytes.empty()) std::memcpy(exact.get(), bytes.data(), bytes.size());
    auto const before = allocated;
    try {
        auto const d = decoder(std::span<std::byte const>{exact.get(), bytes.size()});
        HOLDS(allocated - before <= times * bytes.size() + 16'384);
        sound(d);
    } catch (ferry::error const& e) {
        fuzz::saw(e.code());
        HOLDS(allocated - before <= times * bytes.size() + 16'384);
        HOLDS(e.code() == ferry::errc::bad_descriptor && std::strlen(e.what()) > 30);
    }
}

}  // namespace fuzz
