// The loops that bench/loops.py compares: by hand, and with typed views of ferry. NAME_by_hand is the peer of NAME.
// The peer of a call that throws is NAME_by_try.
#include <ferry/tensor/as.hpp>
#include <ferry/tensor/for_each.hpp>
#include <ferry/tensor/managed.hpp>
#include <ferry/tensor/typed_view.hpp>

#include <cstdint>

using ferry::access_from;
using ferry::layout;
using ferry::typed_view;
template <int Rank>
using compact = typed_view<float const, Rank, access_from::host, layout::contiguous>;
template <int Rank>
using strided = typed_view<float const, Rank>;

// The fields of a tensor that the loops by hand read.
struct raw_tensor {
    float* data;
    std::int64_t shape[3], strides[3];
};

extern "C" {

float contiguous_2d(compact<2> const& v) {
    float sum = 0;
    for (std::int64_t i = 0; i < v.extent(0); ++i)
        for (std::int64_t j = 0; j < v.extent(1); ++j) sum += v(i, j);
    return sum;
}
float contiguous_2d_by_hand(raw_tensor const& t) {
    float sum = 0;
    for (std::int64_t i = 0; i < t.shape[0]; ++i)
        for (std::int64_t j = 0; j < t.shape[1]; ++j) sum += t.data[i * t.shape[1] + j];
    return sum;
}

void contiguous_scale(typed_view<float, 2, access_from::host, layout::contiguous> const& v, float by) {
    for (std::int64_t i = 0; i < v.extent(0); ++i)
        for (std::int64_t j = 0; j < v.extent(1); ++j) v(i, j) *= by;
}
void contiguous_scale_by_hand(raw_tensor const& t, float by) {
    for (std::int64_t i = 0; i < t.shape[0]; ++i)
        for (std::int64_t j = 0; j < t.shape[1]; ++j) t.data[i * t.shape[1] + j] *= by;
}

float contiguous_3d(compact<3> const& v) {
    float sum = 0;
    for (std::int64_t i = 0; i < v.extent(0); ++i)
        for (std::int64_t j = 0; j < v.extent(1); ++j)
            for (std::int64_t k = 0; k < v.extent(2); ++k) sum += v(i, j, k);
    return sum;
}
float contiguous_3d_by_hand(raw_tensor const& t) {
    float sum = 0;
    for (std::int64_t i = 0; i < t.shape[0]; ++i)
        for (std::int64_t j = 0; j < t.shape[1]; ++j)
            for (std::int64_t k = 0; k < t.shape[2]; ++k) sum += t.data[(i * t.shape[1] + j) * t.shape[2] + k];
    return sum;
}

float strided_2d(strided<2> const& v) {
    float sum = 0;
    for (std::int64_t i = 0; i < v.extent(0); ++i)
        for (std::int64_t j = 0; j < v.extent(1); ++j) sum += v(i, j);
    return sum;
}
float strided_2d_by_hand(raw_tensor const& t) {
    float sum = 0;
    for (std::int64_t i = 0; i < t.shape[0]; ++i)
        for (std::int64_t j = 0; j < t.shape[1]; ++j) sum += t.data[i * t.strides[0] + j * t.strides[1]];
    return sum;
}

float range_for(strided<1> const& v) {
    float sum = 0;
    for (float const x : v) sum += x;
    return sum;
}
float range_for_by_hand(raw_tensor const& t) {
    float sum = 0;
    for (std::int64_t i = 0; i < t.shape[0]; ++i) sum += t.data[i * t.strides[0]];
    return sum;
}

float for_each_contiguous(compact<3> const& v) {
    float sum = 0;
    ferry::for_each(v, [&](float x) { sum += x; });
    return sum;
}
float for_each_contiguous_by_hand(raw_tensor const& t) {
    float sum = 0;
    std::int64_t const count = t.shape[0] * t.shape[1] * t.shape[2];
    for (std::int64_t i = 0; i < count; ++i) sum += t.data[i];
    return sum;
}

float as_2d(ferry::tensor_view const& v) { return ferry::as<float const, 2>(v)(0, 0); }
float as_2d_by_try(ferry::tensor_view const& v) {
    auto const typed = ferry::try_as<float const, 2>(v);
    return typed ? (*typed)(0, 0) : 0;
}

DLManagedTensor* release_legacy(ferry::managed_tensor& t) { return t.release_legacy(); }
DLManagedTensor* release_legacy_by_try(ferry::managed_tensor& t) {
    auto const raw = t.try_release_legacy();
    return raw ? *raw : nullptr;
}
}
