// ferry: what becomes of arrays that are exported: moved out, shared, lent, in old versions.
#pragma once

#include <ferry/conformance/detail/same.hpp>
#include <ferry/conformance/detail/samples.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/tensor/legacy.hpp>

#include <concepts>
#include <type_traits>
#include <utility>

namespace ferry::inline v0::conformance::detail {

/// Exports as `wish` says: another handle where there are such, else the array itself.
template <class Array>
[[nodiscard]] managed_tensor export_any(Array& a, request const& wish) {
    if constexpr (shareable<Array>) return ferry::to_dlpack(a, wish);
    else if constexpr (std::move_constructible<Array> && !lends<Array>) return ferry::to_dlpack(std::move(a), wish);
    else return ferry::to_dlpack(a, {wish.device, copy_policy::always, wish.stream, wish.max_version});
}

/// The array goes, and its place turns to poison; the tensor that it moved into must not notice.
template <class Array>
outcome judge_move(box<Array>& a, sample const& s) {
    if constexpr (!std::move_constructible<Array> || lends<Array>) {
        return not_applicable("the type cannot be moved, or owns no elements (D13)");
    } else {
        auto const moved = ferry::to_dlpack(std::move(*a));
        a.destroy();
        return count_up(moved.view(), message{} << s << ", moved into a tensor");
    }
}

template <class Array>
outcome judge_share(box<Array>& a, sample const& s) {
    if constexpr (!shareable<Array>) {
        return not_applicable("there is no array_traits<T>::share: lvalues can be moved, copied or lent, not shared");
    } else {
        auto const shared = ferry::to_dlpack(*a);
        if (shared.is_copied()) return broken(message{} << s << ", shared, is flagged IS_COPIED");
        return same_tensor(shared.view(), view_of(*a), message{} << s << ", shared");
    }
}

/// Results are dropped and asked for again, as importers do; the last outlives the array.
template <class Array>
outcome judge_repeated(box<Array>& a, sample const& s) {
    if constexpr (!shareable<Array>) {
        return not_applicable("there is no array_traits<T>::share");
    } else {
        for (int i = 0; i < 4; ++i) static_cast<void>(ferry::to_dlpack(*a));
        return both(count_up(view_of(*a), message{} << s << ", after four exports that were dropped"), kept());
    }
}
template <class Array>
outcome judge_outliving(box<Array>& a, sample const& s) {
    if constexpr (!shareable<Array>) {
        return not_applicable("there is no array_traits<T>::share");
    } else {
        auto const shared = ferry::to_dlpack(*a);
        a.destroy();
        return count_up(shared.view(), message{} << s << ", shared, when the array itself was gone");
    }
}

/// READ_ONLY survives every way out.
template <class Array>
outcome judge_read_only_export(box<Array>& a, sample const& s) {
    auto const without = message{} << s << " was exported without READ_ONLY";
    if constexpr (shareable<Array>)
        if (!ferry::to_dlpack(*a).is_read_only()) return broken(without);
    if constexpr (std::move_constructible<Array> && !lends<Array>)
        if (!ferry::to_dlpack(std::move(*a)).is_read_only()) return broken(without);
    return kept();
}

template <class Array>
outcome judge_version(box<Array>& a, sample const& s) {
    auto const tensor = export_any(*a, {.max_version = {1, 0}});
    auto const stamp = tensor.stamped();
    message what;
    what << s << " is stamped " << stamp.major << "." << stamp.minor << " for a consumer of 1.0";
    return stamp.major == 1 && stamp.minor <= 1 ? kept(what) : broken(what);
}

/// The unversioned struct of the same elements; read-only ones are copied for it, and never without leave.
template <class Array>
outcome judge_legacy(box<Array>& a, sample const& s) {
    bool const read_only = view_of(*a).is_read_only();
    if constexpr (shareable<Array>) {
        if (read_only) {
            try {
                static_cast<void>(ferry::to_dlpack(*a, {.copy = copy_policy::never, .max_version = version::legacy}));
                return broken(message{} << s
                                        << " was shared as a legacy tensor, which cannot say that it is read-only");
            } catch (error const&) {
            }
        }
    }
    auto* const raw = export_any(*a, {.max_version = version::legacy}).release_legacy();
    auto const found = count_up({raw->dl_tensor, flags::none}, message{} << s << ", as a legacy tensor");
    if (raw->deleter != nullptr) raw->deleter(raw);
    return found;
}

template <class Array, class Make, class Judge>
void judge_exports(Make& make, Judge& judge) {
    auto const each = [&](auto check) { return [&make, check] { return for_each_array<Array>(make, filled, check); }; };
    judge("R7", "move", each(judge_move<Array>));
    judge("R53", "share", each(judge_share<Array>));
    judge("R59", "repeated_export", each(judge_repeated<Array>));
    judge("R7", "outlives_array", each(judge_outliving<Array>));
    judge("R5", "borrow", each([](box<Array>& a, sample const& s) {
              auto const lent = ferry::borrow(*a);
              return same_tensor(lent.view(), view_of(*a), message{} << s << ", lent");
          }));
    judge("R26", "empty_export", [&] {
        return for_each_array<Array>(make, empty, [](box<Array>& a, sample const& s) {
            auto const tensor = export_any(*a, {});
            message what;
            if (tensor.get()->dl_tensor.data != nullptr) return broken(what << s << " is exported with an address");
            return tensor.view().shape() == s.shape ? kept(what << s)
                                                    : broken(what << s << " is exported with another shape");
        });
    });
    judge("R11", "read_only_export", [&] { return for_each_read_only<Array>(make, judge_read_only_export<Array>); });
    judge("R4", "version", each(judge_version<Array>));
    judge("R57", "legacy", each(judge_legacy<Array>));
    judge("R15", "legacy_read_only", [&] { return for_each_read_only<Array>(make, judge_legacy<Array>); });
}

}  // namespace ferry::inline v0::conformance::detail
