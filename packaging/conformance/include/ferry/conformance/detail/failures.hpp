// ferry: conformance checks of failed exchanges, with a back end that injects failures, and of leaks, with the maker's
// `live()`.
#pragma once

#include <ferry/conformance/detail/exports.hpp>
#include <ferry/conformance/detail/import.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/space/back_end.hpp>

#include <cstddef>
#include <utility>

namespace FERRY_NAMESPACE::conformance::detail {

/// The back end of the host, except that the `fail_at`-th call to allocate or copy throws.
struct failing_back_end {
    int fail_at;
    int calls = 0;

    void called() {
        if (++calls == fail_at) throw error{errc::driver, "ferry::conformance", message{"injected"}};
    }
    [[nodiscard]] bool reaches(device d) const noexcept { return host_only.reaches(d); }
    [[nodiscard]] buffer<host_space> allocate(device d, std::size_t bytes, stream_token on) {
        called();
        return host_only.allocate(d, bytes, on);
    }
    void copy(copy_plan const& plan, void* dst, device to, void const* src, device from, stream_token on) {
        called();
        host_only.copy(plan, dst, to, src, from, on);
    }
    void order(stream_token, stream_token) const noexcept {}
    void wait(stream_token) const noexcept {}
};

/// Checks that the array is intact after a copy in which the n-th call to the back end failed, for n = 1, 2, ….
template <class Array>
outcome check_failed_copy(box<Array>& a, sample const& s) {
    request const req{.copy = copy_policy::always};
    for (int n = 1; n < 10; ++n) {
        failing_back_end back_end{n};
        try {
            static_cast<void>(ferry::to_dlpack(*a, req, back_end));
            return kept(message{} << n - 1 << " failures were injected");
        } catch (error const& e) {
            if (e.code() != errc::driver) throw;
        }
        auto const left = check_elements(view_of(*a), message{} << s << ", after a failed copy");
        if (left.found != verdict::kept) return left;
    }
    return broken("a copy makes more than 8 calls to the back end, expected at most 8");
}

/// Checks that an import whose copy fails releases the imported tensor exactly once.
template <class Array>
outcome check_failed_import(data_type type, shape_view shape) {
    request const req{.copy = copy_policy::always};
    for (int n = 1; n < 10; ++n) {
        failing_back_end back_end{n};
        foreign t{type, shape};
        box<Array> a;
        bool const imported = a.construct([&]() -> Array { return ferry::from_dlpack<Array>(t.raw(), req, back_end); });
        a.destroy();
        if (t.releases() != 1)
            return broken(message{"after a failed copy the tensor's deleter ran "} << t.releases()
                                                                                   << " times, expected once");
        if (imported) return kept(message{} << n - 1 << " failures were injected");
        if (back_end.calls < n) return not_applicable("adopt rejects the copy");
    }
    return broken("a copy makes more than 8 calls to the back end, expected at most 8");
}

/// Checks that `make.live()` is the same before and after `f()`.
template <class Make, class F>
outcome check_balance(Make& make, char const* what, F f) {
    auto const before = static_cast<long long>(make.live());
    f();
    auto const after = static_cast<long long>(make.live());
    if (after == before) return kept();
    return broken(message{"leak after "} << what << ": live() was " << std::int64_t{before} << " before and is "
                                         << std::int64_t{after} << " after it");
}

template <class Array, class Make>
outcome check_release([[maybe_unused]] Make& make, [[maybe_unused]] accepted const& like) {
    outcome found;
    if constexpr (!counts_live<Make>) {
        found.evidence << "the maker has no function live()";
    } else {
        auto const with = [&](char const* what, auto f) {
            add(found, check_balance(make, what, [&] {
                    static_cast<void>(for_each_array<Array>(make, filled, [&](box<Array>& a, sample const&) {
                        f(a);
                        return kept();
                    }));
                }));
        };
        with("an array that was made and destroyed", [](box<Array>&) {});
        with("an export that was released before its array",
             [](box<Array>& a) { static_cast<void>(export_any(*a, {})); });
        with("an export that was released after its array", [](box<Array>& a) {
            auto const tensor = export_any(*a, {});
            a.destroy();
        });
        with("a copy", [](box<Array>& a) { static_cast<void>(ferry::to_dlpack(*a, {.copy = copy_policy::always})); });
        with("a copy that failed", [](box<Array>& a) {
            failing_back_end back_end{1};
            try {
                static_cast<void>(ferry::to_dlpack(*a, {.copy = copy_policy::always}, back_end));
            } catch (error const&) {
            }
        });
        if constexpr (adopting<Array>)
            if (like.is_any)
                add(found, check_balance(make, "an import", [&] {
                        foreign t{like.type, like.shape};
                        static_cast<void>(import_same<Array>(t, {}));
                    }));
    }
    return found;
}

/// Runs the checks of failures and of leaks.
///
/// \param make    the maker
/// \param made    type and shape of an array that the maker returned
/// \param adopts  whether the checks of adopt passed; otherwise adopt is not called, because it may release memory
///                twice
/// \param record  recorder of the findings
template <class Array, class Make, class Recorder>
void check_failures(Make& make, [[maybe_unused]] produced const& made, bool adopts, Recorder& record) {
    accepted like;
    if constexpr (adopting<Array>)
        if (adopts) like = find_accepted<Array>(made);
    record("R6", "release", [&] { return check_release<Array>(make, like); });
    record("R7", "failed_copy", [&] { return for_each_array<Array>(make, filled, check_failed_copy<Array>); });
    record("R62", "failed_import", [&]() -> outcome {
        if constexpr (adopting<Array>)
            if (like.is_any) return check_failed_import<Array>(like.type, like.shape);
        return not_applicable(adopting<Array> ? "an earlier check of adopt failed"
                                              : "the adapter has no array_traits<T>::adopt");
    });
}

}  // namespace FERRY_NAMESPACE::conformance::detail
