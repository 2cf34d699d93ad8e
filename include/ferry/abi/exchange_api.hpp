// ferry: the C exchange API of DLPack 1.2 and 1.3 (R69–R77), declared here since headers before 1.2 lack it.
#pragma once

#include <ferry/abi/dlpack.hpp>

namespace FERRY_NAMESPACE::abi {

/// Header of the table; the same in all versions. Check `version.major` first; if it is too new, use `prev_api` (R70).
struct exchange_api_header {
    DLPackVersion version;
    exchange_api_header* prev_api;
};

/// The table that a Python type provides as `__dlpack_c_exchange_api__`. Its members are in the order of R71.
struct exchange_api {
    exchange_api_header header;
    int (*managed_tensor_allocator)(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_ctx,
                                    void (*set_error)(void* error_ctx, char const* kind, char const* message));
    int (*managed_tensor_from_py_object_no_sync)(void* object, DLManagedTensorVersioned** out);
    int (*managed_tensor_to_py_object_no_sync)(DLManagedTensorVersioned* tensor, void** out);
    int (*dltensor_from_py_object_no_sync)(void* object, DLTensor* out);  // may be NULL
    int (*current_work_stream)(DLDeviceType device_type, std::int32_t device_id, void** out);
};

/// Name of the capsule that contains the table (R69).
inline constexpr char const* exchange_api_capsule = "dlpack_exchange_api";
/// Attribute of the type that holds the table (R69).
inline constexpr char const* exchange_api_attribute = "__dlpack_c_exchange_api__";
/// Attribute of DLPack 1.2, in which it was an int; later producers provide the capsule under both names.
inline constexpr char const* exchange_api_attribute_1_2 = "__c_dlpack_exchange_api__";

}  // namespace FERRY_NAMESPACE::abi
