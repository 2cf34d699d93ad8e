// ferry: the text of an error for Python, whose fix is in Python's words.
#pragma once

#include <ferry/base/error.hpp>

#include <cstddef>
#include <cstring>

namespace FERRY_NAMESPACE::python::detail {

/// Returns the fix in Python's words for an error whose fix names C++ functions; empty: there is none for all errors of
/// the code.
[[nodiscard]] FERRY_COLD inline char const* fix_in_python(errc code) noexcept {
    switch (code) {
        case errc::no_backend: return ": pass device='cpu', or copy the data to the CPU with the library that made it";
        case errc::not_accessible: return ": pass device='cpu'";
        case errc::alignment:
        case errc::strides:
        case errc::read_only: return ": copy the array first, with copy=True or x.copy()";
        case errc::copy_needed:
        case errc::not_shareable: return ": pass copy=None, or copy the array first";
        case errc::dtype: return ": convert the elements, or fill the nulls, with the library that made them";
        case errc::bad_column: return ": call validate(full=True) of the column, which names the node and the cause";
        case errc::bad_descriptor: return ": pass the descriptor as the other process made it";
        default: return "";
    }
}

/// The text of a ferry::error for Python: without the scopes of the function and without parentheses around the
/// numbers of rules or C++ names, such as " (R15, R16)". A fix that names C++ functions, such as ": pass
/// ferry::host_only", becomes that of `fix_in_python`. The text of a derived class, which may quote a producer, is
/// unchanged.
class python_text {
   public:
    FERRY_COLD explicit python_text(error const& e) noexcept : text_{e.what()} {
        char const* from = e.error::what();
        if (from != text_) return;
        for (char const* at = from; at + 2 <= e.text(); ++at)
            if (at[0] == ':' && at[1] == ':') from = at + 2;
        text_ = from;
        if constexpr (ferry::detail::has_sentences) write(e, from);
    }

    [[nodiscard]] char const* c_str() const noexcept { return text_; }

   private:
    /// Returns the end of the parentheses at the beginning of a text, if they are to be removed; otherwise null.
    [[nodiscard]] static char const* end_of_aside(char const* from) noexcept {
        char const* const end = std::strncmp(from, " (", 2) == 0 ? std::strchr(from, ')') : nullptr;
        if (end == nullptr || (from[2] == 'R' && from[3] >= '0' && from[3] <= '9')) return end;
        char const* const name = std::strstr(from, "::");
        return name != nullptr && name < end ? end : nullptr;
    }
    void write(error const& e, char const* from) noexcept {
        text_ = own_;
        char const* const description = e.text();
        char *to = own_, *fix = nullptr;
        while (*from != '\0') {
            if (char const* const end = end_of_aside(from)) {
                from = end + 1;
                continue;
            }
            if (from >= description && std::strncmp(from, ": ", 2) == 0) fix = to;
            *to++ = *from++;
        }
        *to = '\0';
        bool const is_for_cpp = fix != nullptr && std::strstr(fix, "::") != nullptr;
        if (!is_for_cpp && e.code() != errc::no_backend) return;
        if (fix != nullptr) to = fix;
        char const* const cure = fix_in_python(e.code());
        std::memcpy(to, cure, std::strlen(cure) + 1);
    }

    static constexpr std::size_t longest_fix = 100;
    char const* text_;
    char own_[ferry::detail::has_sentences ? sizeof(inplace_text) + longest_fix : 1];
};

}  // namespace FERRY_NAMESPACE::python::detail
