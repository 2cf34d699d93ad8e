// Runs the kit in doctest and collects the names of the rules with each verdict.
#pragma once

#include <ferry/conformance.hpp>

#include <doctest/doctest.h>

#include <set>
#include <string>

struct judged {
    std::set<std::string> broken, kept, not_applicable, not_examined;
    std::string told;
    ferry::conformance::summary sum;
};

template <class Array, class Make>
judged judge(Make make) {
    judged all;
    all.sum = ferry::conformance::run<Array>(make, [&](ferry::conformance::finding const& f) {
        using enum ferry::conformance::verdict;
        auto& names = f.outcome == broken           ? all.broken
                      : f.outcome == kept           ? all.kept
                      : f.outcome == not_applicable ? all.not_applicable
                                                    : all.not_examined;
        std::string const name = std::string{f.rule} + " " + f.name;
        bool const is_new = names.insert(name).second;
        CHECK_MESSAGE(is_new, name);
        if (f.outcome != kept) all.told += name + ": " + ferry::conformance::name(f.outcome) + ": " + f.evidence + "\n";
    });
    return all;
}

/// Checks that an adapter breaks no rule, that each rule was examined, and that exactly the rules of the argument are
/// not applicable.
template <class Array, class Make>
void passes(Make make, std::set<std::string> const& not_applicable = {}) {
    judged const all = judge<Array>(make);
    INFO(all.told);
    CHECK(all.broken.empty());
    CHECK(all.not_examined.empty());
    CHECK(all.not_applicable == not_applicable);
    CHECK(static_cast<bool>(all.sum));
}
