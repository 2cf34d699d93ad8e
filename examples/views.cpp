// Typed views: indices, loops, slices, exports, and dispatch on the data type.
#include <ferry/ferry.hpp>

#include <cstdint>
#include <vector>

#undef NDEBUG  // the program is a test
#include <cassert>

// [any-rank]
double sum(ferry::typed_view<float const> v) {  // of any rank, with any strides
    double total = 0;
    ferry::for_each(v, [&](float x) { total += x; });
    return total;
}
// [/any-rank]

// [visit]
double mean(ferry::managed_tensor const& tensor) {
    return ferry::visit<float const, double const, std::uint8_t const>(
        tensor.view(), [](auto const& v) {
            double total = 0;
            ferry::for_each(v, [&](auto x) { total += static_cast<double>(x); });
            return total / static_cast<double>(v.size());
        });
}
// [/visit]

int main() {
    std::vector<float> pixels{0, 1, 2, 3, 4, 5};
    std::int64_t const shape[] = {2, 3};
    ferry::tensor_view const tensor{pixels.data(), shape};

    // [index]
    auto const image = ferry::as<float, 2>(tensor);       // type, rank and device are checked here
    image(1, 2) = 6;                                      // not checked
    image.at(1, 2) = 5;                                   // may throw errc::out_of_range
    auto const row = image.slice(1, ferry::full_extent);  // removes dimension 0
    for (float& x : row) x *= 2;
    // [/index]
    assert(row[0] == 6 && row[2] == 10);
    assert(sum(image) == 27);

    // [slice]
    // NumPy's image[:, ::2] and image[::-1, 1:]
    auto const columns = image.slice(ferry::full_extent, ferry::range_slice{.stride = 2});
    auto const flipped = image.slice(ferry::range_slice{.stride = -1}, ferry::range_slice{.first = 1});
    ferry::managed_tensor const copy =
        ferry::to_dlpack(columns, {.copy = ferry::copy_policy::always});
    auto const lent = ferry::borrow(flipped);  // for the duration of a call, without a copy
    // [/slice]
    assert(copy.view().extent(1) == 2 && sum(columns) == 18);
    assert(lent.dltensor()->strides[0] == -3 && flipped(0, 0) == 8);
    assert(mean(copy) == 4.5);

    // [constraints]
    std::int64_t const any_by_three[] = {ferry::constraints::any_extent, 3};
    ferry::constraints const wanted{.dtype = ferry::dtype_of<float>,
                                    .shape = any_by_three,
                                    .order = ferry::contiguity::row_major};
    bool const is_accepted = wanted.matches(tensor);  // wanted.check(tensor) throws an error with the reason
    // [/constraints]
    assert(is_accepted && !wanted.matches(copy.view()));
}
