// ferry: the engine of wire/check.hpp.
#pragma once

#include <ferry/wire/check.hpp>
#include <ferry/wire/detail/place.hpp>

#include <ferry/base/detail/checked.hpp>
#include <ferry/base/shape.hpp>
#include <ferry/column/detail/utf8.hpp>
#include <ferry/tensor/validate.hpp>

#include <algorithm>
#include <string_view>

namespace FERRY_NAMESPACE::wire {
namespace detail {

/// Returns whether a string is the name of a POSIX shared-memory segment, which begins with a slash, contains no other
/// slash, and does not name a hidden file.
[[nodiscard]] constexpr bool is_segment_name(std::string_view text) noexcept {
    auto const is_allowed = [](char c) {  // no search in a list, because every attach checks names
        auto const lower = static_cast<char>(c | 0x20);
        return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    };
    return text.size() >= 2 && text.size() <= 255 && text[0] == '/' && text[1] != '.' &&
           std::all_of(text.begin() + 1, text.end(), is_allowed);
}

/// Returns whether a string is UTF-8 without NUL, so that it can be a C string.
[[nodiscard]] FERRY_NOINLINE inline bool is_text(std::string_view text) noexcept {
    return text.find('\0') == text.npos && ferry::detail::is_utf8(reinterpret_cast<unsigned char const*>(text.data()),
                                                                  static_cast<std::int64_t>(text.size()));
}

[[nodiscard]] inline bool check_memory(memory const& m, place const& here, caller const& by) {
    if (m.kind > memory_kind::cuda_pool)
        return by.refuse("", here / "kind", " is ", static_cast<unsigned>(m.kind), ", expected 0 to ",
                         static_cast<unsigned>(memory_kind::cuda_pool), ": update the ferry of this process");
    if (!is_known(m.type))
        return by.refuse(here / "device/type", " is ", static_cast<int>(m.type),
                         ", which DLPack does not define (R34)");
    bool const on_cuda = m.kind == memory_kind::cuda_legacy || m.kind == memory_kind::cuda_pool;
    auto const needed = on_cuda ? device_type::cuda : device_type::cpu;
    if (m.kind != memory_kind::none && m.type != needed)
        return by.refuse(here / "device/type", " is ", ferry::name(m.type), ", expected ", ferry::name(needed),
                         " for the kind ", wire::name(m.kind));
    if (on_cuda && m.device == uuid{}) return by.refuse(here / "device/uuid", " is zero, expected the UUID of a GPU");
    if (m.kind == memory_kind::none && m.length != 0)
        return by.refuse(here / "length", " is ", m.length, ", expected 0 for the kind none");
    if (m.allocation > static_cast<std::uint64_t>(INT64_MAX) || m.length > m.allocation ||
        m.offset > m.allocation - m.length)
        return by.refuse(here, ": offset ", m.offset, " and length ", m.length, " exceed the allocation of ",
                         m.allocation, " bytes");
    if (m.kind == memory_kind::host_shared ? !is_segment_name(m.name) : !m.name.empty() && !is_segment_name(m.name))
        return by.refuse(here / "name", " is not a slash, then letters, digits, `.`, `_` or `-`");
    if (auto const size = on_cuda ? handle_size : 0; m.handle.size() != size)
        return by.refuse(here / "handle", " has ", m.handle.size(), " bytes, expected ", size, " for the kind ",
                         wire::name(m.kind));
    if (!m.ready.empty() && (!on_cuda || m.ready.size() != handle_size))
        return by.refuse(here / "ready", " has ", m.ready.size(), " bytes, expected 64 for CUDA memory, otherwise 0");
    return true;
}

/// Gets the length of a memory.
[[nodiscard]] inline bool find_length(std::uint32_t number, std::vector<memory> const& memories, place const& here,
                                      caller const& by, std::uint64_t& length) {
    if (number >= memories.size())
        return by.refuse(here / "memory", " is ", number, ", and there are ", memories.size(), " memories");
    return length = memories[number].length, true;
}

[[nodiscard]] inline bool check_tensor(tensor const& t, std::vector<memory> const& memories, place const& here,
                                       caller const& by) {
    std::uint64_t length = 0;
    if (!find_length(t.memory, memories, here, by, length)) return false;
    if (!is_valid(t.dtype)) return by.refuse(here / "dtype", " is unknown or malformed: ", t.dtype, " (R16-R18)");
    for (std::size_t i = 0; i < t.shape.size(); ++i)
        if (t.shape[i] < 0) return by.refuse(here / "shape" / i, " is ", t.shape[i], ", expected at least 0 (R32)");
    if (!t.strides.empty() && t.strides.size() != t.shape.size())
        return by.refuse(here / "strides", " has ", t.strides.size(), " values, expected ", t.shape.size(),
                         ", as the shape has, or none");
    if (t.shape.size() > static_cast<std::size_t>(INT32_MAX))
        return by.refuse(here / "shape", " has ", t.shape.size(), " extents, expected at most 2^31 - 1");
    bool const padded = has(t.flags, flags::subbyte_padded);
    std::int64_t count = 0, bytes = 0, last = 0;
    ferry::shape_view const shape{t.shape};
    if (!element_count(shape, count) || !byte_count(count, t.dtype, padded, bytes))
        return by.refuse(here / "shape", " has a product that, in bytes, exceeds 63 bits (R32)");
    ferry::detail::byte_reach reach{0, static_cast<std::uint64_t>(bytes)};
    if (count != 0 && !t.strides.empty() && !ferry::detail::find_reach(shape, t.strides, t.dtype, padded, reach))
        return by.refuse(here / "strides", " place elements at distances that exceed 63 bits (R32)");
    auto const begin = -static_cast<std::int64_t>(reach.below), end = static_cast<std::int64_t>(reach.above);
    if (t.byte_offset < -begin || !ferry::detail::checked_add(t.byte_offset, end, last) ||
        static_cast<std::uint64_t>(last) > length)
        return by.refuse(here, ": elements lie at bytes ", begin, " to ", end, " from byte_offset ", t.byte_offset,
                         ", outside the range of ", length, " bytes");
    return true;
}

[[nodiscard]] inline bool check_slice(slice const& s, std::vector<memory> const& memories, place const& here,
                                      caller const& by) {
    std::uint64_t length = 0;  // length of an absent buffer
    if (s.memory != no_memory && !find_length(s.memory, memories, here, by, length)) return false;
    if (s.length > length || s.offset > length - s.length)
        return by.refuse(here, ": offset ", s.offset, " and length ", s.length, " exceed the range of ", length,
                         " bytes");
    return true;
}

FERRY_INLINE bool check_node(node const& n, std::vector<memory> const& memories, int depth, place const& here,
                             caller const& by) {
    if (depth > max_depth) return by.refuse(here, " is deeper than ", max_depth, " nodes");
    if (n.format.empty() || !is_text(n.format))
        return by.refuse(here / "format", " is empty, or not UTF-8 without NUL");
    if (!is_text(n.name)) return by.refuse(here / "name", " is not UTF-8 without NUL");
    if (n.length < 0) return by.refuse(here / "length", " is ", n.length, ", expected at least 0");
    if (n.offset < 0 || n.offset > INT64_MAX - n.length)
        return by.refuse(here / "offset", " is ", n.offset, ", expected 0 to 2^63 - 1 - length");
    if (n.null_count < -1 || n.null_count > n.length)
        return by.refuse(here / "null_count", " is ", n.null_count, ", expected -1 to ", n.length, ", the length");
    auto const buffers = here / "buffers", children = here / "children";
    for (std::size_t i = 0; i < n.buffers.size(); ++i)
        if (!check_slice(n.buffers[i], memories, buffers / i, by)) return false;
    for (std::size_t i = 0; i < n.children.size(); ++i)
        if (!check_node(n.children[i], memories, depth + 1, children / i, by)) return false;
    if (n.dictionary.size() > 1)
        return by.refuse(here / "dictionary", " has ", n.dictionary.size(), " nodes, expected at most 1");
    return n.dictionary.empty() || check_node(n.dictionary[0], memories, depth + 1, here / "dictionary", by);
}

[[nodiscard]] inline bool check_root(auto const& root, std::vector<memory> const& memories, place const& here,
                                     caller const& by) {
    auto const at = here / root_name(root);
    if (auto const* t = std::get_if<tensor>(&root)) return check_tensor(*t, memories, at, by);
    if (auto const* n = std::get_if<node>(&root)) return check_node(*n, memories, 1, at, by);
    if constexpr (std::variant_size_v<std::remove_cvref_t<decltype(root)>> > 2)
        for (std::size_t i = 0; auto const& one : std::get<list>(root))
            if (!check_root(one, memories, at / i++, by)) return false;
    return true;
}

FERRY_INLINE bool check(descriptor const& d, caller const& by) {
    place const top;
    if (d.major != major_version)
        return by.refuse("the descriptor has version ", d.major, ".", d.minor, ", expected major version ",
                         major_version, ": use the same major version of ferry in both processes");
    if (d.from.pid > static_cast<std::uint32_t>(INT32_MAX))
        return by.refuse(top / "from" / "pid", " is ", d.from.pid, ", expected 0 to 2^31 - 1");
    auto const memories = top / "memories";
    if (d.memories.size() >= no_memory)
        return by.refuse(memories, " has ", d.memories.size(), " entries, expected at most 2^32 - 2");
    for (std::size_t i = 0; i < d.memories.size(); ++i)
        if (!check_memory(d.memories[i], memories / i, by)) return false;
    return check_root(d.root, d.memories, top, by);
}

}  // namespace detail

#if FERRY_HAS_EXCEPTIONS
FERRY_INLINE void check(descriptor const& d, std::source_location where) {
    static_cast<void>(detail::check(d, {"ferry::wire::check", where}));
}
#endif
FERRY_INLINE result<> try_check(descriptor const& d, std::source_location where) {
    return ferry::detail::attempt<void>("ferry::wire::check", where,
                                        [&](detail::caller by) { return detail::check(d, by); });
}

}  // namespace FERRY_NAMESPACE::wire
