// Requirements that are known at run time.
#include <ferry/tensor/constraints.hpp>

#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

using ferry::constraints;
using ferry::contiguity;
using ferry::device;
using ferry::device_type;
using ferry::dtype_of;
using ferry::errc;
using ferry::tensor_view;

namespace {

float data[24] = {};
std::int64_t const two_by_three[] = {2, 3}, columns[] = {1, 2}, rows_apart[] = {4, 1};

/// Checks that matches(), check() and try_check() refuse a view.
void refuses(constraints const& c, tensor_view const& v, errc code, std::initializer_list<char const*> texts) {
    CHECK_FALSE(c.matches(v));
    support::both_fail(
        code, [&] { c.check(v); }, [&] { return c.try_check(v); }, texts);
}

void accepts(constraints const& c, tensor_view const& v) {
    CHECK(c.matches(v));
    CHECK(c.try_check(v).has_value());
    c.check(v);
}

}  // namespace

TEST_CASE("constraints without members accept every tensor") {
    accepts({}, {});
    accepts({}, tensor_view{data, two_by_three, rows_apart, {device_type::cuda, 3}}.as_read_only());
}

TEST_CASE("each member of constraints is a requirement, and its error contains both values and the fix") {
    tensor_view const v{data, two_by_three};
    std::int64_t const three[] = {3}, two_by_any[] = {2, constraints::any_extent}, two_by_four[] = {2, 4};
    accepts({.dtype = dtype_of<float>}, v);
    refuses({.dtype = dtype_of<double>}, v, errc::dtype,
            {"ferry::constraints::check", "dtype is float32, expected float64", "convert"});
    accepts({.rank = 2}, v);
    accepts({.rank = 0}, {});
    refuses({.rank = 3}, v, errc::rank, {"rank is 2, expected 3", "reshape"});
    refuses({.rank = 0}, v, errc::rank, {"rank is 2, expected 0"});
    accepts({.shape = two_by_three}, v);
    accepts({.shape = two_by_any}, v);
    refuses({.shape = two_by_four}, v, errc::shape, {"shape[1] is 3, expected 4", "slice"});
    refuses({.shape = three}, v, errc::rank, {"rank is 2, expected 1"});
    accepts({.device = device_type::cpu}, v);
    refuses({.device = device_type::cpu}, {data, two_by_three, {}, device{device_type::cuda, 1}}, errc::device,
            {"cuda:1", "expected cpu", "copy"});
    accepts({.is_writable = true}, v);
    refuses({.is_writable = true}, v.as_read_only(), errc::read_only, {"(R11)", "copy_policy::always"});
}

TEST_CASE("R29: constraints with is_writable refuse elements that a stride of 0 repeats") {
    std::int64_t const repeated[] = {0, 1}, none_by_three[] = {0, 3}, one_by_three[] = {1, 3};
    tensor_view const v{data, two_by_three, repeated};
    accepts({}, v);
    refuses({.is_writable = true}, v, errc::strides, {"dimension 0 has stride 0", "(R29)", "copy_policy::always"});
    refuses({.is_writable = true}, v.as_read_only(), errc::read_only, {"(R11)"});
    accepts({.is_writable = true}, {data, one_by_three, repeated});   // R27
    accepts({.is_writable = true}, {data, none_by_three, repeated});  // R26
}

TEST_CASE("constraints state the order of the elements") {
    tensor_view const row_major{data, two_by_three}, column_major{data, two_by_three, columns},
        padded{data, two_by_three, rows_apart};
    accepts({.order = contiguity::row_major}, row_major);
    accepts({.order = contiguity::column_major}, column_major);
    accepts({.order = contiguity::either}, row_major);
    accepts({.order = contiguity::either}, column_major);
    accepts({.order = contiguity::any}, padded);
    refuses({.order = contiguity::row_major}, column_major, errc::strides, {"not contiguous in row-major order"});
    refuses({.order = contiguity::column_major}, row_major, errc::strides, {"not contiguous in column-major order"});
    refuses({.order = contiguity::either}, padded, errc::strides, {"in row-major or column-major order"});
}

TEST_CASE("R24, R26, R27: both orders ignore strides of extent 1 and of empty tensors, and null strides are row-major") {
    std::int64_t const line[] = {1, 5}, empty[] = {2, 0}, odd[] = {77, 1}, garbage[] = {9, 9};
    CHECK(tensor_view{data, line}.is_contiguous(contiguity::column_major));
    CHECK(tensor_view{data, line, odd}.is_contiguous(contiguity::column_major));
    CHECK(tensor_view{data, empty, garbage}.is_contiguous(contiguity::column_major));
    CHECK_FALSE(tensor_view{data, two_by_three}.is_contiguous(contiguity::column_major));
    CHECK(tensor_view{}.is_contiguous(contiguity::column_major));
}

TEST_CASE("the error of constraints has the location of the call") {
    auto const r = constraints{.rank = 1}.try_check({});
    CHECK(r.error().where().line() == __LINE__ - 1);
    CHECK(std::string{r.error().where().file_name()} == __FILE__);
}
