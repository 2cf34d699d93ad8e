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

/// Fills compact memory on a GPU with one element: uploads the first, then doubles the filled part.
void fill_compact(tensor const& t, element const& e, stream const& s) {
    auto const all = static_cast<std::size_t>(t.nbytes());
    auto const type = t.dtype();
    // Four elements of 6 bits fill three bytes.
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

/// Returns the same elements with positive strides; the order of a fill does not matter.
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

struct loop {
    std::int64_t extent, stride;  // in bytes
};

/// The loops over a tensor with positive strides: largest strides first, merged where possible.
std::vector<loop> loops_of(tensor const& t) {
    auto const bytes = static_cast<std::int64_t>(t.dtype().bits) / 8;
    std::vector<loop> all, few;
    for (std::size_t i = 0; i < t.ndim(); ++i) {
        if (t.shape()[i] > 1 && t.strides()[i] != 0) all.push_back({t.shape()[i], t.strides()[i] * bytes});
    }
    std::sort(all.begin(), all.end(), [](loop const& a, loop const& b) { return a.stride > b.stride; });
    for (auto const& l : all) {
        if (!few.empty() && few.back().stride == l.extent * l.stride) few.back() = {few.back().extent * l.extent, l.stride};
        else few.push_back(l);
    }
    return few;
}

/// Fills strided elements of whole bytes: a compact copy of the innermost loops is copied to each position.
void fill_strided(tensor const& t, element const& e, stream const& s) {
    auto const size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    auto const bytes = static_cast<std::int64_t>(t.dtype().bits) / 8;
    auto loops = loops_of(t);
    auto const take = [&] {
        auto const last = loops.back();
        loops.pop_back();
        return last;
    };
    std::int64_t width = bytes;
    if (!loops.empty() && loops.back().stride == bytes) width *= take().extent;
    cuda::box box{size(width), 1, 1, size(width), 1};
    if (!loops.empty() && loops.back().stride >= width && size(loops.back().stride) <= cuda::most_pitch) {
        auto const rows = take();
        box.rows = box.slice = size(rows.extent);
        box.pitch = size(rows.stride);
        if (!loops.empty() && loops.back().stride % rows.stride == 0 && loops.back().stride / rows.stride >= rows.extent) {
            auto const slices = take();
            box.slices = size(slices.extent);
            box.slice = size(slices.stride / rows.stride);
        }
    }
    auto const pieces = static_cast<std::int64_t>(box.rows * box.slices);
    std::int64_t const shape[] = {width / bytes * pieces};
    tensor const compact{t.dtype(), shape, {device::cuda, s.device}};  // freed in stream order after the copies
    compact.line()->continue_on(s);
    fill_compact(compact, e, s);
    auto* to = static_cast<unsigned char*>(t.data());
    std::vector<std::int64_t> at(loops.size(), 0);
    for (;;) {
        if (pieces == 1) cuda::copy(to, compact.data(), box.width, s);
        else cuda::spread(to, compact.data(), box, s);
        auto i = loops.size();
        for (; i > 0; --i) {
            auto const& l = loops[i - 1];
            to += l.stride;
            if (++at[i - 1] < l.extent) break;
            to -= l.stride * l.extent;
            at[i - 1] = 0;
        }
        if (i == 0) return;
    }
}

void fill_queued(tensor const& t, element const& e) {
    if (t.size() == 0) return;
    auto const s = current_stream(t.device());
    t.line()->continue_on(s);
    if (t.contiguous() && t.size() * t.itemsize_bits() % 8 == 0) return fill_compact(t, e, s);
    if (!t.dtype().packed()) return fill_strided(forwards(t), e, s);
    tensor const compact{t.dtype(), t.shape(), t.device()};
    compact.line()->continue_on(s);
    fill_compact(compact, e, s);
    detail::copy_queued(t, compact, false);
}

}  // namespace

void fill(tensor const& t, number value) {
    if (t.readonly()) throw std::invalid_argument{"this tensor is read-only"};
    auto const type = t.dtype();
    auto const e = encode(type, value);
    if (detail::is_queued(t)) return fill_queued(t, e);
    static_cast<void>(on_host(t));  // waits for pending work
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
        fill(t, 0.0);  // the format has no zero: its code 0 is a small number
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
    if (n < 0) throw std::invalid_argument{"arange: expected a length of 0 or more"};
    if (n > 0) static_cast<void>(encode(type, n - 1));  // throws if the last element does not fit
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
