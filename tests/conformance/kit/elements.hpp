// Arrays of one element type of the library: half precision, bfloat16, FP8, or a type that the kit cannot read.
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

/// A binary floating-point class of the library, which is not one of the standard library.
template <class Bits, ferry::type_code Code, int Mantissa, int Bias>
struct small_float {
    Bits bits{};
    static constexpr ferry::data_type type{Code, sizeof(Bits) * 8};
    /// Returns the representable value nearest to an integer from 0 to 24, found by a search of all values; that of 24
    /// for a larger integer, which occurs only in arrays whose elements the kit does not read.
    static small_float of(std::int64_t n) {
        static auto const table = [] {
            std::array<small_float, 25> all{};
            for (std::size_t i = 0; i < all.size(); ++i) {
                double nearest = 1e9;
                for (int code = 1 << Mantissa; code < 1 << (sizeof(Bits) * 8 - 1); ++code) {
                    double const value = std::ldexp(1 + std::fmod(code, 1 << Mantissa) / (1 << Mantissa),
                                                    (code >> Mantissa) - Bias);
                    double const distance = std::fabs(value - static_cast<double>(i));
                    if (distance < nearest) nearest = distance, all[i].bits = static_cast<Bits>(code);
                }
            }
            return all;
        }();
        return table[static_cast<std::size_t>(std::min<std::int64_t>(n, 24))];
    }
};
using half = small_float<std::uint16_t, ferry::type_code::float_, 10, 15>;
using brain = small_float<std::uint16_t, ferry::type_code::bfloat, 7, 127>;
using e4m3 = small_float<std::uint8_t, ferry::type_code::float8_e4m3fn, 3, 7>;
using e5m2 = small_float<std::uint8_t, ferry::type_code::float8_e5m2, 2, 15>;

/// An element whose value the kit does not know.
template <ferry::type_code Code, std::uint8_t Bits, std::uint16_t Lanes = 1>
struct opaque {
    static constexpr ferry::data_type type{Code, Bits, Lanes};
    std::byte bytes[(Bits * Lanes + 7) / 8]{};
    static opaque of(std::int64_t) { return {}; }
};
using quad = opaque<ferry::type_code::float_, 128>;
using vector = opaque<ferry::type_code::float_, 32, 4>;
using nibble = opaque<ferry::type_code::int_, 4>;

}  // namespace elements

template <class Bits, ferry::type_code Code, int Mantissa, int Bias>
struct ferry::dtype_traits<elements::small_float<Bits, Code, Mantissa, Bias>> {
    static constexpr data_type value = elements::small_float<Bits, Code, Mantissa, Bias>::type;
};

namespace elements {

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

/// An array of T of any rank; copies share the elements.
template <class T>
struct array {
    std::shared_ptr<void> owner;
    void* data = nullptr;
    std::vector<std::int64_t> shape, strides;
};

template <class T>
array<T> allocate(ferry::shape_view shape) {
    array<T> a;
    a.shape.assign(shape.begin(), shape.end());
    a.strides.resize(shape.size());
    ferry::fill_compact_strides(shape, a.strides.data());
    auto const memory = std::make_shared<storage>();
    a.data = memory->bytes;
    a.owner = memory;
    return a;
}

/// Returns arrays of one type, which is not an argument.
template <class T>
struct maker {
    array<T> operator()(ferry::shape_view shape) const {
        auto a = allocate<T>(shape);
        std::int64_t count = ferry::is_packed(T::type) ? 0 : 1;
        for (auto const extent : shape) count *= extent;
        for (std::int64_t i = 0; i < count; ++i) {
            T const value = T::of(now == fault::values_reversed ? count - i : i + 1);
            std::memcpy(static_cast<std::byte*>(a.data) + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
        }
        return a;
    }
};

/// Returns arrays whose type is an argument; the library has one type only.
template <class T>
struct typed_maker {
    array<T> operator()(ferry::shape_view shape, ferry::data_type type) const {
        if (type != T::type) throw std::invalid_argument{"the library has no such type"};
        return maker<T>{}(shape);
    }
};

}  // namespace elements

template <class T>
struct ferry::array_traits<elements::array<T>> {
    using array = elements::array<T>;
    using fault = elements::fault;
    static bool is(fault f) { return elements::now == f; }

    static tensor_view view(array const& a) {
        static thread_local std::int64_t in_bytes[8];
        auto type = T::type;
        strides_view strides = a.strides;
        if (is(fault::type_as_integer)) type.code = type_code::uint;
        if (is(fault::type_of_other_half))
            type.code = type.code == type_code::bfloat ? type_code::float_ : type_code::bfloat;
        if (is(fault::strides_in_bytes)) {
            for (std::size_t i = 0; i < a.strides.size(); ++i)
                in_bytes[i] = a.strides[i] * static_cast<std::int64_t>(sizeof(T));
            strides = {in_bytes, strides.rank()};
        }
        return {a.data, type, a.shape, strides};
    }
    static constexpr bool vector_elements = T::type.lanes != 1;
    static array share(array const& a) { return a; }
    static array adopt(managed_tensor m) {
        auto const v = m.view();
        if (is(fault::adopt_nothing)) throw std::runtime_error{"the library accepts nothing"};
        if (v.dtype() != T::type && !is(fault::adopt_any_type))
            throw std::invalid_argument{"expected elements of the type of the library"};
        if (v.is_read_only() || v.device() != cpu)
            throw std::invalid_argument{"expected writable elements in host memory"};
        array a;
        a.data = v.data();
        a.shape.assign(v.shape().begin(), v.shape().end());
        for (int i = 0; i < v.rank(); ++i) a.strides.push_back(v.stride(i));
        if (is(fault::adopt_without_strides)) ferry::fill_compact_strides(v.shape(), a.strides.data());
        if (is(fault::adopt_copies)) return elements::allocate<T>(v.shape());
        a.owner = std::make_shared<managed_tensor>(std::move(m));
        return a;
    }
    static array allocate(data_type type, shape_view shape, device dev) {
        if (type != T::type || dev != cpu) throw std::invalid_argument{"expected the type of the library on the host"};
        return elements::allocate<T>(shape);
    }
};
