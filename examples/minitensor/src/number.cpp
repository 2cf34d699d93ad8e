#include <minitensor/number.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace mt {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are little-endian");

// How a format represents infinity and NaN.
enum class special : std::uint8_t {
    ieee,       // the largest exponent is reserved for them
    nan_only,   // "fn": all ones is NaN, no infinity
    unsigned_,  // "fnuz": no −0, whose code is the only NaN; no infinity
    none,       // neither
};

/// A float format with a sign bit, `exponent` bits and `mantissa` bits.
struct format {
    int exponent;
    int mantissa;
    int bias;
    special specials;

    [[nodiscard]] unsigned sign_bit() const noexcept { return 1u << (exponent + mantissa); }
    [[nodiscard]] unsigned largest() const noexcept {
        unsigned const all = sign_bit() - 1;
        if (specials == special::ieee) return all - (1u << mantissa);  // the code below infinity
        return specials == special::nan_only ? all - 1 : all;
    }
};

format format_of(dtype type) {
    switch (type.kind) {
        case kind::float_:
        case kind::complex: return {5, 10, 15, special::ieee};  // two halves; wider complex types are those of C++
        case kind::bfloat: return {8, 7, 127, special::ieee};
        case kind::float8_e3m4: return {3, 4, 3, special::ieee};
        case kind::float8_e4m3: return {4, 3, 7, special::ieee};
        case kind::float8_e4m3b11fnuz: return {4, 3, 11, special::unsigned_};
        case kind::float8_e4m3fn: return {4, 3, 7, special::nan_only};
        case kind::float8_e4m3fnuz: return {4, 3, 8, special::unsigned_};
        case kind::float8_e5m2: return {5, 2, 15, special::ieee};
        case kind::float8_e5m2fnuz: return {5, 2, 16, special::unsigned_};
        case kind::float6_e2m3fn: return {2, 3, 1, special::none};
        case kind::float6_e3m2fn: return {3, 2, 3, special::none};
        case kind::float4_e2m1fn: return {2, 1, 1, special::none};
        default: throw std::invalid_argument{name(type) + " is not a small float format"};
    }
}

double decode_float(format f, unsigned code) {
    double const sign = (code & f.sign_bit()) != 0 ? -1.0 : 1.0;
    double const nan = std::numeric_limits<double>::quiet_NaN();
    if (f.specials == special::unsigned_ && code == f.sign_bit()) return nan;
    unsigned const magnitude = code & (f.sign_bit() - 1);
    unsigned const mantissa = magnitude & ((1u << f.mantissa) - 1);
    int const exponent = static_cast<int>(magnitude >> f.mantissa);
    if (magnitude > f.largest()) {
        bool const infinite = f.specials == special::ieee && mantissa == 0;
        return std::copysign(infinite ? std::numeric_limits<double>::infinity() : nan, sign);
    }
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - f.bias - f.mantissa);
    return sign * std::ldexp(mantissa + (1u << f.mantissa), exponent - f.bias - f.mantissa);
}

unsigned encode_float(format f, double x) {
    unsigned const sign = std::signbit(x) ? f.sign_bit() : 0;
    unsigned const infinity = f.largest() + 1;  // if the format has infinity
    if (std::isnan(x)) {
        switch (f.specials) {
            case special::ieee: return sign | infinity | (1u << (f.mantissa - 1));
            case special::nan_only: return sign | (f.sign_bit() - 1);
            case special::unsigned_: return f.sign_bit();
            case special::none: return sign ^ f.sign_bit();  // zero, like ml_dtypes
        }
    }
    unsigned code = infinity;
    if (std::isfinite(x) && x != 0) {
        int const smallest = 1 - f.bias;
        int const exponent = std::max(std::ilogb(x), smallest);
        if (exponent <= f.bias + 1) {
            // In units of the last place: exact, then rounded once. A carry increments the exponent,
            // which is correct.
            auto const units = static_cast<unsigned>(
                std::nearbyint(std::ldexp(std::fabs(x), f.mantissa - exponent)));
            code = (static_cast<unsigned>(exponent - smallest) << f.mantissa) + units;
        }
    } else if (x == 0) {
        code = 0;
    }
    if (code > f.largest()) {
        switch (f.specials) {
            case special::ieee: return sign | infinity;
            case special::nan_only: return sign | (f.sign_bit() - 1);
            case special::unsigned_: return f.sign_bit();
            case special::none: code = f.largest(); break;
        }
    }
    if (code == 0 && f.specials == special::unsigned_) return 0;
    return sign | code;
}

// float8_e8m0fnu: a power of two, 2^(code − 127), and 255 for NaN. No sign, no zero.
double decode_power(unsigned code) {
    if (code == 0xff) return std::numeric_limits<double>::quiet_NaN();
    return std::ldexp(1.0, static_cast<int>(code) - 127);
}

unsigned encode_power(double x) {
    if (!(x > 0) || std::isinf(x)) return 0xff;
    int const exponent = std::max(std::ilogb(x), -127);
    if (exponent > 127) return 0xff;
    bool const up = std::ldexp(x, -exponent) >= 1.5;
    return static_cast<unsigned>(exponent + 127) + (up ? 1u : 0u);
}

template <class T>
T read(element const& e, std::size_t at = 0) noexcept {
    T value;
    std::memcpy(&value, e.data() + at, sizeof value);
    return value;
}

template <class T>
void write(element& e, T value, std::size_t at = 0) noexcept {
    std::memcpy(e.data() + at, &value, sizeof value);
}

/// Reads a float of 16, 32 or 64 bits from byte `at` of an element.
double read_real(element const& e, int bits, std::size_t at) {
    if (bits == 64) return read<double>(e, at);
    if (bits == 32) return static_cast<double>(read<float>(e, at));
    return decode_float({5, 10, 15, special::ieee}, read<std::uint16_t>(e, at));
}

template <class T>
void write_real(element& e, int bits, T value, std::size_t at) {
    if (bits == 64) return write(e, static_cast<double>(value), at);
    if (bits == 32) return write(e, static_cast<float>(value), at);
    auto const code = encode_float({5, 10, 15, special::ieee}, static_cast<double>(value));
    write(e, static_cast<std::uint16_t>(code), at);
}

std::string text(std::int64_t v) { return std::to_string(v); }
std::string text(std::uint64_t v) { return std::to_string(v); }
std::string text(double v) { return std::to_string(v); }

template <class T>
[[noreturn]] void does_not_fit(dtype type, T value) {
    throw std::overflow_error{text(value) + " does not fit in " + name(type)};
}

/// Returns the two's complement of a value, which must fit in the integer type.
std::uint64_t to_integer(dtype type, std::int64_t v) {
    if (type.kind == kind::uint) {
        if (v < 0 || (type.bits < 64 && (v >> type.bits) != 0)) does_not_fit(type, v);
    } else {
        auto const above = v >> (type.bits - 1);  // copies of the sign bit
        if (above != 0 && above != -1) does_not_fit(type, v);
    }
    return static_cast<std::uint64_t>(v);
}

std::uint64_t to_integer(dtype type, std::uint64_t v) {
    int const value_bits = type.kind == kind::uint ? type.bits : type.bits - 1;
    if (value_bits < 64 && (v >> value_bits) != 0) does_not_fit(type, v);
    return v;
}

std::uint64_t to_integer(dtype type, double v) {
    if (!std::isfinite(v)) {
        throw std::invalid_argument{"NaN and infinity do not fit in " + name(type)};
    }
    v = std::trunc(v);
    if (v >= -9223372036854775808.0 && v < 9223372036854775808.0) {
        return to_integer(type, static_cast<std::int64_t>(v));
    }
    if (v < 0 || v >= 18446744073709551616.0) does_not_fit(type, v);
    return to_integer(type, static_cast<std::uint64_t>(v));
}

}  // namespace

number decode(dtype type, element const& e) {
    switch (type.kind) {
        case kind::bool_: return e[0] != 0;
        case kind::int_: {
            int const shift = 64 - type.bits;
            return static_cast<std::int64_t>(read<std::uint64_t>(e) << shift) >> shift;
        }
        case kind::uint: {
            int const shift = 64 - type.bits;
            return read<std::uint64_t>(e) << shift >> shift;
        }
        case kind::float_: return read_real(e, type.bits, 0);
        case kind::complex: {
            int const half = type.bits / 2;
            return std::complex<double>{read_real(e, half, 0),
                                        read_real(e, half, static_cast<std::size_t>(half) / 8)};
        }
        case kind::float8_e8m0fnu: return decode_power(e[0]);
        default: return decode_float(format_of(type), read<std::uint16_t>(e));
    }
}

element encode(dtype type, number value) {
    element e{};
    if (type.kind == kind::complex) {
        int const half = type.bits / 2;
        auto const second = static_cast<std::size_t>(half) / 8;
        std::visit(
            [&]<class T>(T v) {
                if constexpr (std::is_same_v<T, std::complex<double>>) {
                    write_real(e, half, v.real(), 0);
                    write_real(e, half, v.imag(), second);
                } else {
                    write_real(e, half, v, 0);
                }
            },
            value);
        return e;
    }
    std::visit(
        [&]<class T>(T v) {
            if (type.kind == kind::bool_) {
                e[0] = v != T{} ? 1 : 0;
            } else if constexpr (std::is_same_v<T, std::complex<double>>) {
                throw std::invalid_argument{"a complex number does not fit in " + name(type)};
            } else if (type.kind == kind::int_ || type.kind == kind::uint) {
                using wide = std::conditional_t<std::is_same_v<T, bool>, std::uint64_t, T>;
                write(e, to_integer(type, static_cast<wide>(v)));
                if (type.packed()) e[0] &= static_cast<unsigned char>((1u << type.bits) - 1);
            } else if (type.kind == kind::float_) {
                write_real(e, type.bits, v, 0);
            } else if (type.kind == kind::float8_e8m0fnu) {
                e[0] = static_cast<unsigned char>(encode_power(static_cast<double>(v)));
            } else {
                auto const code = encode_float(format_of(type), static_cast<double>(v));
                write(e, static_cast<std::uint16_t>(code));
            }
        },
        value);
    return e;
}

element load(dtype type, void const* base, std::int64_t bit) noexcept {
    element e{};
    auto const* from = static_cast<unsigned char const*>(base) + (bit >> 3);
    if (!type.packed()) {
        std::memcpy(e.data(), from, type.bits / 8u);
        return e;
    }
    auto const shift = static_cast<unsigned>(bit & 7);
    unsigned value = from[0];
    if (shift + type.bits > 8)
        value |= static_cast<unsigned>(from[1]) << 8;  // continues in the next byte
    e[0] = static_cast<unsigned char>((value >> shift) & ((1u << type.bits) - 1));
    return e;
}

void store(dtype type, void* base, std::int64_t bit, element const& e) noexcept {
    auto* const to = static_cast<unsigned char*>(base) + (bit >> 3);
    if (!type.packed()) {
        std::memcpy(to, e.data(), type.bits / 8u);
        return;
    }
    auto const shift = static_cast<unsigned>(bit & 7);
    unsigned const mask = ((1u << type.bits) - 1) << shift;
    unsigned const value = static_cast<unsigned>(e[0]) << shift;
    to[0] = static_cast<unsigned char>((to[0] & ~mask) | (value & mask));
    if (mask > 0xff) {
        to[1] = static_cast<unsigned char>((to[1] & ~(mask >> 8)) | ((value & mask) >> 8));
    }
}

}  // namespace mt
