// Compiled with -fno-exceptions -fno-rtti: the functions that return a result (D17). Without exceptions doctest ends the
// program at a failed REQUIRE.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#define DOCTEST_CONFIG_NO_EXCEPTIONS_BUT_WITH_ALL_ASSERTS
#include <ferry/base/catch_into.hpp>
#include <ferry/base/result.hpp>
#include <ferry/space/buffer.hpp>
#include <ferry/space/copy.hpp>
#include <ferry/tensor/detail/make_raw.hpp>
#include <ferry/tensor/for_each.hpp>
#include <ferry/tensor/inplace_view.hpp>
#include <ferry/tensor/validate.hpp>
#include <ferry/tensor/visit.hpp>

#include <doctest/doctest.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <utility>

namespace {

using ferry::errc;
using ferry::tensor_view;

constexpr std::int64_t six[] = {2, 3}, other[] = {3, 2}, negative[] = {2, -3};

template <class Result>
concept has_value_function = requires(Result const& r) { r.value(); };

struct exhausted_space : ferry::host_space {
    void* allocate(std::size_t, std::size_t) const { return nullptr; }
};

/// Returns an error from each copy.
struct broken : ferry::host_back_end {
    [[nodiscard]] ferry::result<> copy(ferry::copy_plan const&, void*, ferry::device, void const*, ferry::device,
                                       ferry::stream_token) const {
        return ferry::error{errc::driver, "device", "copy failed"};
    }
};

}  // namespace

TEST_CASE("D17: without exceptions, only the functions that return a result exist") {
    static_assert(FERRY_HAS_EXCEPTIONS == 0);
    static_assert(!std::constructible_from<ferry::buffer<>, std::size_t>);
    static_assert(!has_value_function<ferry::result<int>>);
}

TEST_CASE("try_validate returns the error of an invalid tensor") {
    float data[6] = {};
    DLTensor t = ferry::detail::tensor_of({data, six});
    CHECK(ferry::try_validate(t));
    t.shape = const_cast<std::int64_t*>(negative);
    auto const r = ferry::try_validate(t);
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().code() == errc::shape);
    CHECK(std::strstr(r.error().what(), "shape[1] is -3") != nullptr);
}

TEST_CASE("try_as, try_at, try_slice and try_visit return a view, an element, a part and the result of a function") {
    float data[] = {1, 2, 3, 4, 5, 6};
    tensor_view const v{data, six};
    auto const typed = ferry::try_as<float, 2>(v);
    REQUIRE(typed.has_value());
    CHECK((*typed)(1, 2) == 6.0f);
    CHECK(*typed->try_at(1, 0) == 4.0f);
    CHECK(typed->try_at(2, 0).error().code() == errc::out_of_range);
    CHECK(typed->try_slice(ferry::full_extent, 1)->extent(0) == 2);
    CHECK(typed->try_slice(0, 3).error().code() == errc::out_of_range);
    CHECK(ferry::try_as<double>(v).error().code() == errc::dtype);
    float sum = 0;
    CHECK(ferry::try_visit<double const, float const>(v, [&](auto const& x) {
              ferry::for_each(x, [&](auto e) { sum += static_cast<float>(e); });
          }).has_value());
    CHECK(sum == 21.0f);
    CHECK(ferry::try_visit<int>(v, [](auto const&) { return 1; }).error().code() == errc::dtype);
}

TEST_CASE("R32: an extent above the maximum is refused when its view is validated") {
    float data[6] = {};
    auto const far = static_cast<std::uint64_t>(-1);
    CHECK(ferry::inplace_dims<2>::try_make(ferry::shape_view{six})->rank() == 2);
    CHECK(ferry::try_element_strides<1>({6}, 4).error().code() == errc::strides);
    ferry::inplace_view<2> const v{data, {far, 2}};
    CHECK(ferry::try_validate(ferry::detail::tensor_of(v)).error().code() == errc::shape);
}

TEST_CASE("try_copy returns the number of bytes, or the error of the arguments or of the back end") {
    float from[] = {1, 2, 3, 4, 5, 6}, to[6] = {};
    auto const bytes = ferry::try_copy(tensor_view{to, six}, tensor_view{from, six});
    REQUIRE(bytes.has_value());
    CHECK(*bytes == 24);
    CHECK(to[5] == 6.0f);
    CHECK(ferry::try_copy(tensor_view{to, six}, tensor_view{from, other}).error().code() == errc::shape);
    static_assert(ferry::back_end<broken>);
    CHECK(ferry::try_copy(tensor_view{to, six}, tensor_view{from, six}, broken{}).error().code() == errc::driver);
}

TEST_CASE("a failed allocation is errc::out_of_memory") {
    CHECK(ferry::buffer<>::try_allocate(100)->data() != nullptr);
    auto const b = ferry::buffer<exhausted_space>::try_allocate(100);
    CHECK(b.error().code() == errc::out_of_memory);
    ferry::allocating_from const from{exhausted_space{}};
    CHECK(from.allocate(ferry::cpu, 8, {}).error().code() == errc::out_of_memory);
    CHECK(from.allocate({ferry::device_type::cuda, 0}, 8, {}).error().code() == errc::device);
}

TEST_CASE("an export that fails destroys the owner once, and returns null") {
    static int live;
    struct owner {
        owner() { ++live; }
        owner(owner&&) noexcept { ++live; }
        ~owner() { --live; }
    };
    float data[6] = {};
    ferry::detail::record to{"test", std::source_location::current()};
    {
        owner o;
        auto* const raw = ferry::detail::make_raw<DLManagedTensorVersioned>(
            std::move(o), [&](owner& x) { return &x == &o ? tensor_view{data, six} : tensor_view{data, other}; },
            ferry::cpu, ferry::flags::none, ferry::version::current, ferry::detail::reporter{to});
        CHECK(raw == nullptr);
        CHECK(live == 1);
    }
    CHECK(to.outcome.error().code() == errc::argument);
    CHECK(live == 0);
}
