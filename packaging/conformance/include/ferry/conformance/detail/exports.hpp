// ferry: conformance checks of moved, shared, borrowed and read-only exports, and of exports for older DLPack versions.
#pragma once

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/conformance/detail/same.hpp>
#include <ferry/conformance/detail/samples.hpp>
#include <ferry/exchange/borrow.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/to_dlpack.hpp>

#include <concepts>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE::conformance::detail {

/// Whether some arrays of the type can be exported by move without a copy (D13).
template <class Array>
concept movable_owner = std::move_constructible<Array> && !non_owning<Array>;

/// Whether this array can be exported by move without a copy (D13).
template <movable_owner Array>
[[nodiscard]] bool is_owner([[maybe_unused]] Array const& a) {
    if constexpr (has_run_time_ownership<Array>) return array_traits<Array>::owns(a);
    else return true;
}

/// Exports by sharing if the adapter supports it; otherwise by moving an owner, or by copying.
template <class Array>
[[nodiscard]] managed_tensor export_any(Array& a, request const& req) {
    if constexpr (shareable<Array>) {
        return ferry::to_dlpack(a, req);
    } else {
        if constexpr (movable_owner<Array>)
            if (is_owner(a)) return ferry::to_dlpack(std::move(a), req);
        return ferry::to_dlpack(a, {req.device, copy_policy::always, req.stream, req.max_version});
    }
}

/// Checks that a tensor that owns a moved array is intact after the array is destroyed and its storage overwritten.
template <class Array>
outcome check_move(box<Array>& a, sample const& s) {
    if constexpr (movable_owner<Array>)
        if (is_owner(*a)) {
            auto const moved = ferry::to_dlpack(std::move(*a));
            a.destroy();
            return check_elements(moved.view(), message{} << s << ", exported by move");
        }
    return not_applicable("the type cannot be moved, or does not own its elements (D13)");
}

template <class Array>
outcome check_share(box<Array>& a, sample const& s) {
    if constexpr (!shareable<Array>) {
        return not_applicable("the adapter has no array_traits<T>::share: lvalues can be moved, copied or borrowed");
    } else {
        auto const shared = ferry::to_dlpack(*a);
        if (shared.is_copied()) return broken(message{} << s << ", shared, has IS_COPIED set");
        return same_tensor(shared.view(), view_of(*a), message{} << s << ", shared");
    }
}

/// Checks that the array is intact after several of its exports have been released.
template <class Array>
outcome check_repeated(box<Array>& a, sample const& s) {
    if constexpr (!shareable<Array>) {
        return not_applicable("the adapter has no array_traits<T>::share");
    } else {
        for (int i = 0; i < 4; ++i) static_cast<void>(ferry::to_dlpack(*a));
        return combine(check_elements(view_of(*a), message{} << s << ", after four released exports"), kept());
    }
}
/// Checks that a shared export is intact after the array is destroyed.
template <class Array>
outcome check_outliving(box<Array>& a, sample const& s) {
    if constexpr (!shareable<Array>) {
        return not_applicable("the adapter has no array_traits<T>::share");
    } else {
        auto const shared = ferry::to_dlpack(*a);
        a.destroy();
        return check_elements(shared.view(), message{} << s << ", shared, after the array was destroyed");
    }
}

/// Checks that every kind of export of a read-only array sets READ_ONLY.
template <class Array>
outcome check_read_only_export(box<Array>& a, sample const& s) {
    auto const without = message{} << s << " was exported without READ_ONLY";
    if constexpr (shareable<Array>)
        if (!ferry::to_dlpack(*a).is_read_only()) return broken(without);
    if constexpr (movable_owner<Array>)
        if (is_owner(*a) && !ferry::to_dlpack(std::move(*a)).is_read_only()) return broken(without);
    return kept();
}

template <class Array>
outcome check_version(box<Array>& a, sample const& s) {
    auto const tensor = export_any(*a, {.max_version = {1, 0}});
    auto const stamp = tensor.stamped();
    message what;
    what << s << " has version " << stamp.major << "." << stamp.minor << " in an export for DLPack 1.0";
    return stamp.major == 1 && stamp.minor <= 1 ? kept(what) : broken(what);
}

/// Checks that the legacy struct has the same elements, and that a read-only array is copied, or refused under
/// copy_policy::never; with array_traits<T>::lend_read_only, that it is shared.
template <class Array>
outcome check_legacy(box<Array>& a, sample const& s) {
    bool const read_only = view_of(*a).is_read_only();
    if constexpr (shareable<Array>) {
        if (read_only && lends_read_only<Array>) {
            auto const lent = ferry::to_dlpack(*a, {.copy = copy_policy::never, .max_version = version::legacy});
            if (lent.view().data() != view_of(*a).data())
                return broken(message{} << s
                                        << " is read-only and lent to legacy consumers, but its memory was not shared");
        } else if (read_only) {
            try {
                static_cast<void>(ferry::to_dlpack(*a, {.copy = copy_policy::never, .max_version = version::legacy}));
                return broken(message{} << s << " is read-only and was shared as a legacy tensor, which has no flags");
            } catch (error const&) {
            }
        }
    }
    auto* const raw = export_any(*a, {.max_version = version::legacy}).release_legacy();
    auto const found = check_elements({raw->dl_tensor, flags::none}, message{} << s << ", exported as a legacy tensor");
    if (raw->deleter != nullptr) raw->deleter(raw);
    return found;
}

template <class Array, class Make, class Recorder>
void check_exports(Make& make, Recorder& record) {
    auto const each = [&](auto check) { return [&make, check] { return for_each_array<Array>(make, filled, check); }; };
    record("R7", "move", each(check_move<Array>));
    record("R53", "share", each(check_share<Array>));
    record("R59", "repeated_export", each(check_repeated<Array>));
    record("R7", "outlives_array", each(check_outliving<Array>));
    record("R5", "borrow", each([](box<Array>& a, sample const& s) {
               auto const lent = ferry::borrow(*a);
               return same_tensor(lent.view(), view_of(*a), message{} << s << ", borrowed");
           }));
    record("R26", "empty_export", [&] {
        return for_each_array<Array>(make, empty, [](box<Array>& a, sample const& s) {
            auto const tensor = export_any(*a, {});
            message what;
            if (tensor.get()->dl_tensor.data != nullptr)
                return broken(what << s << " is empty and exported with a data pointer, expected null");
            return tensor.view().shape() == s.shape ? kept(what << s)
                                                    : broken(what << s << " is exported with another shape");
        });
    });
    record("R11", "read_only_export", [&] { return for_each_read_only<Array>(make, check_read_only_export<Array>); });
    record("R4", "version", each(check_version<Array>));
    record("R57", "legacy", each(check_legacy<Array>));
    record("R15", "legacy_read_only", [&] { return for_each_read_only<Array>(make, check_legacy<Array>); });
}

}  // namespace FERRY_NAMESPACE::conformance::detail
