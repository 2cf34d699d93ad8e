// ferry: the conformance kit, which checks an adapter against the rules of the exchange.
#pragma once

#include <ferry/conformance/detail/copies.hpp>
#include <ferry/conformance/detail/exports.hpp>
#include <ferry/conformance/detail/failures.hpp>
#include <ferry/conformance/detail/handshake.hpp>
#include <ferry/conformance/detail/imports.hpp>
#include <ferry/conformance/detail/metadata.hpp>
#include <ferry/conformance/finding.hpp>
#include <ferry/conformance/maker.hpp>

namespace FERRY_NAMESPACE::conformance {

/// Checks an adapter (ferry::array_traits<Array>, or a member ferry_view) against the rules of the exchange.
///
/// Works with any test framework, or without one. A rule that does not apply to the type, or for which the maker has no
/// function, is reported as not applicable. A rule about elements that the kit cannot read because of their type or
/// device is reported as not examined. Reads and copies elements on the host and on a simulated device; uses no real
/// device, starts no threads, and holds no resources after it returns. Does not detect accesses outside the arrays, so
/// also run the checks under AddressSanitizer. Exceptions from `report` propagate; exceptions from the adapter during a
/// check become findings.
///
/// \param make    maker of the arrays; the concepts in maker.hpp describe its required and optional functions
/// \param report  callable that takes a `finding const&`; called once for each check
/// \return        number of findings with each verdict
template <class Array, maker<Array> Make, class Report>
    requires viewable<Array>
summary run(Make&& make, Report&& report) {
    detail::recorder record{report};
    record("R32", "make", [&] {
        return detail::for_each_array<Array>(make, detail::filled, [](auto&, auto const&) { return detail::kept(); });
    });
    if (record.sum().kept == 0) {
        record("R32", "make_something", [] {
            return detail::broken(
                "the maker returned no array, expected one for some shape and data type: add shape(), which returns a "
                "supported shape, or a call operator without a data type");
        });
        return record.sum();
    }
    detail::produced const made = detail::first_produced<Array>(make);
    detail::check_metadata<Array>(make, record);
    detail::check_exports<Array>(make, record);
    detail::check_copies<Array>(make, made, record);
    int const broken = record.sum().broken;
    if constexpr (adopting<Array>) detail::check_imports<Array>(made, record);
    else
        record("R53", "adopt", [] {
            return detail::not_applicable("the adapter has no array_traits<T>::adopt: imports are not checked");
        });
    detail::check_handshake<Array>(make, made, record);
    detail::check_failures<Array>(make, made, record.sum().broken == broken, record);
    return record.sum();
}

}  // namespace FERRY_NAMESPACE::conformance
