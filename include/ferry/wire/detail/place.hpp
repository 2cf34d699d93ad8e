// ferry: where in a descriptor something is wrong, written as a JSON pointer; the binary form has the same fields.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/error.hpp>

#include <cstdint>

namespace ferry::inline FERRY_ABI_NAMESPACE::wire::detail {

/// One step of a path: a key, or an index where there is none. A list on the stack, from the innermost outwards.
struct place {
    place const* parent = nullptr;
    char const* key = nullptr;
    std::uint64_t index = 0;
};

[[nodiscard]] constexpr place operator/(place const& parent, char const* key) noexcept { return {&parent, key, 0}; }
[[nodiscard]] constexpr place operator/(place const& parent, std::uint64_t index) noexcept {
    return {&parent, nullptr, index};
}

/// Appends a place that has `below` steps behind it. Returns the number of its own.
constexpr int append(message& out, place const& p, int below) noexcept {
    if (p.parent == nullptr) return 0;
    int const above = append(out, *p.parent, below + 1);
    if (above >= 4 && below >= 6 && above + below >= 12) {
        out << (above == 4 ? "/..." : "");
    } else if (p.key == nullptr) {
        out << "/" << p.index;
    } else {
        out << "/";
        for (int k = 0; p.key[k] != '\0' && k <= 32; ++k) k == 32 ? out << "..." : out << p.key[k];
    }
    return above + 1;
}

/// "/memories/0/length". The middle of a deep path, and the end of a long key, are left out: what is wrong there must
/// fit too.
constexpr message& operator<<(message& out, place const& where) noexcept { return append(out, where, 0), out; }

/// The public function and its caller, for the errors of the functions below it.
class caller : public ferry::detail::reporter {
   public:
    using reporter::reporter;

    /// Returns false, or throws. The first error counts: a reader may go on with zeros and empty values.
    template <class... Parts>
    FERRY_COLD bool refuse(Parts const&... parts) const {
        message text;
        (text << ... << parts);
        return report(*this, errc::bad_descriptor, text);
    }
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::wire::detail
