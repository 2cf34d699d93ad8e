// The inline namespace of the binary interface: names carry the epoch, sources need not.
#include <ferry/exchange/array_traits.hpp>
#include <ferry/fwd.hpp>
#include <ferry/tensor/view.hpp>
#include <ferry/version.hpp>

#include <type_traits>

// The namespace follows the major version; tests/layers/check.py finds a header outside of FERRY_ABI_NAMESPACE.
static_assert(FERRY_VERSION_MAJOR == 0);
static_assert(FERRY_VERSION / 10000 == FERRY_VERSION_MAJOR);
static_assert(FERRY_VERSION / 100 % 100 == FERRY_VERSION_MINOR);
static_assert(FERRY_VERSION % 100 == FERRY_VERSION_PATCH);
#if FERRY_VERSION < 100
#error "the version cannot be asked by the preprocessor"
#endif
static_assert(std::is_same_v<ferry::tensor_view, ferry::v0::tensor_view>);
static_assert(std::is_same_v<ferry::column, ferry::v0::column>);

namespace {
struct outside {
    float value = 1;
};
struct inside {
    float value = 1;
};
}  // namespace

// Both ways to specialise need no epoch.
template <>
struct ferry::array_traits<outside> {
    static tensor_view view(outside const& o) { return {&o.value, {}}; }
};

namespace ferry {
template <>
struct array_traits<inside> {
    static tensor_view view(inside const& i) { return {&i.value, {}}; }
};
}  // namespace ferry

static_assert(ferry::viewable<outside>);
static_assert(ferry::viewable<inside>);
