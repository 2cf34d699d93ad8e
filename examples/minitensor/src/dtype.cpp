#include <minitensor/dtype.hpp>

#include <array>
#include <stdexcept>

namespace mt {
namespace {

struct named {
    std::string_view name;
    dtype type;
};

constexpr std::array table{
    named{"bool", {kind::bool_, 8}},
    named{"int8", {kind::int_, 8}},
    named{"int16", {kind::int_, 16}},
    named{"int32", {kind::int_, 32}},
    named{"int64", {kind::int_, 64}},
    named{"uint8", {kind::uint, 8}},
    named{"uint16", {kind::uint, 16}},
    named{"uint32", {kind::uint, 32}},
    named{"uint64", {kind::uint, 64}},
    named{"float16", {kind::float_, 16}},
    named{"float32", {kind::float_, 32}},
    named{"float64", {kind::float_, 64}},
    named{"bfloat16", {kind::bfloat, 16}},
    named{"complex32", {kind::complex, 32}},
    named{"complex64", {kind::complex, 64}},
    named{"complex128", {kind::complex, 128}},
    named{"float8_e3m4", {kind::float8_e3m4, 8}},
    named{"float8_e4m3", {kind::float8_e4m3, 8}},
    named{"float8_e4m3b11fnuz", {kind::float8_e4m3b11fnuz, 8}},
    named{"float8_e4m3fn", {kind::float8_e4m3fn, 8}},
    named{"float8_e4m3fnuz", {kind::float8_e4m3fnuz, 8}},
    named{"float8_e5m2", {kind::float8_e5m2, 8}},
    named{"float8_e5m2fnuz", {kind::float8_e5m2fnuz, 8}},
    named{"float8_e8m0fnu", {kind::float8_e8m0fnu, 8}},
    named{"float6_e2m3fn", {kind::float6_e2m3fn, 6}},
    named{"float6_e3m2fn", {kind::float6_e3m2fn, 6}},
    named{"float4_e2m1fn", {kind::float4_e2m1fn, 4}},
    named{"int1", {kind::int_, 1}},
    named{"int2", {kind::int_, 2}},
    named{"int4", {kind::int_, 4}},
    named{"uint1", {kind::uint, 1}},
    named{"uint2", {kind::uint, 2}},
    named{"uint4", {kind::uint, 4}},
};

}  // namespace

bool supported(dtype type) noexcept {
    for (auto const& entry : table) {
        if (entry.type == type) return true;
    }
    return false;
}

std::string name(dtype type) {
    for (auto const& entry : table) {
        if (entry.type == type) return std::string{entry.name};
    }
    return "kind " + std::to_string(static_cast<int>(type.kind)) + " of " +
           std::to_string(static_cast<int>(type.bits)) + " bits";
}

dtype dtype_from_name(std::string_view name) {
    std::string known;
    for (auto const& entry : table) {
        if (entry.name == name) return entry.type;
        known.append(known.empty() ? "" : ", ").append(entry.name);
    }
    throw std::invalid_argument{"unknown dtype '" + std::string{name} + "'; minitensor has " +
                                known};
}

}  // namespace mt
