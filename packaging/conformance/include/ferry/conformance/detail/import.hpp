// ferry: the import of one foreign tensor into an array, and the checks that every import must pass.
#pragma once

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/conformance/detail/foreign.hpp>
#include <ferry/conformance/detail/same.hpp>
#include <ferry/exchange/from_dlpack.hpp>

#include <utility>

namespace FERRY_NAMESPACE::conformance::detail {

/// Data types that the kit offers to `adopt`, which must either throw or preserve the type. The kit cannot read the
/// elements of the last five.
// clang-format off
inline constexpr data_type offered_types[] = {
    dtype_of<float>, dtype_of<double>, {type_code::float_, 16}, {type_code::bfloat, 16}, {type_code::float8_e4m3fn, 8},
    {type_code::float8_e5m2, 8}, dtype_of<std::int8_t>, dtype_of<std::int16_t>, dtype_of<std::int32_t>,
    dtype_of<std::int64_t>, dtype_of<std::uint8_t>, dtype_of<std::uint16_t>, dtype_of<std::uint32_t>,
    dtype_of<std::uint64_t>, dtype_of<bool>, {type_code::complex, 64}, {type_code::complex, 128},
    {type_code::opaque_handle, 64}, {type_code::float4_e2m1fn, 4}, {type_code::int_, 4}, {type_code::float_, 32, 4},
    {type_code::float_, 128}};
// clang-format on

/// Imports `t` as a tensor without pending work.
template <class Array>
[[nodiscard]] Array import_foreign(foreign& t) {
    return ferry::from_dlpack<Array>(ferry::from_dlpack(t.raw()), request{.stream = already_ready}, host_only,
                                     already_ready);
}

template <class Array>
[[nodiscard]] bool construct_from(foreign& t, box<Array>& a) {
    return a.construct([&]() -> Array { return import_foreign<Array>(t); });
}

/// Checks that the tensor has been released exactly once after `adopt` threw.
[[nodiscard]] inline outcome check_refusal(foreign const& t, message what) {
    if (t.releases() == 1) return not_applicable(what << ": adopt throws");
    return broken(what << ": adopt threw, and the tensor's deleter ran " << t.releases() << " times, expected once");
}

/// Imports `t`, calls `f(array)`, destroys the array, and checks the number of calls to the deleter.
template <class Array, class F>
outcome import_one(foreign& t, message const& what, F f) {
    box<Array> a;
    if (!construct_from(t, a)) return check_refusal(t, what);
    outcome const found = f(*a);
    if (found.found == verdict::broken) return found;
    bool const is_empty = t.tensor().is_empty();  // an empty tensor may be released early
    if (t.releases() != 0 && !is_empty)
        return broken(message{what} << ": its deleter ran during the lifetime of the array");
    a.destroy();
    if (t.releases() != 1)
        return broken(message{what} << ": its deleter ran " << t.releases()
                                    << " times after the array was destroyed, expected once");
    return found.found == verdict::kept ? kept(what) : found;
}

/// Imports `t` and checks that the array's view equals the tensor, elements included.
template <class Array>
outcome import_same(foreign& t, message const& what) {
    tensor_view const wanted = t.tensor();
    return import_one<Array>(t, what, [&](Array& a) -> outcome {
        tensor_view const& got = view_of(a);
        auto const same = same_tensor(got, wanted, what);
        if (same.found == verdict::broken || !can_read(got) || wanted.is_empty()) return same;
        return first_mismatch(got, nullptr, t.period()) < 0
                   ? same
                   : broken(message{what} << ": its elements differ from the tensor's");
    });
}

/// The first data type and shape that the adapter accepts, and the device of the imported array.
struct accepted {
    bool is_any = false;
    data_type type{};
    extents shape{};
    device dev{};
};
/// Finds a type and shape that `adopt` accepts for tensors on a device. Tries the type of the maker's arrays first.
template <class Array>
[[nodiscard]] accepted find_accepted(produced const& like, device on = cpu) {
    accepted found;
    auto const offer = [&](data_type type, extents const& shape) {
        if (found.is_any || !fits_sample(type, shape)) return;
        foreign t{type, shape};
        t.on(on, t.raw()->dl_tensor.data);
        box<Array> a;
        if (construct_from(t, a)) found = {true, type, shape, view_of(*a).device()};
    };
    auto const offer_shapes = [&](data_type type) {
        for (auto const* shape : {&filled[1], &filled[0], &filled[2], &scalar[0]}) offer(type, *shape);
        if (like.is_any) offer(type, like.shape);
    };
    if (like.is_any) offer_shapes(like.type);
    for (auto const& type : offered_types) offer_shapes(type);
    return found;
}

/// Describes a tensor for the evidence of a finding.
[[nodiscard]] inline message describe(char const* how, data_type type, shape_view shape) {
    message what{"a "};
    what << how << " tensor of type " << type << " and shape ";
    return detail::operator<<(what, shape);
}

/// Calls `f` for each shape, with the data type that the adapter accepts; if the shapes are `filled`, also for the
/// shape that the adapter accepts.
template <class Array, std::size_t N, class F>
outcome for_each_import(accepted const& like, extents const (&shapes)[N], F f) {
    outcome found;
    if (!like.is_any) return not_applicable("adopt throws for every tensor of the kit");
    for (auto const& shape : shapes) add(found, f(like.type, shape));
    if (&shapes[0] == &filled[0]) add(found, f(like.type, like.shape));
    return found;
}

}  // namespace FERRY_NAMESPACE::conformance::detail
