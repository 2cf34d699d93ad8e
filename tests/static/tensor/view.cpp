#include <ferry/tensor/view.hpp>

#include <array>
#include <concepts>
#include <cstdint>
#include <type_traits>
#include <vector>

using ferry::strides_view;
using ferry::tensor_view;
using shape = std::array<std::int64_t, 2>;

static_assert(std::regular<tensor_view> && std::regular<strides_view> && std::regular<ferry::shape_view>);
static_assert(std::is_trivially_copyable_v<tensor_view>);
static_assert(std::is_nothrow_move_constructible_v<tensor_view> && sizeof(tensor_view) <= 80);

struct unknown {};

static_assert(std::is_constructible_v<tensor_view, float*, shape&>);
static_assert(std::is_constructible_v<tensor_view, float const*, shape&, shape&, ferry::device>);
static_assert(std::is_constructible_v<tensor_view, void*, ferry::data_type, shape&>);
static_assert(std::is_constructible_v<tensor_view, void const*, ferry::data_type, shape&, strides_view>);
static_assert(!std::is_constructible_v<tensor_view, float*, shape>, "temporary extents die before the view");
static_assert(!std::is_constructible_v<tensor_view, float*, shape&, shape>, "and so do temporary strides");
static_assert(!std::is_constructible_v<tensor_view, float*, std::vector<std::int64_t>>);
static_assert(!std::is_constructible_v<tensor_view, float*, int, int> && !std::is_constructible_v<tensor_view, float*>);
static_assert(!std::is_constructible_v<tensor_view, void*, shape&>, "void has no data type");
static_assert(!std::is_constructible_v<tensor_view, unknown*, shape&>);
static_assert(!std::is_convertible_v<DLTensor, tensor_view>, "foreign structs are validated first");

namespace {

constexpr std::int64_t two_by_three[] = {2, 3};
constexpr float elements[6] = {};
constexpr tensor_view constant{elements, two_by_three};

}  // namespace

static_assert(constant.is_read_only() && constant.size() == 6 && constant.nbytes() == 24 && constant.is_contiguous());
static_assert(constant.stride(0) == 3 && constant.rank() == 2 && constant.dtype() == ferry::dtype_of<float>);
static_assert(tensor_view{}.rank() == 0 && tensor_view{}.data() == nullptr);
