// ferry: concat for chunks. Apart from chunked.hpp, because the engine of concat takes half of the time of that header.
#pragma once

#include <ferry/arrow/chunked.hpp>
#include <ferry/column/concat.hpp>

namespace FERRY_NAMESPACE {

/// Returns one column with the items of all chunks: a single chunk as it is, and of several chunks a copy.
///
/// \param c  chunks
/// \return   column; without chunks, an empty one of their type
/// \throws error, std::bad_alloc  as concat of columns
[[nodiscard]] inline column concat(chunked const& c, std::source_location where = std::source_location::current()) {
    return c.chunks().empty() ? c.type() : concat(c.chunks(), host_space{}, where);
}

}  // namespace FERRY_NAMESPACE
