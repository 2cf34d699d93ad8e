// R70, R71: the layout of ferry's declaration of the table, compared with that of the header where it has one.
#include <ferry/abi/exchange_api.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <type_traits>

using ferry::abi::exchange_api;
using ferry::abi::exchange_api_header;

static_assert(sizeof(exchange_api_header) == 16 && alignof(exchange_api_header) == 8);
static_assert(offsetof(exchange_api_header, version) == 0 && offsetof(exchange_api_header, prev_api) == 8);
static_assert(sizeof(exchange_api) == 56 && alignof(exchange_api) == 8);
static_assert(offsetof(exchange_api, header) == 0);
static_assert(offsetof(exchange_api, managed_tensor_allocator) == 16);
static_assert(offsetof(exchange_api, managed_tensor_from_py_object_no_sync) == 24);
static_assert(offsetof(exchange_api, managed_tensor_to_py_object_no_sync) == 32);
static_assert(offsetof(exchange_api, dltensor_from_py_object_no_sync) == 40);
static_assert(offsetof(exchange_api, current_work_stream) == 48);
static_assert(std::is_standard_layout_v<exchange_api> && std::is_trivially_copyable_v<exchange_api>);

#if DLPACK_MINOR_VERSION >= 3
static_assert(sizeof(exchange_api) == sizeof(DLPackExchangeAPI) && alignof(exchange_api) == alignof(DLPackExchangeAPI));
static_assert(sizeof(exchange_api_header) == sizeof(DLPackExchangeAPIHeader));
static_assert(offsetof(exchange_api_header, prev_api) == offsetof(DLPackExchangeAPIHeader, prev_api));
#define SAME_MEMBER(name)                                                             \
    static_assert(offsetof(exchange_api, name) == offsetof(DLPackExchangeAPI, name)); \
    static_assert(std::is_same_v<decltype(exchange_api::name), decltype(DLPackExchangeAPI::name)>)
SAME_MEMBER(managed_tensor_allocator);
SAME_MEMBER(managed_tensor_from_py_object_no_sync);
SAME_MEMBER(managed_tensor_to_py_object_no_sync);
SAME_MEMBER(dltensor_from_py_object_no_sync);
SAME_MEMBER(current_work_stream);
#undef SAME_MEMBER
#endif

TEST_CASE("R69, R71: the exchange API has 1.3's name and 1.2's") {
    CHECK(std::string{ferry::abi::exchange_api_capsule} == "dlpack_exchange_api");
    CHECK(std::string{ferry::abi::exchange_api_attribute} == "__dlpack_c_exchange_api__");
    CHECK(std::string{ferry::abi::exchange_api_attribute_1_2} == "__c_dlpack_exchange_api__");
}
