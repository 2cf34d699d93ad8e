#include <minitensor/ops/copy.hpp>
#include <minitensor/ops/create.hpp>

#include "cuda.hpp"
#include "strided.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace mt {

namespace {

/// Compact memory on a GPU filled with one element: the first by upload, then doubled.
void fill_compact(tensor const& t, element const& e, stream const& s) {
    auto const all = static_cast<std::size_t>(t.nbytes());
    auto const type = t.dtype();
    // Elements of 6 bits fill whole bytes in fours.
    std::size_t done = type.packed() ? 3 : static_cast<std::size_t>(type.bits) / 8;
    std::array<unsigned char, 16> first = e;
    if (type.packed()) {
        first = {};
        for (std::int64_t bit = 0; bit + type.bits <= 24; bit += type.bits) store(type, first.data(), bit, e);
    }
    if (std::all_of(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(done), [&](auto b) { return b == first[0]; })) {
        return cuda::set(t.data(), first[0], all, s);
    }
    done = std::min(done, all);
    cuda::upload(t.data(), first.data(), done, s);
    auto* const to = static_cast<unsigned char*>(t.data());
    for (; done < all; done *= 2) cuda::copy(to + done, to, std::min(done, all - done), s);
}

/// The same elements with every stride positive: in which order they are filled does not matter.
tensor forwards(tensor const& t) {
    std::int64_t offset = 0;
    auto strides = t.strides();
    for (std::size_t i = 0; i < t.ndim(); ++i) {
        if (strides[i] >= 0) continue;
        offset += (t.shape()[i] - 1) * strides[i];
        strides[i] = -strides[i];
    }
    return t.restrided(offset, t.shape(), std::move(strides), false);
}

void fill_queued(tensor const& t, element const& e) {
    if (t.size() == 0) return;
    bool const whole = t.contiguous() && t.size() * t.itemsize_bits() % 8 == 0;
    tensor const compact = whole ? t : tensor{t.dtype(), t.shape(), t.device()};
    auto const s = current_stream(t.device());
    compact.line()->continue_on(s);
    fill_compact(compact, e, s);
    if (!whole) detail::copy_queued(t.dtype().packed() ? t : forwards(t), compact, !t.dtype().packed());
}

}  // namespace

void fill(tensor const& t, number value) {
    if (t.readonly()) throw std::invalid_argument{"this tensor is read-only"};
    auto const type = t.dtype();
    auto const e = encode(type, value);
    if (detail::is_queued(t)) return fill_queued(t, e);
    static_cast<void>(on_host(t));  // what is pending on it is done
    if (t.ndim() == 0) return store(type, t.data(), 0, e);
    auto const step = t.shape().back() > 1 ? t.strides().back() * type.bits : 0;
    detail::for_each_row(t.shape(), t.strides(), t.strides(),
                         [&](std::int64_t a, std::int64_t, std::int64_t n) {
                             auto const first = a * type.bits;
                             for (std::int64_t i = 0; i < n; ++i)
                                 store(type, t.data(), first + i * step, e);
                         });
}

tensor zeros(dtype type, std::vector<std::int64_t> shape, device where) {
    tensor t{type, std::move(shape), where};
    if (type.kind == kind::float8_e8m0fnu) {
        fill(t, 0.0);  // the format has no zero: its code 0 is a tiny number
    } else if (t.size() != 0 && detail::is_queued(t)) {
        auto const s = current_stream(t.device());
        t.line()->continue_on(s);
        cuda::set(t.data(), 0, static_cast<std::size_t>(t.nbytes()), s);
    } else if (t.size() != 0) {
        std::memset(t.data(), 0, static_cast<std::size_t>(t.nbytes()));
    }
    return t;
}

tensor arange(std::int64_t n, dtype type, device where) {
    if (n < 0) throw std::invalid_argument{"arange needs a length that is not negative"};
    if (n > 0) static_cast<void>(encode(type, n - 1));  // does the last one fit?
    std::int64_t const shape[] = {n};
    tensor const t{type, shape, where};
    if (n == 0) return t;
    tensor const near = detail::is_queued(t) ? tensor{type, shape} : t;
    static_cast<unsigned char*>(near.data())[near.nbytes() - 1] = 0;
    for (std::int64_t i = 0; i < n; ++i) store(type, near.data(), i * type.bits, encode(type, i));
    if (detail::is_queued(t)) detail::copy_queued(t, near);
    return t;
}

}  // namespace mt
