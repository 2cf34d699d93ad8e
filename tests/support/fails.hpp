// Checks that a call throws ferry::error with a code, and texts of the message.
#pragma once

#include <ferry/base/error.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <initializer_list>

namespace support {

/// A std::string, since doctest prints a char const* as an address.
inline doctest::String shown(char const* text) { return text; }

/// Checks that `f()` throws ferry::error with `code`, and a message that starts with the function's name and contains
/// every text.
template <class F>
void fails(ferry::errc code, F f, std::initializer_list<char const*> texts = {}) {
    try {
        f();
    } catch (ferry::error const& e) {
        INFO(shown(e.what()));
        CHECK_MESSAGE(e.code() == code, "the code is ", shown(ferry::name(e.code())), ", expected ",
                      shown(ferry::name(code)));
        CHECK(std::strstr(e.what(), e.api()) == e.what());
        for (auto const* text : texts)
            CHECK_MESSAGE(std::strstr(e.what(), text) != nullptr, "no `", shown(text), "` in: ", shown(e.what()));
        return;
    }
    FAIL_CHECK("nothing was thrown, expected errc::", shown(ferry::name(code)));
}

}  // namespace support
