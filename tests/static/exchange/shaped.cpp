// ferry::shaped forwards the optional members of its owner's traits.
#include <ferry/adapters/shaped.hpp>

namespace {

using ferry::data_type;
using ferry::managed_tensor;

template <int Kind>
struct array {
    float* elements;
    std::int64_t count;
};
template <int Kind>
struct traits_of_lender {
    static constexpr int max_rank = 1;
    static constexpr bool is_flat = false, owns = false;
    static int describe(array<Kind> const& a, std::int64_t* extents, std::int64_t* strides) {
        extents[0] = a.count;
        strides[0] = 1;
        return 1;
    }
    static data_type dtype(array<Kind> const&) { return ferry::dtype_of<float>; }
    static float* data(array<Kind> const& a) { return a.elements; }
    static ferry::stream_token ready_on(array<Kind> const&) { return {}; }
};
enum : int { handle, adopting_handle, owner };

}  // namespace

template <>
struct ferry::shaped_traits<array<handle>> : traits_of_lender<handle> {
    static constexpr bool is_handle = true;
};
template <>
struct ferry::shaped_traits<array<adopting_handle>> : traits_of_lender<adopting_handle> {
    static constexpr bool is_handle = true;
    static array<adopting_handle> adopt(managed_tensor) { return {}; }
    static array<adopting_handle> allocate(data_type, ferry::shape_view, ferry::device) { return {}; }
};
template <>
struct ferry::shaped_traits<array<owner>> : traits_of_lender<owner> {
    static constexpr bool is_handle = false;
};

template <class Array>
concept passes_on = ferry::non_owning<Array> && requires(Array const& a) { ferry::array_traits<Array>::ready_on(a); };

static_assert(passes_on<ferry::shaped<array<handle>>>);  // D13, R43
static_assert(passes_on<ferry::shaped<array<adopting_handle>>>);
static_assert(passes_on<ferry::shaped<array<owner>>>);
