// Adapters, from the minimal one of two lines to one with all functions of ferry::array_traits.
#include <ferry/ferry.hpp>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#undef NDEBUG  // the program is a test
#include <cassert>

// [member]
// A type with a member function ferry_view needs no specialisation.
struct samples {
    std::vector<double> values;
    std::int64_t count = static_cast<std::int64_t>(values.size());

    ferry::tensor_view ferry_view() { return {values.data(), {&count, 1}}; }
    ferry::tensor_view ferry_view() const { return {values.data(), {&count, 1}}; }
};
// [/member]

struct matrix {
    std::shared_ptr<void> owner;
    float* data;
    std::vector<std::int64_t> shape, strides;
};

template <>
struct ferry::array_traits<matrix> {
    // [view]
    static tensor_view view(matrix& m) { return {m.data, m.shape, m.strides}; }
    static tensor_view view(matrix const& m) { return {static_cast<float const*>(m.data), m.shape, m.strides}; }
    // [/view]
    // [share]
    static matrix share(matrix const& m) { return m; }  // increments a reference count, copies no elements
    // [/share]
    // [adopt]
    static matrix adopt(managed_tensor t) {
        auto const elements = t.as<float>();  // throws for another type, read-only or device memory
        auto const v = t.view();
        std::vector<std::int64_t> shape, strides;
        for (int i = 0; i < v.rank(); ++i) {
            shape.push_back(v.extent(i));
            strides.push_back(v.stride(i));
        }
        return {std::make_shared<managed_tensor>(std::move(t)), elements.data(), std::move(shape), std::move(strides)};
    }
    // [/adopt]
};

// [lend]
// A function of another library that reads a tensor during the call and does not store it.
double sum(DLTensor const* t);

double sum_of(samples const& s) {
    auto const lent = ferry::borrow(s);  // allocates nothing, owns nothing
    return sum(lent.dltensor());
}
// [/lend]

double sum(DLTensor const* t) {
    ferry::validate(*t);
    auto const values = ferry::as<double const, 1>(ferry::tensor_view{*t, ferry::flags::none});
    double total = 0;
    for (std::int64_t i = 0; i < values.extent(0); ++i) total += values(i);
    return total;
}

int main() {
    samples const mine{{1, 2, 3.5}};
    assert(sum_of(mine) == 6.5);

    auto numbers = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4, 5, 6});
    matrix m{numbers, numbers->data(), {2, 3}, {3, 1}};

    // [exchange]
    ferry::managed_tensor out = ferry::to_dlpack(m);                   // share: the tensor holds another handle
    matrix back = ferry::from_dlpack<matrix>(std::move(out));          // adopt: the same memory
    matrix copy = ferry::from_dlpack<matrix>(m, {.copy = ferry::copy_policy::always});
    // [/exchange]
    assert(back.data == m.data && copy.data != m.data && copy.data[5] == 6);

    try {
        static_cast<void>(ferry::from_dlpack<matrix>(std::as_const(mine), {.copy = ferry::copy_policy::always}));
        assert(false);
    } catch (ferry::error const& e) {
        assert(e.code() == ferry::errc::dtype);
    }
}
