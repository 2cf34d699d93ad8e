// minitensor: element types.
#pragma once

#include <minitensor/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace mt {

/// The kind of an element type, with the type codes of DLPack.
enum class kind : std::uint8_t {
    int_ = 0,
    uint = 1,
    float_ = 2,
    bfloat = 4,
    complex = 5,
    bool_ = 6,
    float8_e3m4 = 7,
    float8_e4m3 = 8,
    float8_e4m3b11fnuz = 9,
    float8_e4m3fn = 10,
    float8_e4m3fnuz = 11,
    float8_e5m2 = 12,
    float8_e5m2fnuz = 13,
    float8_e8m0fnu = 14,
    float6_e2m3fn = 15,
    float6_e3m2fn = 16,
    float4_e2m1fn = 17,
};

/// An element type: its kind and its size in bits (both parts of a complex number; 8 for bool).
struct dtype {
    mt::kind kind = mt::kind::float_;
    std::uint8_t bits = 32;

    constexpr dtype() noexcept = default;
    constexpr dtype(mt::kind k, std::uint8_t b) noexcept : kind{k}, bits{b} {}
    /// Converts an element type of another library. \throws buffer_error  more than one lane
    template <class Other>
        requires requires(Other o) { o.code, o.bits, o.lanes; }
    constexpr dtype(Other o) : kind{static_cast<mt::kind>(o.code)}, bits{o.bits} {
        if (o.lanes != 1) throw buffer_error("elements with several lanes: view the lanes as another dimension");
    }

    /// Returns whether elements are smaller than a byte. Such elements are packed, from the low bits of each byte up.
    [[nodiscard]] constexpr bool packed() const noexcept { return bits < 8; }

    friend constexpr bool operator==(dtype const&, dtype const&) = default;
};

/// Returns whether minitensor supports the type: int and uint of 1, 2, 4, 8, 16, 32 and 64 bits, float of 16, 32 and
/// 64, complex of 32, 64 and 128, and every other kind in its only width.
[[nodiscard]] bool supported(dtype) noexcept;

/// Returns the name of a type, for example "int64", "bfloat16" or "float8_e4m3fn".
[[nodiscard]] std::string name(dtype);

/// Returns the type with a name. \throws std::invalid_argument for any other name
[[nodiscard]] dtype dtype_from_name(std::string_view);

inline constexpr dtype bool_{kind::bool_, 8};
inline constexpr dtype uint8{kind::uint, 8};
inline constexpr dtype int32{kind::int_, 32};
inline constexpr dtype int64{kind::int_, 64};
inline constexpr dtype float32{kind::float_, 32};
inline constexpr dtype float64{kind::float_, 64};
inline constexpr dtype complex128{kind::complex, 128};

}  // namespace mt
