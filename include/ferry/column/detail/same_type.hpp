// ferry: whether two columns may be chunks of one.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/detail/path.hpp>
#include <ferry/column/type.hpp>
#include <ferry/column/view.hpp>

#include <cstdint>
#include <source_location>

namespace ferry::inline FERRY_ABI_NAMESPACE::detail {

/// The flags of chunks together: nullable if one is, ordered and sorted if all are.
[[nodiscard]] constexpr std::int64_t merged_flags(std::int64_t a, std::int64_t b) noexcept {
    return (a & b) | ((a | b) & abi::arrow_flag::nullable);
}

/// Compares types (`d:9,2` and `d:9,2,128` are equal), the number of children, the names of children of structs and
/// unions, and the types of dictionaries. Flags, metadata and the values of dictionaries may differ. `refuse(path,
/// message)` throws.
template <class Refuse>
void require_same_type(column_view wanted, column_view c, column_path const& path, Refuse const& refuse) {
    if (c.type() != wanted.type())
        refuse(path,
               message{"its format is "} << c.name_of_format().c_str() << ", not " << wanted.name_of_format().c_str());
    if (c.child_count() != wanted.child_count())
        refuse(path, message{"it has "} << c.child_count() << " children, not " << wanted.child_count());
    bool const is_named = c.type().id == type_id::structure || is_union(c.type().id);
    for (int i = 0; i < c.child_count(); ++i) {
        auto const child = child_of(c, i), other = child_of(wanted, i);
        column_path const its{path, c.type().id, i, other.name()};
        if (is_named && child.name() != other.name()) refuse(its, message{"child "} << i << " has another name");
        require_same_type(other, child, its, refuse);
    }
    if (c.has_dictionary() != wanted.has_dictionary())
        refuse(path, message{c.has_dictionary() ? "it has a dictionary" : "it has no dictionary"});
    if (c.has_dictionary()) require_same_type(dictionary_of(wanted), dictionary_of(c), path.dictionary(), refuse);
}
/// Overload that names the chunk in the message.
///
/// \param chunk  number of the chunk
/// \throws error  errc::argument
inline void require_same_type(column_view wanted, column_view c, std::uint64_t chunk, char const* api,
                              std::source_location where) {
    require_same_type(wanted, c, column_path{wanted.name()}, [&](column_path const& path, message const& what) {
        fail(errc::argument, api, message{"chunk "} << chunk << " is of another type: " << path << ": " << what.c_str(),
             where);
    });
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::detail
