// Checks that a call throws ferry::error with a code and a message that helps.
#pragma once

#include <ferry/base/error.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <initializer_list>

namespace support {

/// doctest prints a char const* as an address.
inline doctest::String shown(char const* text) { return text; }

/// `f()` must throw ferry::error with `code`; its message must begin with the function's name and hold every text.
template <class F>
void fails(ferry::errc code, F f, std::initializer_list<char const*> texts = {}) {
    try {
        f();
    } catch (ferry::error const& e) {
        INFO(shown(e.what()));
        CHECK_MESSAGE(e.code() == code, "the code is ", shown(ferry::name(e.code())), ", not ",
                      shown(ferry::name(code)));
        CHECK(std::strstr(e.what(), e.api()) == e.what());
        for (auto const* text : texts)
            CHECK_MESSAGE(std::strstr(e.what(), text) != nullptr, "no `", shown(text), "` in: ", shown(e.what()));
        return;
    }
    FAIL_CHECK("nothing was thrown; it should be errc::", shown(ferry::name(code)));
}

}  // namespace support
