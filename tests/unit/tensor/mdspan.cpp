// to_mdspan over a small mdspan that checks the preconditions of the standard, and over other implementations where
// available.
#include <ferry/tensor/mdspan.hpp>

#include <support/mdspan_suite.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace tiny {

struct layout_right {};
struct layout_stride {};

template <class Index, std::size_t Rank>
struct dextents {
    std::array<Index, Rank> extents;
    template <class... I>
        requires(sizeof...(I) == Rank)
    constexpr explicit dextents(I... i) : extents{static_cast<Index>(i)...} {}
};

template <class T, class Extents, class Layout>
struct mdspan;

template <class T, class Index, std::size_t Rank>
struct mdspan<T, dextents<Index, Rank>, layout_right> {
    using extents_type = dextents<Index, Rank>;
    T* data;
    extents_type extents;
    constexpr mdspan(T* p, extents_type e) : data{p}, extents{e} {}
};

template <class T, class Index, std::size_t Rank>
struct mdspan<T, dextents<Index, Rank>, layout_stride> {
    using extents_type = dextents<Index, Rank>;
    struct mapping_type {
        extents_type extents;
        std::array<Index, Rank> steps;
        constexpr mapping_type(extents_type e, std::array<Index, Rank> const& s) : extents{e}, steps{s} {
            for (auto const step : s)
                if (step <= 0) throw std::invalid_argument{"strides must be positive"};
        }
        [[nodiscard]] constexpr std::array<Index, Rank> strides() const { return steps; }
    };
    T* data;
    mapping_type mapping;
    constexpr mdspan(T* p, mapping_type m) : data{p}, mapping{m} {}
};

/// Has no accessor, so that the host cannot read the elements.
template <class T, class Extents, class Layout>
struct device_mdspan : mdspan<T, Extents, Layout> {
    using mdspan<T, Extents, Layout>::mdspan;
};

using family = ferry::mdspan_family::of<mdspan, dextents, layout_right, layout_stride>;

struct device_family {
    template <class T, std::size_t Rank>
    using device_contiguous = device_mdspan<T, dextents<std::int64_t, Rank>, layout_right>;
    template <class T, std::size_t Rank>
    using device_strided = device_mdspan<T, dextents<std::int64_t, Rank>, layout_stride>;
};

}  // namespace tiny

namespace {

using ferry::access_from;
using ferry::layout;
using ferry::tensor_view;

void refuses(tensor_view const& v, char const* text) {
    auto const typed = ferry::as<float const, 2>(v);
    auto const returned = ferry::try_to_mdspan<tiny::family>(typed);
    REQUIRE_FALSE(returned.has_value());
    CHECK(returned.error().code() == ferry::errc::strides);
    try {
        static_cast<void>(ferry::to_mdspan<tiny::family>(typed));
        FAIL("it made an mdspan");
    } catch (ferry::error const& e) {
        CHECK(e.code() == ferry::errc::strides);
        CHECK(std::strcmp(e.what(), returned.error().what()) == 0);
        CHECK(std::strstr(e.what(), "ferry::to_mdspan: ") == e.what());
        CHECK_MESSAGE(std::strstr(e.what(), text) != nullptr, e.what());
        CHECK(std::strstr(e.what(), "copy_policy::always") != nullptr);
        CHECK(std::strstr(e.where().file_name(), "mdspan.cpp") != nullptr);
    }
}

}  // namespace

TEST_CASE("to_mdspan with a user's family: contiguous is layout_right, strided is layout_stride") {
    float data[6] = {0, 1, 2, 3, 4, 5};
    std::int64_t const shape[] = {2, 3}, strides[] = {1, 2};
    auto const right = ferry::to_mdspan<tiny::family>(
        ferry::as<float const, 2, access_from::host, layout::contiguous>(tensor_view{data, shape}));
    static_assert(std::is_same_v<decltype(right),
                                 tiny::mdspan<float const, tiny::dextents<std::int64_t, 2>, tiny::layout_right> const>);
    CHECK(right.data == data);
    CHECK(right.extents.extents == std::array<std::int64_t, 2>{2, 3});
    auto const turned = ferry::to_mdspan<tiny::family>(ferry::as<float, 2>(tensor_view{data, shape, strides}));
    static_assert(std::is_same_v<decltype(turned),
                                 tiny::mdspan<float, tiny::dextents<std::int64_t, 2>, tiny::layout_stride> const>);
    CHECK(turned.data == data);
    CHECK(ferry::try_to_mdspan<tiny::family>(ferry::as<float, 2>(tensor_view{data, shape, strides}))->data == data);
    CHECK(turned.mapping.extents.extents == std::array<std::int64_t, 2>{2, 3});
    CHECK(turned.mapping.steps == std::array<std::int64_t, 2>{1, 2});
}

TEST_CASE("R24: to_mdspan of implicit strides writes the compact ones") {
    float data[24] = {};
    std::int64_t const shape[] = {2, 3, 4};
    auto const m = ferry::to_mdspan<tiny::family>(ferry::as<float, 3>(tensor_view{data, shape}));
    CHECK(m.mapping.steps == std::array<std::int64_t, 3>{12, 4, 1});
}

TEST_CASE("R27: to_mdspan normalises the stride of a dimension of extent 1") {
    float data[12] = {};
    std::int64_t const shape[] = {1, 3, 1, 4, 1}, strides[] = {-5, 4, 0, 1, 1 << 30};
    auto const m = ferry::to_mdspan<tiny::family>(ferry::as<float, 5>(tensor_view{data, shape, strides}));
    CHECK(m.mapping.steps == std::array<std::int64_t, 5>{12, 4, 4, 1, 1});
}

TEST_CASE("R26: to_mdspan of an empty tensor ignores its strides, whatever the other extents") {
    std::int64_t const shape[] = {std::int64_t{1} << 40, std::int64_t{1} << 40, 0}, strides[] = {-1, 0, 7};
    auto const m =
        ferry::to_mdspan<tiny::family>(ferry::as<float, 3>(tensor_view{static_cast<float*>(nullptr), shape, strides}));
    CHECK(m.data == nullptr);
    CHECK(m.mapping.extents.extents == std::array<std::int64_t, 3>{shape[0], shape[1], 0});
    for (auto const step : m.mapping.steps) CHECK(step > 0);
}

TEST_CASE("R28, R29: to_mdspan refuses strides that layout_stride does not allow, and the error contains the fix") {
    float data[9] = {};
    std::int64_t const shape[] = {3, 3}, negative[] = {3, -1}, zero[] = {0, 1}, window[] = {1, 1}, close[] = {2, 1};
    refuses(tensor_view{data + 2, shape, negative}, "strides[1] is -1");
    refuses(tensor_view{data, shape, zero}, "strides[0] is 0");
    refuses(tensor_view{data, shape, window}, "overlap");
    refuses(tensor_view{data, shape, close}, "interleave in dimensions 0 and 1");
    std::int64_t const spread[] = {1, 4};  // column-major with a gap
    float more[12] = {};
    CHECK(ferry::to_mdspan<tiny::family>(ferry::as<float, 2>(tensor_view{more, shape, spread})).mapping.steps[1] == 4);
}

TEST_CASE("to_mdspan gives device elements only to a family with device accessors") {
    static_assert(ferry::detail::device_mdspan_family<tiny::device_family>);
    static_assert(!ferry::detail::device_mdspan_family<tiny::family>);
    float data[6] = {};
    std::int64_t const shape[] = {2, 3};
    tensor_view const v{data, shape, {}, {ferry::device_type::cuda, 1}};
    auto const m = ferry::to_mdspan<tiny::device_family>(ferry::as<float, 2, access_from::device>(v));
    static_assert(
        std::is_same_v<decltype(m),
                       tiny::device_mdspan<float, tiny::dextents<std::int64_t, 2>, tiny::layout_stride> const>);
    CHECK(m.data == data);
    auto const right =
        ferry::to_mdspan<tiny::device_family>(ferry::as<float, 2, access_from::device, layout::contiguous>(v));
    CHECK(right.extents.extents[1] == 3);
}

#if FERRY_HAS_STD_MDSPAN
TEST_CASE("to_mdspan over std::mdspan is the default") {
    mdspan_suite::shares_elements<ferry::mdspan_family::standard>();
    mdspan_suite::takes_rank_0_and_empty<ferry::mdspan_family::standard>();
    mdspan_suite::normalises_size_1<ferry::mdspan_family::standard>();
    mdspan_suite::is_an_array<ferry::mdspan_family::standard>();
    int data[6] = {};
    std::int64_t const shape[] = {2, 3};
    auto const m =
        ferry::to_mdspan(ferry::as<int, 2, access_from::host, layout::contiguous>(tensor_view{data, shape}));
    static_assert(std::is_same_v<decltype(m), std::mdspan<int, std::dextents<std::int64_t, 2>> const>);
}
#endif
