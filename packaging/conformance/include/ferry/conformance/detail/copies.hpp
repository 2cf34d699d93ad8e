// ferry: conformance checks of copies, and of the memory that array_traits<T>::allocate returns.
#pragma once

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/base/result.hpp>
#include <ferry/conformance/detail/metadata.hpp>
#include <ferry/conformance/detail/same.hpp>
#include <ferry/conformance/detail/samples.hpp>
#include <ferry/exchange/to_dlpack.hpp>

#include <cstdint>
#include <utility>

namespace FERRY_NAMESPACE::conformance::detail {

template <class Array>
outcome check_copy(box<Array>& a, sample const& s) {
    auto const copy = ferry::to_dlpack(*a, {.copy = copy_policy::always});
    message what;
    what << s << ", copied";
    if (copy.view().data() == view_of(*a).data()) return broken(what << ": the copy shares memory with the array");
    if (!copy.is_copied()) return broken(what << ": IS_COPIED is not set");
    if (copy.is_read_only()) return broken(what << ": the copy is READ_ONLY, expected a writable one");
    return check_elements(copy.view(), what);
}

/// Checks that an export under copy_policy::never shares the memory, or fails with errc::not_shareable.
template <class Array>
outcome check_never(box<Array>& a, sample const& s) {
    request const req{.copy = copy_policy::never};
    message what;
    what << s << ", exported with copy_policy::never,";
    if constexpr (shareable<Array>) {
        auto const shared = ferry::to_dlpack(*a, req);
        if (shared.is_copied()) return broken(what << " has IS_COPIED set");
        return same_tensor(shared.view(), view_of(*a), what);
    } else {
        try {
            static_cast<void>(ferry::to_dlpack(*a, req));
            return broken(what << " was shared, although the adapter has no array_traits<T>::share");
        } catch (error const& e) {
            return e.code() == errc::not_shareable ? kept(what << " is refused") : broken(what << ": " << e.what());
        }
    }
}

/// Calls array_traits<T>::allocate, and throws the error of a result that it returns.
template <class Array>
[[nodiscard]] Array allocated(data_type type, shape_view shape, device dev) {
    using fresh = decltype(ferry::detail::allocate_array<Array>(type, shape, dev, {}));
    if constexpr (ferry::detail::is_result<fresh>)
        return ferry::detail::allocate_array<Array>(type, shape, dev, {}).value();
    else return ferry::detail::allocate_array<Array>(type, shape, dev, {});
}

/// Calls `f(box&, sample const&)` with an array that array_traits<T>::allocate returns, for each type and shape that it
/// accepts, including the type of the maker's arrays.
template <class Array, class F>
outcome for_each_allocation([[maybe_unused]] produced const& made, F f) {
    if constexpr (!allocates<Array>) {
        return not_applicable("the adapter has no array_traits<T>::allocate: ferry allocates the copies");
    } else {
        outcome found;
        auto const each = [&](data_type const& type) {
            for (auto const& shape : filled) {
                box<Array> fresh;
                if (found.found == verdict::broken) return;
                if (fresh.construct([&] { return allocated<Array>(type, shape, cpu); }))
                    add(found, f(fresh, sample{.shape = shape, .type = &type}));
            }
        };
        if (made.is_any) each(made.type);
        for (auto const& type : some_types) each(type);
        if (found.found == verdict::not_applicable) found.evidence << "allocate throws for every type and shape";
        return found;
    }
}

/// Checks that allocated memory is writable, and that neither two allocations nor two elements share memory.
template <class Array>
outcome check_fresh(box<Array>& a, sample const& s) {
    message what;
    what << s << ", allocated";
    if constexpr (allocates<Array>) {
        tensor_view const& v = view_of(*a);
        if (v.is_read_only()) return broken(what << ": the memory is READ_ONLY, expected writable memory");
        box<Array> second;
        if (second.construct([&] { return allocated<Array>(*s.type, s.shape, cpu); }) &&
            view_of(*second).data() == v.data())
            return broken(what << ": two allocations share the same memory");
        if (!(v.shape() == s.shape)) return not_applicable(what << ": its shape differs");
        if (!can_read(v)) return unread(v, what);
        for_each_element(v, [&](std::int64_t ordinal, std::int64_t offset) {
            write_number(v.dtype(), static_cast<std::byte*>(ferry::detail::untyped_data(v)) + offset, ordinal + 1);
            return true;
        });
        if (first_mismatch(v) >= 0) return broken(what << ": elements share memory");
    }
    return kept(what);
}

/// Checks that allocate throws for a device that the library does not support, instead of returning memory of another
/// device.
template <class Array>
outcome check_device(data_type type, shape_view shape) {
    device const unsupported{device_type::hexagon, 7};
    box<Array> fresh;
    if (!fresh.construct([&] { return allocated<Array>(type, shape, unsupported); }))
        return kept("allocate throws for an unsupported device");
    if (is_same_device(view_of(*fresh).device(), unsupported)) return kept("allocate returned memory of hexagon:7");
    return broken("allocate(hexagon:7) returned memory of another device: throw for unsupported devices");
}

template <class Array, class Make, class Recorder>
void check_copies(Make& make, produced const& made, Recorder& record) {
    auto const each = [&](auto check) { return [&make, check] { return for_each_array<Array>(make, filled, check); }; };
    record("R12", "copy", each(check_copy<Array>));
    record("R54", "copy_never", each(check_never<Array>));
    record("R32", "allocate_shape", [&] {
        return for_each_allocation<Array>(made,
                                          [](box<Array>& a, sample const& s) { return check_shape(view_of(*a), s); });
    });
    record("R17", "allocate_dtype", [&] {
        return for_each_allocation<Array>(made,
                                          [](box<Array>& a, sample const& s) { return check_dtype(view_of(*a), s); });
    });
    record("R12", "allocate_fresh", [&] { return for_each_allocation<Array>(made, check_fresh<Array>); });
    record("R40", "allocate_device", [&] {
        return for_each_allocation<Array>(made, [](box<Array>&, [[maybe_unused]] sample const& s) {
            if constexpr (allocates<Array>) return check_device<Array>(*s.type, s.shape);
            else return kept();
        });
    });
}

}  // namespace FERRY_NAMESPACE::conformance::detail
