// ferry: the result of one check of the conformance kit.
#pragma once

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/base/error.hpp>

#include <cstdint>
#include <exception>

namespace FERRY_NAMESPACE::conformance {

/// Verdict on one rule. The rule is kept or broken, does not apply to the type or the maker, or was not examined
/// because the kit cannot read the elements.
enum class verdict : std::uint8_t { kept, broken, not_applicable, not_examined };

/// Returns the name of a verdict for reports.
///
/// \param v  verdict
/// \return   "kept", "broken", "not applicable" or "not examined"; static storage
[[nodiscard]] constexpr char const* name(verdict v) noexcept {
    constexpr char const* names[] = {"kept", "broken", "not applicable", "not examined"};
    return names[static_cast<int>(v)];
}

/// Result of one check on one array type. The strings are valid only during the call to `report`.
struct finding {
    char const* rule;  ///< number of the rule, for example "R24"
    char const* name;  ///< property that was checked, for example "strides"; no two checks of a rule have the same name
    verdict outcome;
    char const* evidence;  ///< observation, and for some broken rules the fix; may be empty unless the rule is broken
};

/// Number of findings with each verdict.
struct summary {
    int kept = 0, broken = 0, not_applicable = 0, not_examined = 0;
    /// Returns whether no rule is broken and at least one is kept.
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
[[nodiscard]] inline outcome not_examined(message const& why) noexcept { return {verdict::not_examined, why}; }

/// Merges the outcomes of several samples of one rule: the result is the first broken one, otherwise the first kept
/// one, otherwise the first that was not examined.
inline void add(outcome& sum, outcome const& next) noexcept {
    auto const rank = [](verdict v) {
        return v == verdict::broken ? 3 : v == verdict::kept ? 2 : v == verdict::not_examined ? 1 : 0;
    };
    bool const says_more = sum.evidence.c_str()[0] == '\0' || sum.found == verdict::not_applicable;
    if (rank(next.found) > rank(sum.found) || (says_more && sum.found == next.found)) sum = next;
}

/// Runs checks, counts their verdicts, and calls the user's `report` with each finding. If a check throws, its rule is
/// reported as broken.
template <class Report>
class recorder {
   public:
    explicit recorder(Report& report) noexcept : report_{report} {}

    template <class Check>
    void operator()(char const* rule, char const* what, Check check) {
        outcome found;
        try {
            found = check();
        } catch (std::exception const& e) {
            found = broken(message{"the adapter threw: "} << e.what());
        } catch (...) {
            found = broken("the adapter threw an exception that is not derived from std::exception");
        }
        switch (found.found) {
            case verdict::kept: ++sum_.kept; break;
            case verdict::broken: ++sum_.broken; break;
            case verdict::not_applicable: ++sum_.not_applicable; break;
            case verdict::not_examined: ++sum_.not_examined; break;
        }
        report_(finding{rule, what, found.found, found.evidence.c_str()});
    }
    [[nodiscard]] summary sum() const noexcept { return sum_; }

   private:
    Report& report_;
    summary sum_;
};

}  // namespace detail
}  // namespace FERRY_NAMESPACE::conformance
