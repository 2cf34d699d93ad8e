#include <ferry/base/detail/checked.hpp>

namespace {

constexpr bool product_fits(std::int64_t a, std::int64_t b) {
    std::int64_t out = 0;
    return ferry::detail::checked_multiply(a, b, out);
}
template <class T>
concept can_multiply = requires(T a, T& out) { ferry::detail::checked_multiply(a, a, out); };

}  // namespace

static_assert(product_fits(INT64_MAX, 1) && !product_fits(INT64_MAX, 2));
static_assert(can_multiply<std::int32_t> && can_multiply<std::uint64_t> && !can_multiply<double>);
