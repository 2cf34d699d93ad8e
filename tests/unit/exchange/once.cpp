// D14: each side of an exchange negotiates once and validates once. Counts the calls of `negotiate` and `is_ordinary`, with
// which each validation begins; in an inline namespace of its own, since these functions differ from those of other sources.
#define FERRY_ABI_NAMESPACE counted

#include <ferry/config.hpp>

namespace {
int negotiations = 0, validations = 0;
}

// `is_ordinary` is defined with the parameter `DLTensor const& t`, and called with `t`.
#define is_ordinary(first) FERRY_ORDINARY_##first)
#define FERRY_ORDINARY_DLTensor is_ordinary_tensor(DLTensor
#define FERRY_ORDINARY_t is_ordinary_tensor((++validations, t)
#include <ferry/tensor/validate.hpp>
#undef is_ordinary

#include <ferry/exchange/negotiate.hpp>

namespace FERRY_NAMESPACE {
namespace detail {
inline decision counted_negotiate(tensor_properties const& props, request const& req) noexcept {
    ++negotiations;
    return negotiate(props, req);
}
}  // namespace detail
using detail::counted_negotiate;
}  // namespace FERRY_NAMESPACE
#define negotiate counted_negotiate
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#undef negotiate

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace {

struct numbers {
    std::vector<float> values = {1, 2, 3, 4};
    std::int64_t extents[1] = {4};
    ferry::tensor_view ferry_view() { return {values.data(), extents}; }
    ferry::tensor_view ferry_view() const { return {values.data(), extents}; }
};

int views = 0;
struct shared_numbers {
    std::shared_ptr<numbers> array = std::make_shared<numbers>();
};

struct received {
    ferry::managed_tensor tensor;
};

struct asks {
    numbers array{};
    ferry::managed_tensor ferry_export(ferry::request const& req) { return ferry::to_dlpack(numbers{array}, req); }
};

DLManagedTensorVersioned* raw() {
    auto* const made = ferry::to_dlpack(numbers{}).release();
    negotiations = validations = 0;
    return made;
}

void counted(int negotiated, int validated) {
    CHECK(negotiations == negotiated);
    CHECK(validations == validated);
    negotiations = validations = 0;
}

}  // namespace

template <>
struct ferry::array_traits<shared_numbers> {
    static tensor_view view(shared_numbers const& n) { return ++views, n.array->ferry_view(); }
    static shared_numbers share(shared_numbers const& n) { return n; }
};
template <>
struct ferry::array_traits<received> {
    static received adopt(managed_tensor m) { return {std::move(m)}; }
};

TEST_CASE("D14: an export negotiates once and validates once") {
    for (auto const policy : {ferry::copy_policy::if_needed, ferry::copy_policy::always}) {
        negotiations = validations = 0;
        auto const t = ferry::to_dlpack(numbers{}, {.copy = policy});
        counted(1, 1);
        CHECK(t.as<float, 1>()(3) == 4);
    }
    auto const shared = ferry::to_dlpack(numbers{});
    counted(1, 1);
    auto held = ferry::to_dlpack(shared, {.copy = ferry::copy_policy::always});
    counted(1, 1);
    auto const passed_on = ferry::to_dlpack(std::move(held), ferry::request{});
    counted(1, 0);
}

TEST_CASE("D14: an export takes the view of an array once, and that of an owner once more after the move") {
    shared_numbers array;
    auto const views_of = [](auto call) {
        views = 0;
        static_cast<void>(call());
        return views;
    };
    CHECK(views_of([&] { return ferry::to_dlpack(array, {.copy = ferry::copy_policy::always}); }) == 1);
    CHECK(views_of([] { return ferry::to_dlpack(shared_numbers{}); }) == 2);
    CHECK(views_of([&] { return ferry::to_dlpack(array); }) == 3);  // the result of share is an owner of its own
}

TEST_CASE("D14: an import of a struct negotiates once and validates once") {
    for (auto const policy : {ferry::copy_policy::if_needed, ferry::copy_policy::always}) {
        auto* const made = raw();
        auto const t = ferry::from_dlpack<received>(made, {.copy = policy});
        counted(1, 1);
        CHECK(t.tensor.is_copied() == (policy == ferry::copy_policy::always));
    }
}

TEST_CASE("D14: an import from a producer negotiates once and validates once on each side") {
    for (auto const policy : {ferry::copy_policy::if_needed, ferry::copy_policy::always}) {
        asks from;
        negotiations = validations = 0;
        auto const t = ferry::from_dlpack<received>(from, {.copy = policy});
        counted(2, 1);  // the producer's tensor is valid already
        CHECK(t.tensor.as<float, 1>()(3) == 4);
        auto const array = ferry::from_dlpack<received>(numbers{}, {.copy = policy});
        counted(1, 1);  // of an array, ferry is both sides
        CHECK(array.tensor.as<float, 1>()(3) == 4);
    }
}
