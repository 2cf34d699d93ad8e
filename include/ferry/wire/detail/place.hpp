// ferry: the errors of descriptors. They name a field by its JSON pointer; the binary form has the same fields.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/error.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace FERRY_NAMESPACE::wire::detail {

/// The last step of a JSON pointer: a key, or an index if `key` is null. The root has no parent.
struct place {
    place const* parent = nullptr;
    char const* key = nullptr;
    std::uint64_t index = 0;
};

[[nodiscard]] constexpr place operator/(place const& parent, char const* key) noexcept { return {&parent, key, 0}; }
[[nodiscard]] constexpr place operator/(place const& parent, std::uint64_t index) noexcept {
    return {&parent, nullptr, index};
}

/// Returns the name of a root, or of an item of a list, in JSON.
[[nodiscard]] constexpr char const* root_name(auto const& root) noexcept {
    constexpr char const* names[] = {"tensor", "column", "list"};
    return names[root.index()];
}

/// Appends a pointer, and returns its number of steps. `below` is the number of steps that the caller appends after it.
/// Omits the end of long keys and the middle of deep pointers, so that the rest of the message fits.
constexpr int append(inplace_text& out, place const& p, int below) noexcept {
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

/// Appends "/memories/0/length", for example, or "the document" for the root.
constexpr inplace_text& operator<<(inplace_text& out, place const& p) noexcept {
    return append(out, p, 0) == 0 ? out << "the document" : out;
}

/// Reports the errors of a public function.
class caller : public ferry::detail::reporter {
   public:
    using reporter::reporter;

    /// Reports errc::bad_descriptor: returns false, or throws. Only the first error of a call is reported.
    template <class... Parts>
    FERRY_COLD bool refuse(Parts const&... parts) const {
        return report(*this, errc::bad_descriptor, text_of(parts...));
    }
    /// The same for a field with an invalid value.
    template <class... Parts>
    FERRY_COLD bool refuse(place const& field, Parts const&... parts) const {
        inplace_text text;
        text << field << text_of(parts..., ": correct the program that wrote the descriptor");
        return report(*this, errc::bad_descriptor, text);
    }

   private:
    template <class... Parts>
    [[nodiscard]] static message text_of(Parts const&... parts) noexcept {
        message text;
        auto const put = [&](auto const& part) {
            if constexpr (std::unsigned_integral<std::remove_cvref_t<decltype(part)>>) text << std::uint64_t{part};
            else text << part;
        };
        (put(parts), ...);
        return text;
    }
};

}  // namespace FERRY_NAMESPACE::wire::detail
