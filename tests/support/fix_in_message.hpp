// The shape of an error message: "CAUSE: FIX", where the fix is an imperative sentence.
#pragma once

#include <ferry/base/error.hpp>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace support {

/// Returns whether a clause of the text, after ": ", begins with a verb that tells the caller what to do.
inline bool has_fix(std::string_view text) {
    constexpr std::string_view verbs[] = {
        "add",    "align",      "allocate", "allow",       "assign",  "attach", "borrow",  "call", "cast",    "check",   "choose",
        "close",  "combine",    "compact",  "concatenate", "convert", "copy",    "correct", "create",  "define",
        "derive", "drop",       "end",      "exchange",    "export",  "free",    "get",     "import",  "include",
        "index",  "initialise", "install",  "make",        "mount",   "move",    "omit",    "pass",    "permit",
        "raise",  "read", "receive",     "release",  "report",      "remove",  "request", "reshape", "restart", "return",
        "run",    "select",     "send",     "set",         "share", "split",   "shorten", "start",   "update",  "validate",
        "use",    "view",       "wait",     "write"};
    for (auto at = text.find(": "); at != text.npos; at = text.find(": ", at + 2))
        for (auto const verb : verbs)
            if (auto const rest = text.substr(at + 2);
                rest.starts_with(verb) && rest.size() > verb.size() + 1 && rest[verb.size()] == ' ')
                return true;
    return false;
}

/// The file that FERRY_MESSAGES names, or null. Opened before main, because tests count the open files.
inline std::FILE* const messages = [] {
    char const* const path = std::getenv("FERRY_MESSAGES");
    return path != nullptr ? std::fopen(path, "we") : nullptr;
}();

/// Returns whether the message of an error of ferry has a fix; those of drivers, adapters and tests need none. Writes
/// the message to the file that FERRY_MESSAGES names (tests/messages.py).
inline bool states_fix(ferry::error const& e) {
    if (messages != nullptr) {
        std::fprintf(messages, "%s\t%s\t%s\n", ferry::name(e.code()), e.api(), e.text());
        std::fflush(messages);
    }
    return !std::string_view{e.api()}.starts_with("ferry::") || has_fix(e.text()) != !ferry::detail::has_sentences;
}

}  // namespace support
