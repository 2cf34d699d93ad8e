// ferry: what is left when an exchange fails, and when it is over: judged by back ends that fail, and by the library's
// own count.
#pragma once

#include <ferry/conformance/detail/import.hpp>
#include <ferry/conformance/exports.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/space/back_end.hpp>

#include <cstddef>
#include <utility>

namespace ferry::inline v0::conformance::detail {

/// Host memory whose n-th verb fails.
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

/// The n-th verb of a copy fails, for n = 1, 2, …: the array is as it was, also where it was about to be moved.
template <class Array>
outcome judge_failed_copy(box<Array>& a, sample const& s) {
    request const wish{.copy = copy_policy::always};
    for (int n = 1; n < 10; ++n) {
        failing_back_end back_end{n};
        try {
            static_cast<void>(ferry::to_dlpack(*a, wish, back_end));
            return kept(message{} << n - 1 << " failures were injected");
        } catch (error const& e) {
            if (e.code() != errc::driver) throw;
        }
        auto const left = count_up(view_of(*a), message{} << s << ", after a copy of it had failed");
        if (left.found != verdict::kept) return left;
    }
    return broken("a copy takes more than ten calls of the back end");
}

/// An import that has to copy fails: the tensor that was to be copied is released, once.
template <class Array>
outcome judge_failed_import(data_type type, shape_view shape) {
    request const wish{.copy = copy_policy::always};
    for (int n = 1; n < 10; ++n) {
        failing_back_end back_end{n};
        foreign t{type, shape};
        box<Array> a;
        bool const imported =
            a.construct([&]() -> Array { return ferry::from_dlpack<Array>(t.raw(), wish, back_end); });
        a.destroy();
        if (t.releases() != 1)
            return broken(message{"the deleter of a tensor whose copy failed ran "} << t.releases()
                                                                                    << " times, not once");
        if (imported) return kept(message{} << n - 1 << " failures were injected");
        if (back_end.calls < n) return not_applicable("adopt refuses the copy");
    }
    return broken("a copy takes more than ten calls of the back end");
}

/// One way through the library, after which it must have out as much as before.
template <class Make, class F>
outcome judge_balance(Make& make, char const* what, F f) {
    auto const before = static_cast<long long>(make.live());
    f();
    auto const after = static_cast<long long>(make.live());
    if (after == before) return kept();
    return broken(message{"after "} << what << " the library has " << std::int64_t{before} << " out before and "
                                    << std::int64_t{after} << " later");
}

template <class Array, class Make>
outcome judge_release([[maybe_unused]] Make& make, [[maybe_unused]] taken const& like) {
    outcome found;
    if constexpr (!counts_live<Make>) {
        found.evidence << "make has no function live";
    } else {
        auto const with = [&](char const* what, auto f) {
            add(found, judge_balance(make, what, [&] {
                    static_cast<void>(for_each_array<Array>(make, filled, [&](box<Array>& a, sample const&) {
                        f(a);
                        return kept();
                    }));
                }));
        };
        with("an array that was made and dropped", [](box<Array>&) {});
        with("an export that was dropped before its array",
             [](box<Array>& a) { static_cast<void>(export_any(*a, {})); });
        with("an export that was dropped after its array", [](box<Array>& a) {
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
                add(found, judge_balance(make, "an import", [&] {
                        foreign t{like.type, *like.shape};
                        static_cast<void>(import_same<Array>(t, {}));
                    }));
    }
    return found;
}

/// `adopts`: adopt was found to be right. A wrong one is not given memory that can be released only once.
template <class Array, class Make, class Judge>
void judge_failures(Make& make, bool adopts, Judge& judge) {
    taken like;
    if constexpr (adopting<Array>)
        if (adopts) like = find_taken<Array>();
    judge("R6", "release", [&] { return judge_release<Array>(make, like); });
    judge("R7", "failed_copy", [&] { return for_each_array<Array>(make, filled, judge_failed_copy<Array>); });
    judge("R62", "failed_import", [&]() -> outcome {
        if constexpr (adopting<Array>)
            if (like.is_any) return judge_failed_import<Array>(like.type, *like.shape);
        return not_applicable(adopting<Array> ? "adopt has broken a rule already"
                                              : "there is no array_traits<T>::adopt");
    });
}

}  // namespace ferry::inline v0::conformance::detail
