#include <minitensor/ops/copy.hpp>
#include <minitensor/ops/create.hpp>

#include "strided.hpp"

#include <cstring>
#include <stdexcept>

namespace mt {

void fill(tensor const& t, number value) {
    if (t.readonly()) throw std::invalid_argument{"this tensor is read-only"};
    require_host(t, "fill");
    auto const type = t.dtype();
    auto const e = encode(type, value);
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
    require_host(t, "zeros");
    if (type.kind == kind::float8_e8m0fnu) {
        fill(t, 0.0);  // the format has no zero: its code 0 is a tiny number
    } else if (t.size() != 0) {
        std::memset(t.data(), 0, static_cast<std::size_t>(t.nbytes()));
    }
    return t;
}

tensor arange(std::int64_t n, dtype type, device where) {
    if (n < 0) throw std::invalid_argument{"arange needs a length that is not negative"};
    if (n > 0) static_cast<void>(encode(type, n - 1));  // does the last one fit?
    std::int64_t const shape[] = {n};
    tensor t{type, shape, where};
    require_host(t, "arange");
    if (n == 0) return t;
    static_cast<unsigned char*>(t.data())[t.nbytes() - 1] = 0;
    for (std::int64_t i = 0; i < n; ++i) store(type, t.data(), i * type.bits, encode(type, i));
    return t;
}

}  // namespace mt
