// ferry: copies of arrays, and the memory that an adapter gives for them.
#pragma once

#include <ferry/conformance/detail/same.hpp>
#include <ferry/conformance/detail/samples.hpp>
#include <ferry/conformance/metadata.hpp>
#include <ferry/exchange/to_dlpack.hpp>

#include <cstdint>
#include <utility>

namespace ferry::inline v0::conformance::detail {

template <class Array>
outcome judge_copy(box<Array>& a, sample const& s) {
    auto const copy = ferry::to_dlpack(*a, {.copy = copy_policy::always});
    message what;
    what << s << ", copied";
    if (copy.view().data() == view_of(*a).data()) return broken(what << ": the copy is in the memory of the array");
    if (!copy.is_copied()) return broken(what << ": IS_COPIED is not set");
    if (copy.is_read_only()) return broken(what << ": the copy is READ_ONLY, though its receiver is its sole owner");
    return count_up(copy.view(), what);
}

/// copy_policy::never shares or says that it cannot.
template <class Array>
outcome judge_never(box<Array>& a, sample const& s) {
    request const wish{.copy = copy_policy::never};
    message what;
    what << s << " under copy=False";
    if constexpr (shareable<Array>) {
        auto const shared = ferry::to_dlpack(*a, wish);
        if (shared.is_copied()) return broken(what << ": it is flagged IS_COPIED");
        return same_tensor(shared.view(), view_of(*a), what);
    } else {
        try {
            static_cast<void>(ferry::to_dlpack(*a, wish));
            return broken(what << ": an array that cannot be shared was");
        } catch (error const& e) {
            return e.code() == errc::not_shareable ? kept(what << " is refused") : broken(what << ": " << e.what());
        }
    }
}

/// What array_traits<T>::allocate gives, for the first type and each shape that it has.
template <class Array, class F>
outcome for_each_allocation(F f) {
    if constexpr (!allocates<Array>) {
        return not_applicable("there is no array_traits<T>::allocate: copies live in memory of ferry's");
    } else {
        outcome found;
        for (auto const& type : some_types)
            for (auto const& shape : filled) {
                box<Array> fresh;
                if (found.found == verdict::broken) return found;
                if (fresh.construct([&]() -> Array { return array_traits<Array>::allocate(type, shape, cpu); }))
                    add(found, f(fresh, sample{.shape = shape, .type = &type}));
            }
        if (found.found == verdict::not_applicable) found.evidence << "allocate has no such memory";
        return found;
    }
}

/// Fresh means: nobody else's, and writable to the last element.
template <class Array>
outcome judge_fresh(box<Array>& a, sample const& s) {
    message what;
    what << s << ", allocated";
    if constexpr (allocates<Array>) {
        tensor_view const v = view_of(*a);
        if (v.is_read_only()) return broken(what << ": nobody may write it, and a copy must");
        box<Array> second;
        if (second.construct([&]() -> Array { return array_traits<Array>::allocate(*s.type, s.shape, cpu); }) &&
            view_of(*second).data() == v.data())
            return broken(what << ": two of them are in the same memory");
        if (!can_read(v) || !(v.shape() == s.shape)) return not_applicable(what);
        for_each_element(v, [&](std::int64_t ordinal, std::int64_t offset) {
            write_number(v.dtype(), static_cast<std::byte*>(v.data()) + offset, ordinal + 1);
            return true;
        });
        if (first_wrong(v) >= 0) return broken(what << ": elements share memory");
    }
    return kept(what);
}

/// A device that the library has not: an error, or memory there; never memory elsewhere.
template <class Array>
outcome judge_device(data_type type, shape_view shape) {
    device const far{device_type::hexagon, 7};
    box<Array> fresh;
    if (!fresh.construct([&]() -> Array { return array_traits<Array>::allocate(type, shape, far); }))
        return kept("allocate refuses a device that it has not");
    if (is_same_place(view_of(*fresh).device(), far)) return kept("allocate gave memory of hexagon:7");
    return broken("allocate was asked for memory of hexagon:7 and gave some of another device: throw there");
}

template <class Array, class Make, class Judge>
void judge_copies(Make& make, Judge& judge) {
    auto const each = [&](auto check) { return [&make, check] { return for_each_array<Array>(make, filled, check); }; };
    judge("R12", "copy", each(judge_copy<Array>));
    judge("R54", "copy_never", each(judge_never<Array>));
    judge("R32", "allocate_shape", [] {
        return for_each_allocation<Array>([](box<Array>& a, sample const& s) { return judge_shape(view_of(*a), s); });
    });
    judge("R17", "allocate_dtype", [] {
        return for_each_allocation<Array>([](box<Array>& a, sample const& s) { return judge_dtype(view_of(*a), s); });
    });
    judge("R12", "allocate_fresh", [] { return for_each_allocation<Array>(judge_fresh<Array>); });
    judge("R40", "allocate_device", [] {
        return for_each_allocation<Array>([](box<Array>&, [[maybe_unused]] sample const& s) {
            if constexpr (allocates<Array>) return judge_device<Array>(*s.type, s.shape);
            else return kept();
        });
    });
}

}  // namespace ferry::inline v0::conformance::detail
