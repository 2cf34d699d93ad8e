// ferry: whether a descriptor makes sense: every element and every buffer lies in the memory that it names. A checksum
// vouches for nothing, so both decoders end here, and nothing is opened that did not pass.
#pragma once

#include <ferry/wire/descriptor.hpp>
#include <ferry/wire/detail/place.hpp>

#include <ferry/base/checked.hpp>
#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/result.hpp>
#include <ferry/base/shape.hpp>
#include <ferry/column/detail/utf8.hpp>
#include <ferry/tensor/validate.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string_view>
#include <variant>
#include <vector>  // as in the descriptor

namespace ferry::inline FERRY_ABI_NAMESPACE::wire {

/// How deep a column's tree may be: nodes from the root to a leaf.
inline constexpr int max_depth = 64;
/// The bytes of a handle, of memory and of an event alike.
inline constexpr std::size_t handle_size = 64;

namespace detail {

/// Whether a string names a segment of POSIX shared memory and nothing else: no path, and no hidden file.
[[nodiscard]] constexpr bool is_segment_name(std::string_view text) noexcept {
    constexpr auto allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    return text.size() >= 2 && text.size() <= 255 && text[0] == '/' && text[1] != '.' &&
           text.find_first_not_of(allowed, 1) == text.npos;
}

/// Whether a string is UTF-8 without a zero byte, which C strings cannot hold.
[[nodiscard]] FERRY_NOINLINE inline bool is_text(std::string_view text) noexcept {
    return text.find('\0') == text.npos && ferry::detail::is_utf8(reinterpret_cast<unsigned char const*>(text.data()),
                                                                  static_cast<std::int64_t>(text.size()));
}

[[nodiscard]] inline bool check_memory(memory const& m, place const& here, caller const& by) {
    if (m.kind > memory_kind::cuda_pool)
        return by.refuse(here / "kind", " is ", static_cast<unsigned>(m.kind),
                         ", which this version does not know: update the reader");
    if (!is_known(m.type))
        return by.refuse(here / "device/type", " is ", static_cast<int>(m.type), ", which DLPack does not name (R34)");
    bool const on_cuda = m.kind == memory_kind::cuda_legacy || m.kind == memory_kind::cuda_pool;
    auto const needed = on_cuda ? device_type::cuda : device_type::cpu;
    if (m.kind != memory_kind::none && m.type != needed)
        return by.refuse(here / "device/type", " is ", ferry::name(m.type), ", and the kind ", wire::name(m.kind),
                         " is for ", ferry::name(needed));
    if (on_cuda && m.device == uuid{}) return by.refuse(here / "device/uuid", " is zero: it must name the GPU");
    if (m.kind == memory_kind::none && m.length != 0)
        return by.refuse(here / "length", " is ", m.length, ", and the kind none has no bytes");
    if (m.allocation > static_cast<std::uint64_t>(INT64_MAX) || m.length > m.allocation ||  // mutant: wire_allocation
        m.offset > m.allocation - m.length)
        return by.refuse(here, ": offset ", m.offset, " and length ", m.length, " lead out of the allocation of ",
                         m.allocation, " bytes");
    // mutant: wire_name
    if (m.kind == memory_kind::host_shared ? !is_segment_name(m.name) : !m.name.empty() && !is_segment_name(m.name))
        return by.refuse(here / "name", " is no name of shared memory: a slash, then letters, digits, `.`, `_` or `-`");
    if (m.handle.size() != (on_cuda ? handle_size : 0))
        return by.refuse(here / "handle", " has ", std::uint64_t{m.handle.size()}, " bytes; the kind ",
                         wire::name(m.kind), " has ", on_cuda ? 64 : 0);
    if (!m.ready.empty() && (!on_cuda || m.ready.size() != handle_size))
        return by.refuse(here / "ready", " has ", std::uint64_t{m.ready.size()},
                         " bytes; an event's handle has 64, and only CUDA memory has one");
    return true;
}

[[nodiscard]] inline bool check_tensor(tensor const& t, std::vector<memory> const& memories, place const& here,
                                       caller const& by) {
    if (t.memory >= memories.size())
        return by.refuse(here / "memory", " is ", t.memory, ", and there are ", std::uint64_t{memories.size()},
                         " memories");
    auto const length = memories[t.memory].length;
    if (!is_valid(t.dtype)) return by.refuse(here / "dtype", " is unknown or malformed: ", t.dtype, " (R16-R18)");
    for (std::size_t i = 0; i < t.shape.size(); ++i)
        if (t.shape[i] < 0) return by.refuse(here / "shape" / i, " is ", t.shape[i], "; it must not be negative (R32)");
    if (!t.strides.empty() && t.strides.size() != t.shape.size())
        return by.refuse(here / "strides", " has ", std::uint64_t{t.strides.size()}, " values; the shape has ",
                         std::uint64_t{t.shape.size()});
    if (t.shape.size() > static_cast<std::size_t>(INT32_MAX))
        return by.refuse(here / "shape", " has more extents than a rank can count");
    bool const padded = has(t.flags, flags::subbyte_padded);
    std::int64_t count = 0, bytes = 0, last = 0;
    ferry::shape_view const shape{t.shape};
    if (!element_count(shape, count) || !byte_count(count, t.dtype, padded, bytes))
        return by.refuse(here / "shape", " multiplies to more bytes than 63 bits can count (R32)");
    ferry::detail::byte_reach reach{0, static_cast<std::uint64_t>(bytes)};
    if (count != 0 && !t.strides.empty() && !ferry::detail::find_reach(shape, t.strides, t.dtype, padded, reach))
        return by.refuse(here / "strides", " reach further than 63 bits can count (R32)");
    auto const begin = -static_cast<std::int64_t>(reach.below), end = static_cast<std::int64_t>(reach.above);
    if (t.byte_offset < -begin || !ferry::detail::checked_add(t.byte_offset, end, last) ||  // mutant: wire_tensor_begin
        static_cast<std::uint64_t>(last) > length)                                          // mutant: wire_tensor_end
        return by.refuse(here, ": elements lie at bytes ", begin, " to ", end, " from byte_offset ", t.byte_offset,
                         ", outside the range of ", length, " bytes");
    return true;
}

[[nodiscard]] inline bool check_slice(slice const& s, std::vector<memory> const& memories, place const& here,
                                      caller const& by) {
    bool const absent = s.memory == no_memory;
    if (!absent && s.memory >= memories.size())
        return by.refuse(here / "memory", " is ", s.memory, ", and there are ", std::uint64_t{memories.size()},
                         " memories");
    auto const length = absent ? 0 : memories[s.memory].length;
    if (s.length > length || s.offset > length - s.length)  // mutant: wire_slice
        return by.refuse(here, ": offset ", s.offset, " and length ", s.length, " lead out of a range of ", length,
                         " bytes");
    return true;
}

[[nodiscard]] inline bool check_node(node const& n, std::vector<memory> const& memories, int depth, place const& here,
                                     caller const& by) {
    if (depth > max_depth) return by.refuse(here, " is deeper than ", max_depth, " nodes");
    if (n.format.empty() || !is_text(n.format))
        return by.refuse(here / "format", " is no UTF-8 string with characters and without zero bytes");
    if (!is_text(n.name)) return by.refuse(here / "name", " is no UTF-8 string without zero bytes");
    if (n.length < 0) return by.refuse(here / "length", " is ", n.length, "; it must not be negative");
    if (n.offset < 0 || n.offset > INT64_MAX - n.length)
        return by.refuse(here / "offset", " is ", n.offset, "; with the length it must fit 63 bits");
    if (n.null_count < -1 || n.null_count > n.length)
        return by.refuse(here / "null_count", " is ", n.null_count, "; it must be -1, or 0 to the length of ",
                         n.length);
    auto const buffers = here / "buffers", children = here / "children";
    for (std::size_t i = 0; i < n.buffers.size(); ++i)
        if (!check_slice(n.buffers[i], memories, buffers / i, by)) return false;
    for (std::size_t i = 0; i < n.children.size(); ++i)
        if (!check_node(n.children[i], memories, depth + 1, children / i, by)) return false;
    if (n.dictionary.size() > 1)
        return by.refuse(here / "dictionary", " is there ", std::uint64_t{n.dictionary.size()},
                         " times; a node has one at most");
    return n.dictionary.empty() || check_node(n.dictionary[0], memories, depth + 1, here / "dictionary", by);
}

[[nodiscard]] inline bool check(descriptor const& d, caller const& by) {
    place const top;
    if (d.major != major_version)  // mutant: wire_major
        return by.refuse("version ", unsigned{d.major}, ".", unsigned{d.minor}, " is of another major than ",
                         unsigned{major_version},
                         ", the one that this ferry reads: use a ferry of the exporter's major");
    if (d.from.pid > static_cast<std::uint32_t>(INT32_MAX))
        return by.refuse(top / "from" / "pid", " is ", d.from.pid, ", which no process has");
    if (d.memories.size() >= no_memory) return by.refuse(top / "memories", " has more entries than 32 bits can name");
    auto const memories = top / "memories";
    for (std::size_t i = 0; i < d.memories.size(); ++i)
        if (!check_memory(d.memories[i], memories / i, by)) return false;
    if (auto const* t = std::get_if<tensor>(&d.root)) return check_tensor(*t, d.memories, top / "tensor", by);
    auto const* const n = std::get_if<node>(&d.root);
    return n == nullptr || check_node(*n, d.memories, 1, top / "column", by);
}

}  // namespace detail

/// Proves what attaching relies on: the major version is ours; every memory's range lies in its allocation and has the
/// handle that its kind needs; every element of the tensor, and every buffer of the column, lies in the range of the
/// memory that it names. No sum or product wraps on the way. What it cannot know: whether the allocation is as large as
/// the descriptor says, and whether a column's buffers suit its format.
///
/// Reads the descriptor only; linear in its size; allocates nothing.
///
/// \param d      descriptor
/// \param where  source location of the caller
/// \return       `try_check`: success, or the error
/// \throws error  errc::bad_descriptor: the message has a JSON pointer to the field, its value and its bound
#if FERRY_HAS_EXCEPTIONS
inline void check(descriptor const& d, std::source_location where = std::source_location::current()) {
    static_cast<void>(detail::check(d, {"ferry::wire::check", where}));
}
#endif
[[nodiscard]] inline result<> try_check(descriptor const& d,
                                        std::source_location where = std::source_location::current()) {
    return ferry::detail::attempt<void>("ferry::wire::check", where,
                                        [&](detail::caller by) { return detail::check(d, by); });
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::wire
