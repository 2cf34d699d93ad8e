// ferry: one foreign tensor, taken over by an array: what must hold whatever the tensor is.
#pragma once

#include <ferry/conformance/detail/foreign.hpp>
#include <ferry/conformance/detail/same.hpp>
#include <ferry/exchange/from_dlpack.hpp>

#include <utility>

namespace ferry::inline v0::conformance::detail {

/// The types and shapes that are offered to an adapter to find out what it takes at all.
inline constexpr data_type offered_types[] = {
    dtype_of<float>,          dtype_of<double>,        dtype_of<std::int8_t>,  dtype_of<std::int16_t>,
    dtype_of<std::int32_t>,   dtype_of<std::int64_t>,  dtype_of<std::uint8_t>, dtype_of<std::uint16_t>,
    dtype_of<std::uint32_t>,  dtype_of<std::uint64_t>, dtype_of<bool>,         {type_code::complex, 64},
    {type_code::complex, 128}};
/// And those that few arrays hold: they are refused, or kept as they are.
inline constexpr data_type odd_types[] = {
    {type_code::float_, 16},       {type_code::bfloat, 16},     {type_code::opaque_handle, 64},
    {type_code::float8_e4m3fn, 8}, {type_code::float8_e5m2, 8}, {type_code::float4_e2m1fn, 4},
    {type_code::int_, 4},          {type_code::float_, 32, 4},  {type_code::float_, 128}};

/// Nothing is pending on the tensor, wherever it says that it is, and no stream is asked for.
template <class Array>
[[nodiscard]] Array take_over(foreign& t) {
    return ferry::from_dlpack<Array>(ferry::from_dlpack(t.raw()), request{.stream = already_ready}, host_only,
                                     already_ready);
}

/// `adopt` refused by throwing: then the tensor must have been released, once.
[[nodiscard]] inline outcome judge_refusal(foreign const& t, message what) {
    if (t.releases() == 1) return not_applicable(what << ": adopt refuses it");
    return broken(what << ": adopt refused it, and its deleter ran " << t.releases() << " times, not once");
}

/// Imports `t`, lets `f(array)` judge the array while it lives, and counts the releases.
template <class Array, class F>
outcome import_one(foreign& t, message const& what, F f) {
    box<Array> a;
    if (!a.construct([&]() -> Array { return take_over<Array>(t); })) return judge_refusal(t, what);
    outcome const found = f(*a);
    if (found.found == verdict::broken) return found;
    bool const is_empty = t.tensor().is_empty();  // then there is nothing to keep
    if (t.releases() != 0 && !is_empty) return broken(message{what} << ": its deleter ran while the array was in use");
    a.destroy();
    if (t.releases() != 1)
        return broken(message{what} << ": its deleter ran " << t.releases()
                                    << " times when the array was gone, not once");
    return found.found == verdict::kept ? kept(what) : found;
}

/// The same, judged by the array's view: it must be the tensor, elements included.
template <class Array>
outcome import_same(foreign& t, message const& what) {
    tensor_view const wanted = t.tensor();
    return import_one<Array>(t, what, [&](Array& a) -> outcome {
        tensor_view const got = view_of(a);
        auto const same = same_tensor(got, wanted, what);
        if (same.found == verdict::broken || !can_read(got) || wanted.is_empty()) return same;
        return first_wrong(got, nullptr, t.period()) < 0
                   ? same
                   : broken(message{what} << ": its elements are not the tensor's");
    });
}

/// What the adapter is known to take: the first type and shape that it did not refuse.
struct taken {
    bool is_any = false;
    data_type type{};
    extents const* shape = nullptr;
};
template <class Array>
[[nodiscard]] taken find_taken() {
    for (auto const& type : offered_types)
        for (auto const* shape : {&filled[1], &filled[0], &filled[2], &scalar[0]}) {
            foreign t{type, *shape};
            box<Array> a;
            if (a.construct([&]() -> Array { return take_over<Array>(t); })) return {true, type, shape};
        }
    return {};
}

/// The tensor in words, for evidence.
[[nodiscard]] inline message told(char const* how, data_type type, shape_view shape) {
    message what{"a "};
    what << how << " tensor of type " << type << " and shape ";
    return detail::operator<<(what, shape);
}

/// Every shape, of the type that the adapter takes.
template <class Array, std::size_t N, class F>
outcome for_each_import(taken const& like, extents const (&shapes)[N], F f) {
    outcome found;
    if (!like.is_any) return not_applicable("adopt takes none of the tensors that it was offered");
    for (auto const& shape : shapes) add(found, f(like.type, shape));
    return found;
}

}  // namespace ferry::inline v0::conformance::detail
