// Arrays of a library with one element type: half precision, bfloat16, FP8, or a type that the kit cannot read.
#pragma once

#include <ferry/base/shape.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/to_dlpack.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace elements {

/// The element type of the library, a run-time value: the kit is compiled once for all types without lanes.
struct format {
    ferry::data_type type;
    std::array<std::uint16_t, 25> codes{};  ///< of the integers from 0 to 24; zeros if the kit does not know the values

    /// Returns the size of an element in bytes; that of a packed element, rounded up.
    std::size_t size() const { return (static_cast<std::size_t>(type.bits) * type.lanes + 7) / 8; }

    /// Copies the value that represents n to the i-th element; 24 for a larger integer, which occurs only in arrays
    /// whose elements the kit does not read.
    void write(void* data, std::int64_t i, std::int64_t n) const {
        auto const code = codes[static_cast<std::size_t>(std::min<std::int64_t>(n, 24))];
        auto* const at = static_cast<std::byte*>(data) + static_cast<std::size_t>(i) * size();
        std::memset(at, 0, size());
        if (size() == 1) *at = static_cast<std::byte>(code);
        if (size() == 2) std::memcpy(at, &code, 2);
    }
};

/// Returns a binary floating-point type; the representable values nearest to integers are found by a search of all
/// values.
inline format small_float(ferry::type_code code_of_type, std::uint8_t bits, int mantissa, int bias) {
    format made{{code_of_type, bits}};
    std::array<double, 25> nearest;
    nearest.fill(1e9);
    for (int code = 1 << mantissa; code < 1 << (bits - 1); ++code) {
        double const value =
            std::ldexp(1 + std::fmod(code, 1 << mantissa) / (1 << mantissa), (code >> mantissa) - bias);
        for (std::size_t i = 0; i < nearest.size(); ++i) {
            double const distance = std::fabs(value - static_cast<double>(i));
            if (distance < nearest[i]) nearest[i] = distance, made.codes[i] = static_cast<std::uint16_t>(code);
        }
    }
    return made;
}
inline format const half = small_float(ferry::type_code::float_, 16, 10, 15);
inline format const brain = small_float(ferry::type_code::bfloat, 16, 7, 127);
inline format const e4m3 = small_float(ferry::type_code::float8_e4m3fn, 8, 3, 7);
inline format const e5m2 = small_float(ferry::type_code::float8_e5m2, 8, 2, 15);

// Elements whose values the kit does not know.
inline format const quad{{ferry::type_code::float_, 128}};
inline format const vector{{ferry::type_code::float_, 32, 4}};
inline format const nibble{{ferry::type_code::int_, 4}};

/// The only element type of the library; a test sets it.
inline format const* only = &half;

enum class fault {
    none,
    type_as_integer,
    type_of_other_half,
    strides_in_bytes,
    adopt_any_type,
    adopt_copies,
    adopt_without_strides,
    adopt_nothing,
    values_reversed,
};
inline fault now = fault::none;

/// Memory larger than an array, because faulty strides refer to elements beyond it.
struct storage {
    alignas(64) std::byte bytes[8192]{};
};

/// An array of any rank; copies share the elements. Lanes states whether an element has several.
template <bool Lanes>
struct array {
    std::shared_ptr<void> owner;
    void* data = nullptr;
    std::vector<std::int64_t> shape, strides;
};

template <bool Lanes>
array<Lanes> allocate(ferry::shape_view shape) {
    array<Lanes> a;
    a.shape.assign(shape.begin(), shape.end());
    a.strides.resize(shape.size());
    ferry::fill_compact_strides(shape, a.strides.data());
    auto const memory = std::make_shared<storage>();
    a.data = memory->bytes;
    a.owner = memory;
    return a;
}

/// Returns arrays of one type, which is not an argument.
template <bool Lanes = false>
struct maker {
    array<Lanes> operator()(ferry::shape_view shape) const {
        auto a = allocate<Lanes>(shape);
        std::int64_t count = ferry::is_packed(only->type) ? 0 : 1;
        for (auto const extent : shape) count *= extent;
        for (std::int64_t i = 0; i < count; ++i)
            only->write(a.data, i, now == fault::values_reversed ? count - i : i + 1);
        return a;
    }
};

/// Returns arrays whose type is an argument; the library has one type only.
template <bool Lanes = false>
struct typed_maker {
    array<Lanes> operator()(ferry::shape_view shape, ferry::data_type type) const {
        if (type != only->type) throw std::invalid_argument{"the library has no such type"};
        return maker<Lanes>{}(shape);
    }
};

}  // namespace elements

template <bool Lanes>
struct ferry::array_traits<elements::array<Lanes>> {
    using array = elements::array<Lanes>;
    using fault = elements::fault;
    static bool is(fault f) { return elements::now == f; }

    static tensor_view view(array const& a) {
        static thread_local std::int64_t in_bytes[8];
        auto type = elements::only->type;
        strides_view strides = a.strides;
        if (is(fault::type_as_integer)) type.code = type_code::uint;
        if (is(fault::type_of_other_half))
            type.code = type.code == type_code::bfloat ? type_code::float_ : type_code::bfloat;
        if (is(fault::strides_in_bytes)) {
            for (std::size_t i = 0; i < a.strides.size(); ++i)
                in_bytes[i] = a.strides[i] * static_cast<std::int64_t>(elements::only->size());
            strides = {in_bytes, strides.rank()};
        }
        return {a.data, type, a.shape, strides};
    }
    static constexpr bool vector_elements = Lanes;
    static array share(array const& a) { return a; }
    static array adopt(managed_tensor m) {
        auto const v = m.view();
        if (is(fault::adopt_nothing)) throw std::runtime_error{"the library accepts nothing"};
        if (v.dtype() != elements::only->type && !is(fault::adopt_any_type))
            throw std::invalid_argument{"expected elements of the type of the library"};
        if (v.is_read_only() || v.device() != cpu)
            throw std::invalid_argument{"expected writable elements in host memory"};
        array a;
        a.data = v.writable_data();
        a.shape.assign(v.shape().begin(), v.shape().end());
        for (int i = 0; i < v.rank(); ++i) a.strides.push_back(v.stride(i));
        if (is(fault::adopt_without_strides)) ferry::fill_compact_strides(v.shape(), a.strides.data());
        if (is(fault::adopt_copies)) return elements::allocate<Lanes>(v.shape());
        a.owner = std::make_shared<managed_tensor>(std::move(m));
        return a;
    }
    static array allocate(data_type type, shape_view shape, device dev) {
        if (type != elements::only->type || dev != cpu)
            throw std::invalid_argument{"expected the type of the library on the host"};
        return elements::allocate<Lanes>(shape);
    }
};
