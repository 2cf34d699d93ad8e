// ferry: the conformance kit: each rule of the exchange, judged on an author's own array type.
#pragma once

#include <ferry/conformance/copies.hpp>
#include <ferry/conformance/exports.hpp>
#include <ferry/conformance/failures.hpp>
#include <ferry/conformance/finding.hpp>
#include <ferry/conformance/handshake.hpp>
#include <ferry/conformance/imports.hpp>
#include <ferry/conformance/maker.hpp>
#include <ferry/conformance/metadata.hpp>

namespace ferry::inline v0::conformance {

/// Judges an adapter (ferry::array_traits<Array>, or a member ferry_view) by the rules of the exchange, and hands each
/// finding to `report`: a callable that takes a `finding const&`. Needs no test framework and works in any.
///
/// `make` makes the arrays; see `makes_shapes` for what it must do, and the concepts after it for what it may. What is
/// made is dropped again; foreign tensors that are imported live until their array is gone. Rules that the type has
/// nothing to do with are not applicable, with the reason as evidence: nothing is skipped in silence.
///
/// Reads and copies elements on the host and on a simulated device of its own; touches no real device, starts no
/// thread, owns nothing after it returns. Exceptions of the adapter become findings; those of `report` pass through.
///
/// What it cannot see: reads and writes outside of the arrays. Run it under AddressSanitizer, too.
template <class Array, maker<Array> Make, class Report>
    requires viewable<Array>
summary run(Make&& make, Report&& report) {
    detail::judge judge{report};
    judge("R32", "make", [&] {
        return detail::for_each_array<Array>(make, detail::filled, [](auto&, auto const&) { return detail::kept(); });
    });
    if (judge.sum().kept == 0) {
        judge("R32", "make_something",
              [] { return detail::broken("make made none of the arrays: give it a shape() that it can make"); });
        return judge.sum();
    }
    detail::judge_metadata<Array>(make, judge);
    detail::judge_exports<Array>(make, judge);
    detail::judge_copies<Array>(make, judge);
    int const broken = judge.sum().broken;
    if constexpr (adopting<Array>) detail::judge_imports<Array>(judge);
    else
        judge("R53", "adopt",
              [] { return detail::not_applicable("there is no array_traits<T>::adopt: the type only produces"); });
    detail::judge_handshake<Array>(judge);
    detail::judge_failures<Array>(make, judge.sum().broken == broken, judge);
    return judge.sum();
}

}  // namespace ferry::inline v0::conformance
