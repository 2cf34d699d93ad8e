// ferry: what the conformance kit says of one rule.
#pragma once

#include <ferry/base/error.hpp>

#include <cstdint>
#include <exception>

namespace ferry::inline v0::conformance {

/// What the kit has found of a rule.
enum class verdict : std::uint8_t { kept, broken, not_applicable };

/// "kept", "broken" or "not applicable".
[[nodiscard]] constexpr char const* name(verdict v) noexcept {
    return v == verdict::kept ? "kept" : v == verdict::broken ? "broken" : "not applicable";
}

/// One rule, judged on one array type. The texts are valid during the call of `report`; copy what is to stay.
struct finding {
    char const* rule;  ///< the number in the list of rules: "R24"
    char const* name;  ///< what was looked at: "strides"; rule and name together occur once in a run
    verdict outcome;
    char const* evidence;  ///< one sentence: what was seen, and for a break what would do
};

/// How many rules there were of each. True when none is broken and some were kept.
struct summary {
    int kept = 0, broken = 0, not_applicable = 0;
    [[nodiscard]] explicit operator bool() const noexcept { return broken == 0 && kept > 0; }
};

namespace detail {

struct outcome {
    verdict found = verdict::not_applicable;
    message evidence{};
};
[[nodiscard]] inline outcome kept(message const& evidence = {}) noexcept { return {verdict::kept, evidence}; }
[[nodiscard]] inline outcome broken(message const& evidence) noexcept { return {verdict::broken, evidence}; }
[[nodiscard]] inline outcome not_applicable(message const& why) noexcept { return {verdict::not_applicable, why}; }

/// Of several looks at one rule the first break counts, else that one was possible at all.
inline void add(outcome& sum, outcome const& next) noexcept {
    if (sum.found == verdict::broken) return;
    bool const says_more = sum.evidence.c_str()[0] == '\0' && sum.found == next.found;
    if (next.found == verdict::broken || sum.found == verdict::not_applicable || says_more) sum = next;
}

/// Hands each finding to the user's `report`, and counts. What a check throws is a break: nothing that is asked of an
/// adapter here may fail.
template <class Report>
class judge {
   public:
    explicit judge(Report& report) noexcept : report_{report} {}

    template <class Check>
    void operator()(char const* rule, char const* what, Check check) {
        outcome found;
        try {
            found = check();
        } catch (std::exception const& e) {
            found = broken(message{"it threw: "} << e.what());
        } catch (...) {
            found = broken("it threw something that is no std::exception");
        }
        auto& count = found.found == verdict::kept     ? sum_.kept
                      : found.found == verdict::broken ? sum_.broken
                                                       : sum_.not_applicable;
        ++count;
        report_(finding{rule, what, found.found, found.evidence.c_str()});
    }
    [[nodiscard]] summary sum() const noexcept { return sum_; }

   private:
    Report& report_;
    summary sum_;
};

}  // namespace detail
}  // namespace ferry::inline v0::conformance
