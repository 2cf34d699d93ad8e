// Writes 1, 2, 3, … to arrays with an adapter, and runs the kit.
#pragma once

#include "../kit/judged.hpp"

#include <set>
#include <stdexcept>
#include <string>
#include <utility>

/// Calls `write(index, number)` with 1, 2, 3, … for each index of the shape, row-major; `write` uses the library's
/// element access.
template <class Write>
void number(ferry::shape_view shape, Write write) {
    std::int64_t count = 1;
    for (auto const extent : shape) count *= extent;
    for (std::int64_t ordinal = 0; ordinal < count; ++ordinal) {
        std::int64_t index[8] = {}, rest = ordinal;
        for (int i = shape.rank(); i-- > 0; rest /= shape[i]) index[i] = rest % shape[i];
        write(index, ordinal + 1);
    }
}

inline void only(bool possible) {
    if (!possible) throw std::invalid_argument{"the library has no such array"};
}

/// Checks that no rule is broken and that these rules are kept.
template <class Array, class Make>
void keeps(Make make, std::set<std::string> const& names = {}) {
    judged const all = judge<Array>(make);
    INFO(all.told);
    CHECK(all.broken.empty());
    for (auto const& name : names) CHECK_MESSAGE(all.kept.contains(name), name);
}

inline std::set<std::string> const of_owners = {"R32 shape", "R24 strides", "R11 const", "R7 move", "R12 copy"};
inline std::set<std::string> const of_handles = {"R32 shape", "R24 strides", "R53 share", "R59 repeated_export",
                                                 "R12 copy"};
