// Checks that a call throws ferry::error with a code, and texts of the message.
#pragma once

#include <ferry/base/error.hpp>

#include <support/fix_in_message.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <initializer_list>

namespace support {

/// A std::string, since doctest prints a char const* as an address.
inline doctest::String shown(char const* text) { return text; }

/// Checks that `f()` throws ferry::error with `code`, and a message that starts with the function's name, states a fix
/// and contains every text.
template <class F>
void fails(ferry::errc code, F f, std::initializer_list<char const*> texts = {}) {
    try {
        f();
    } catch (ferry::error const& e) {
        INFO(shown(e.what()));
        CHECK_MESSAGE(e.code() == code, "the code is ", shown(ferry::name(e.code())), ", expected ",
                      shown(ferry::name(code)));
        CHECK(std::strstr(e.what(), e.api()) == e.what());
        CHECK_MESSAGE(states_fix(e), "no fix in: ", shown(e.what()));
        for (auto const* text : texts)
            CHECK_MESSAGE((!ferry::detail::has_sentences || std::strstr(e.what(), text) != nullptr), "no `",
                          shown(text), "` in: ", shown(e.what()));
        return;
    }
    FAIL_CHECK("nothing was thrown, expected errc::", shown(ferry::name(code)));
}

/// Checks that `f()` fails as in `fails`, and that `try_f()` returns a result with the same code, function and message.
template <class F, class TryF>
void both_fail(ferry::errc code, F f, TryF try_f, std::initializer_list<char const*> texts = {}) {
    auto const result = try_f();
    CHECK_FALSE(result.has_value());
    if (result.has_value()) return;
    ferry::error const& returned = result.error();
    auto const compared = [&] {
        try {
            f();
        } catch (ferry::error const& thrown) {
            CHECK(returned.code() == thrown.code());
            CHECK(doctest::String{returned.api()} == doctest::String{thrown.api()});
            CHECK(doctest::String{returned.what()} == doctest::String{thrown.what()});
            CHECK(doctest::String{returned.where().file_name()} == doctest::String{thrown.where().file_name()});
            throw;
        }
    };
    fails(code, compared, texts);
}

}  // namespace support
