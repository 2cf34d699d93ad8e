// expect: the view refers to a list of std::int64_t, and these extents have another type: use ferry::inplace_view<N>
#include <ferry/tensor/inplace_view.hpp>

#include <span>

struct array {
    float* data;
    std::span<int const> extents;
};
#ifdef FERRY_COMPILE_FAIL
ferry::tensor_view view(array& a) { return {a.data, a.extents}; }
#else
ferry::inplace_view<2> view(array& a) { return {a.data, a.extents}; }
#endif
// next case
#include <ferry/tensor/inplace_view.hpp>

#include <vector>

struct array {
    float* data;
    std::vector<int> extents;
};
#ifdef FERRY_COMPILE_FAIL
ferry::tensor_view view(array& a) { return {a.data, a.extents}; }
#else
ferry::inplace_view<2> view(array& a) { return {a.data, a.extents}; }
#endif
// next case
#include <ferry/tensor/inplace_view.hpp>

struct mdspan_extents {  // as std::extents, of C++23
    using rank_type = std::size_t;
    static constexpr std::size_t rank() { return 2; }
    std::size_t extent(std::size_t) const { return 3; }
};
#ifdef FERRY_COMPILE_FAIL
ferry::tensor_view view(float* data, mdspan_extents const& extents) { return {data, extents}; }
#else
ferry::inplace_view<2> view(float* data, mdspan_extents const& extents) { return {data, extents}; }
#endif
// next case
#include <ferry/tensor/inplace_view.hpp>

#include <array>

struct array {
    float* data;
    std::array<std::size_t, 2> extents;
};
#ifdef FERRY_COMPILE_FAIL
ferry::tensor_view view(array& a) { return {a.data, a.extents}; }
#else
ferry::inplace_view<2> view(array& a) { return {a.data, a.extents}; }
#endif
// next case
#include <ferry/tensor/inplace_view.hpp>

struct array {
    float* data;
    int extents[2];
};
#ifdef FERRY_COMPILE_FAIL
ferry::tensor_view view(array& a) { return {a.data, a.extents}; }
#else
ferry::inplace_view<2> view(array& a) { return {a.data, a.extents}; }
#endif
// next case
#include <ferry/tensor/inplace_view.hpp>

#include <vector>

struct array {
    float* data;
    std::vector<long long> extents;
};
#ifdef FERRY_COMPILE_FAIL
ferry::tensor_view view(array& a) { return {a.data, a.extents}; }
#else
ferry::inplace_view<2> view(array& a) { return {a.data, a.extents}; }
#endif
