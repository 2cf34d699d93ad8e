// Exports and imports that can only share.
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/to_dlpack.hpp>

#include <cstdint>
#include <utility>
#include <vector>

struct numbers {
    std::vector<float> values;
    std::int64_t extents[1];
    ferry::tensor_view ferry_view() { return {values.data(), extents}; }
};
struct producer {
    ferry::managed_tensor ferry_export(ferry::request const&) { return {}; }
};
struct bytes {
    ferry::managed_tensor tensor;
};
struct plain {
    ferry::managed_tensor tensor;
};

template <>
struct ferry::array_traits<bytes> {
    static constexpr bool padded_elements = true;
    static bytes adopt(managed_tensor m) { return {std::move(m)}; }
};
template <>
struct ferry::array_traits<plain> {
    static plain adopt(managed_tensor m) { return {std::move(m)}; }
};

using ferry::managed_tensor;

managed_tensor shared(numbers array) { return ferry::to_dlpack(std::move(array)); }

managed_tensor imported(DLManagedTensorVersioned* raw) { return ferry::from_dlpack<managed_tensor>(raw); }
managed_tensor imported(DLManagedTensor* raw) { return ferry::from_dlpack<managed_tensor>(raw); }
managed_tensor imported(managed_tensor tensor) { return ferry::from_dlpack<managed_tensor>(std::move(tensor)); }
managed_tensor imported(producer& from) { return ferry::from_dlpack<managed_tensor>(from); }
bytes imported_array(DLManagedTensorVersioned* raw) { return ferry::from_dlpack<bytes>(raw); }
plain imported_plain(DLManagedTensorVersioned* raw) { return ferry::from_dlpack<plain>(raw); }
