// ferry: copies of columns in one allocation without slices. Requires exceptions.
#pragma once

#include <ferry/config.hpp>

#if FERRY_HAS_EXCEPTIONS
#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/result.hpp>
#include <ferry/column/column.hpp>
#include <ferry/space/buffer.hpp>
#include <ferry/space/memory_space.hpp>

#include <cstddef>
#include <memory>  // shared ownership of the memory
#include <source_location>
#include <span>
#include <utility>
#include <vector>  // one entry for each chunk

namespace FERRY_NAMESPACE {
namespace detail {

/// Allocates memory of any space: returns the owner, and the address in `data`.
struct allocation_of_space {
    std::shared_ptr<void const> (*allocate)(void* space, std::size_t bytes, std::byte*& data);
    void* space;
    device on;
};

FERRY_INLINE column concat(std::span<column_view const> chunks, allocation_of_space const& space, char const* api,
                           std::source_location where);

template <memory_space Space>
[[nodiscard]] column concat(std::span<column_view const> chunks, Space space, char const* api,
                            std::source_location where) {
    auto const allocate = [](void* from, std::size_t bytes, std::byte*& data) -> std::shared_ptr<void const> {
        auto owner = std::make_shared<buffer<Space>>(bytes, std::move(*static_cast<Space*>(from)));
        data = static_cast<std::byte*>(owner->data());
        return owner;
    };
    return concat(chunks, {allocate, std::addressof(space), space.device()}, api, where);
}

}  // namespace detail

/// Copies a column in host memory into one allocation of a memory space. The copy has offset 0; validity, booleans and
/// offsets start at 0. Children, text and data of views contain only the items that are used; dictionaries are
/// complete. Buffers are aligned to 64 bytes; padding and the values of nulls are zero; a buffer that several children
/// share is copied once. Nulls are counted, and the validity is omitted if there are none.
///
/// No work may be pending on the column. Offsets, run ends, type ids and views are checked before they are followed, so
/// no byte outside of the buffers is read. Other values are copied unchanged.
///
/// \param c      column
/// \param space  memory space that the host can write
/// \return       copy; `try_compact` returns the copy or the error
/// \throws error           errc::bad_column: invalid values; the message has the path of the node;  not_accessible: the
///                         host cannot read the column;  overflow: a size that cannot be represented;  device: the host
///                         cannot write to the space
/// \throws std::bad_alloc  when an allocation fails
template <memory_space Space = host_space>
[[nodiscard]] column compact(column_view c, Space space = {},
                             std::source_location where = std::source_location::current()) {
    return detail::concat({&c, 1}, std::move(space), "ferry::compact", where);
}
template <memory_space Space = host_space>
[[nodiscard]] result<column> try_compact(column_view c, Space space = {},
                                         std::source_location where = std::source_location::current()) {
    return detail::attempt<column>("ferry::compact", where,
                                   [&](detail::reporter) { return compact(c, std::move(space), where); });
}

/// Concatenates chunks into one column, with the layout of `compact`. A single chunk is returned unchanged. Names and
/// metadata are those of the first chunk; the column is nullable if a chunk is. Data buffers of views and runs are not
/// merged.
///
/// Equal dictionaries are shared. Different ones are merged in linear time: the merged dictionary has their distinct
/// values in the order of the chunks, and the indices refer to it. Values are equal if their bytes are equal, or if
/// both are null. The merged dictionary is ordered if all dictionaries are ordered and each is the beginning of the
/// merged one.
///
/// \param chunks  columns of one type in host memory
/// \param space   memory space that the host can write
/// \return        column; `try_concat` returns the column or the error
/// \throws error           errc::argument: no chunk, or chunks of different types;  overflow: offsets or run ends
///                         exceed their type, or indices, for which the message names the wider type; as compact
/// \throws std::bad_alloc  when an allocation fails
template <memory_space Space = host_space>
[[nodiscard]] column concat(std::span<column const> chunks, Space space = {},
                            std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::concat";
    if (chunks.empty())
        detail::fail(errc::argument, api, message{"there are no chunks: pass at least one, which may be empty"}, where);
    if (chunks.size() == 1) return chunks[0];
    std::vector<column_view> const views(chunks.begin(), chunks.end());
    return detail::concat(views, std::move(space), api, where);
}
template <memory_space Space = host_space>
[[nodiscard]] result<column> try_concat(std::span<column const> chunks, Space space = {},
                                        std::source_location where = std::source_location::current()) {
    return detail::attempt<column>("ferry::concat", where,
                                   [&](detail::reporter) { return concat(chunks, std::move(space), where); });
}

}  // namespace FERRY_NAMESPACE

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/column/detail/concat.ipp>
#endif
#endif
