// expect: packed vectors are not supported: make the lanes a dimension, and use the type of one lane as T
// A packed element is one value.
#include <ferry/tensor/as.hpp>

#include <cstdint>

struct nibbles {
    std::uint8_t bits;
};

template <>
struct ferry::dtype_traits<nibbles> {
#ifdef FERRY_COMPILE_FAIL
    static constexpr data_type value{type_code::uint, 4, 3};
#else
    static constexpr data_type value{type_code::uint, 4, 1};
#endif
};

auto typed(ferry::tensor_view const& v) { return ferry::as<nibbles const, 1>(v); }
