// Compiled with -fno-exceptions -fno-rtti: the functions that return a result (D17). Without exceptions doctest ends
// the program at a failed REQUIRE.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#define DOCTEST_CONFIG_NO_EXCEPTIONS_BUT_WITH_ALL_ASSERTS
#include <ferry/ferry.hpp>
#include <support/counting_producer.hpp>

#include <doctest/doctest.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <source_location>
#include <string_view>
#include <utility>
#include <vector>

namespace {
int allocations_until_failure = 0;  // 0: none fails
}  // namespace

void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept {
    if (allocations_until_failure > 0 && --allocations_until_failure == 0) return nullptr;
    return std::malloc(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment, std::nothrow_t const&) noexcept {
    if (allocations_until_failure > 0 && --allocations_until_failure == 0) return nullptr;
    auto const unit = static_cast<std::size_t>(alignment);
    return std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
}
void* operator new(std::size_t bytes) { return std::malloc(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }

namespace {

using ferry::errc;
using ferry::tensor_view;

constexpr std::int64_t six[] = {2, 3}, other[] = {3, 2}, negative[] = {2, -3};

int live_arrays = 0;

/// An array whose adapter returns results. `failing` names the member that returns an error.
struct array {
    static inline char const* failing = "";
    std::vector<float> values;
    bool owns = true;

    explicit array(std::vector<float> v = {1, 2, 3, 4, 5, 6}) : values{std::move(v)} { ++live_arrays; }
    array(array&& from) noexcept : values{std::move(from.values)}, owns{std::exchange(from.owns, false)} {}
    ~array() { live_arrays -= owns ? 1 : 0; }

    [[nodiscard]] static bool fails(char const* member) { return std::strcmp(failing, member) == 0; }
    [[nodiscard]] static ferry::error error(char const* member) { return {errc::argument, member, "as required"}; }
};

/// The code of a result; errc::ok for a success.
template <class Result>
errc code_of(Result const& r) {
    return r.has_value() ? errc::ok : r.error().code();
}

template <class Result>
concept has_value_function = requires(Result const& r) { r.value(); };

struct exhausted_space : ferry::host_space {
    void* allocate(std::size_t, std::size_t) const { return nullptr; }
};

/// Returns an error from each copy.
struct broken : ferry::host_back_end {
    [[nodiscard]] ferry::result<> copy(ferry::copy_plan const&, void*, ferry::device, void const*, ferry::device,
                                       ferry::stream_token) const {
        return ferry::error{errc::driver, "device", "copy failed"};
    }
};

}  // namespace

template <>
struct ferry::array_traits<array> {
    static result<tensor_view> view(array& a) {
        if (array::fails("view")) return array::error("view");
        return tensor_view{a.values.data(), six};
    }
    static result<inplace_view<2>> view(array const& a) { return inplace_view<2>{a.values.data(), {2, 3}}; }
    static result<array> share(array const& a) {
        if (array::fails("share")) return array::error("share");
        return array{a.values};
    }
    static result<array> adopt(managed_tensor m) {
        if (array::fails("adopt")) return array::error("adopt");
        auto const v = m.try_as<float const>();
        if (!v) return v.error();
        return array{{v->data(), v->data() + v->size()}};
    }
    static result<array> allocate(data_type, shape_view, device) {
        if (array::fails("allocate")) return array::error("allocate");
        return array{std::vector<float>(6)};
    }
};

TEST_CASE("D17: without exceptions, only the functions that return a result exist") {
    static_assert(FERRY_HAS_EXCEPTIONS == 0);
    static_assert(!std::constructible_from<ferry::buffer<>, std::size_t>);
    static_assert(!has_value_function<ferry::result<int>>);
    static_assert(!std::constructible_from<ferry::borrowed_tensor, tensor_view>);
}

TEST_CASE("try_validate returns the error of an invalid tensor") {
    float data[6] = {};
    DLTensor t = ferry::detail::tensor_of({data, six});
    CHECK(ferry::try_validate(t));
    t.shape = const_cast<std::int64_t*>(negative);
    auto const r = ferry::try_validate(t);
    REQUIRE_FALSE(r.has_value());
    CHECK(r.error().code() == errc::shape);
    CHECK(std::strstr(r.error().what(), "shape[1] is -3") != nullptr);
}

TEST_CASE("try_as, try_at, try_slice and try_visit return a view, an element, a part and the result of a function") {
    float data[] = {1, 2, 3, 4, 5, 6};
    tensor_view const v{data, six};
    auto const typed = ferry::try_as<float, 2>(v);
    REQUIRE(typed.has_value());
    CHECK((*typed)(1, 2) == 6.0f);
    CHECK(*typed->try_at(1, 0) == 4.0f);
    CHECK(typed->try_at(2, 0).error().code() == errc::out_of_range);
    CHECK(typed->try_slice(ferry::full_extent, 1)->extent(0) == 2);
    CHECK(typed->try_slice(0, 3).error().code() == errc::out_of_range);
    CHECK(ferry::try_as<double>(v).error().code() == errc::dtype);
    float sum = 0;
    CHECK(ferry::try_visit<double const, float const>(v, [&](auto const& x) {
              ferry::for_each(x, [&](auto e) { sum += static_cast<float>(e); });
          }).has_value());
    CHECK(sum == 21.0f);
    CHECK(ferry::try_visit<int>(v, [](auto const&) { return 1; }).error().code() == errc::dtype);
}

TEST_CASE("R32: an extent above the maximum is refused when its view is validated") {
    float data[6] = {};
    auto const far = static_cast<std::uint64_t>(-1);
    CHECK(ferry::inplace_dims<2>::try_make(ferry::shape_view{six})->rank() == 2);
    CHECK(ferry::try_element_strides<1>({6}, 4).error().code() == errc::strides);
    ferry::inplace_view<2> const v{data, {far, 2}};
    CHECK(ferry::try_validate(ferry::detail::tensor_of(v)).error().code() == errc::shape);
}

TEST_CASE("try_copy returns the number of bytes, or the error of the arguments or of the back end") {
    float from[] = {1, 2, 3, 4, 5, 6}, to[6] = {};
    auto const bytes = ferry::try_copy(tensor_view{to, six}, tensor_view{from, six});
    REQUIRE(bytes.has_value());
    CHECK(*bytes == 24);
    CHECK(to[5] == 6.0f);
    CHECK(ferry::try_copy(tensor_view{to, six}, tensor_view{from, other}).error().code() == errc::shape);
    static_assert(ferry::back_end<broken>);
    CHECK(ferry::try_copy(tensor_view{to, six}, tensor_view{from, six}, broken{}).error().code() == errc::driver);
}

TEST_CASE("a failed allocation is errc::out_of_memory") {
    CHECK(ferry::buffer<>::try_allocate(100)->data() != nullptr);
    auto const b = ferry::buffer<exhausted_space>::try_allocate(100);
    CHECK(b.error().code() == errc::out_of_memory);
    ferry::destination const from{exhausted_space{}};
    CHECK(from.allocate(ferry::cpu, 8, {}).error().code() == errc::out_of_memory);
    CHECK(from.allocate({ferry::device_type::cuda, 0}, 8, {}).error().code() == errc::device);
}

TEST_CASE("an export that fails destroys the owner once, and returns null") {
    static int live;
    struct owner {
        owner() { ++live; }
        owner(owner&&) noexcept { ++live; }
        ~owner() { --live; }
    };
    float data[6] = {};
    ferry::detail::record to{"test", std::source_location::current()};
    {
        owner o;
        auto* const raw = ferry::detail::make_raw<DLManagedTensorVersioned>(
            std::move(o), [&](owner& x) { return &x == &o ? tensor_view{data, six} : tensor_view{data, other}; },
            ferry::cpu, ferry::flags::none, ferry::version::current, ferry::detail::reporter{to});
        CHECK(raw == nullptr);
        CHECK(live == 1);
    }
    CHECK(to.outcome.error().code() == errc::argument);
    CHECK(live == 0);
}

TEST_CASE("an array is exported, imported, read, copied and borrowed") {
    support::counting_producer p{nullptr, support::float32, {2, 3}};
    float data[] = {1, 2, 3, 4, 5, 6};
    p.raw.dl_tensor.data = data;
    {
        array mine;
        auto shared = ferry::try_to_dlpack(mine);
        REQUIRE(shared.has_value());
        CHECK(live_arrays == 2);
        auto const imported = ferry::try_from_dlpack(shared->release());
        REQUIRE(imported.has_value());
        auto const typed = imported->try_as<float const, 2>();
        REQUIRE(typed.has_value());
        CHECK((*typed)(1, 2) == 6.0f);
        CHECK(code_of(imported->try_as<double>()) == errc::dtype);
        auto const copied = ferry::try_to_dlpack(mine, {.copy = ferry::copy_policy::always});
        REQUIRE(copied.has_value());
        CHECK(copied->is_copied());
        auto lent = ferry::try_borrow(mine);
        REQUIRE(lent.has_value());
        CHECK(lent->try_dltensor().has_value());
        CHECK(code_of(ferry::try_borrow(std::as_const(mine))->try_dltensor()) == errc::read_only);
        auto const on_host = ferry::try_to_host(*imported, ferry::host_only, ferry::already_ready);
        CHECK(code_of(on_host) == errc::ok);
        auto const theirs = ferry::try_from_dlpack<array>(&p.raw);
        REQUIRE(theirs.has_value());
        CHECK(theirs->values[5] == 6.0f);
        CHECK(p.deleter_calls == 1);
        CHECK(code_of(ferry::try_to_dlpack(std::move(mine))) == errc::ok);
    }
    CHECK(live_arrays == 0);
}

TEST_CASE("each failure of an adapter is the error of the exchange, and everything is released once") {
    float data[6] = {};
    ferry::request const always{.copy = ferry::copy_policy::always};
    for (auto const* member : {"view", "share", "adopt", "allocate"}) {
        CAPTURE(doctest::String{member});
        array::failing = member;
        support::counting_producer p{data, support::float32, {2, 3}};
        {
            array mine;
            CHECK((code_of(ferry::try_to_dlpack(std::as_const(mine))) == errc::argument) ==
                  (array::fails("share") || array::fails("view")));  // the view of the new owner
            CHECK((code_of(ferry::try_to_dlpack(mine, always)) == errc::argument) ==
                  (array::fails("view") || array::fails("allocate")));
            CHECK((code_of(ferry::try_from_dlpack<array>(&p.raw)) == errc::argument) == array::fails("adopt"));
            CHECK(p.deleter_calls == 1);
            CHECK((code_of(ferry::try_to_dlpack(std::move(mine))) == errc::argument) == array::fails("view"));
            CHECK(mine.owns == array::fails("view"));
        }
        array::failing = "";
        CHECK(live_arrays == 0);
    }
}

TEST_CASE("a failed import calls the deleter once, and a failed allocation is errc::out_of_memory") {
    float data[6] = {};
    support::counting_producer invalid{data, support::float32, {2, -3}}, valid{data, support::float32, {2, 3}};
    support::legacy_producer legacy{data, support::float32, {2, 3}};
    CHECK(code_of(ferry::try_from_dlpack(&invalid.raw)) == errc::shape);
    CHECK(code_of(ferry::try_from_dlpack<array>(&invalid.raw)) == errc::shape);
    CHECK(invalid.deleter_calls == 2);
    ferry::request const on_gpu{.device = ferry::device{ferry::device_type::cuda, 0}};
    CHECK(code_of(ferry::try_from_dlpack<ferry::managed_tensor>(&valid.raw, on_gpu)) == errc::no_backend);
    CHECK(valid.deleter_calls == 1);
    ferry::request const always{.copy = ferry::copy_policy::always};
    CHECK(code_of(ferry::try_to_dlpack(tensor_view{data, six}, always, broken{})) == errc::driver);
    for (int n = 1; n <= 2; ++n) {
        allocations_until_failure = n;
        auto const r = ferry::try_from_dlpack<ferry::managed_tensor>(&valid.raw, always);
        REQUIRE(code_of(r) == errc::out_of_memory);
        CHECK(std::string_view{r.error().api()} == "ferry::from_dlpack");
        CHECK(std::string_view{r.error().what()}.starts_with("ferry::from_dlpack: an allocation failed: "));
        CHECK(r.error().where().line() == __LINE__ - 4);
        CHECK(valid.deleter_calls == 1 + n);
    }
    allocations_until_failure = 1;
    CHECK(code_of(ferry::try_from_dlpack(&legacy.raw)) == errc::out_of_memory);
    CHECK(legacy.deleter_calls == 1);
    array mine;
    allocations_until_failure = 1;
    CHECK(code_of(ferry::try_to_dlpack(std::move(mine))) == errc::out_of_memory);
    CHECK(mine.owns);
    allocations_until_failure = 0;
}
