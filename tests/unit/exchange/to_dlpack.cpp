#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/tensor/for_each.hpp>
#include <support/allocation_failure.hpp>
#include <support/counting_producer.hpp>
#include <support/fails.hpp>
#include <support/no_owner.hpp>
#include <support/sim_array.hpp>
#include <support/stream_ordered.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

using namespace support;

int live_arrays = 0;

/// Owns twelve floats, 0 to 11, with a layout that the test sets. Move-only.
struct host_array {
    float* data = new float[12];
    std::int64_t offset = 0;
    std::int64_t extents[3] = {3, 4, 1};
    std::int64_t strides[3] = {4, 1, 1};
    int rank = 2;
    bool fails_to_view = false;

    host_array() {
        ++live_arrays;
        for (int i = 0; i < 12; ++i) data[i] = static_cast<float>(i);
    }
    host_array(host_array&& other) noexcept
        : data{std::exchange(other.data, nullptr)},
          offset{other.offset},
          rank{other.rank},
          fails_to_view{other.fails_to_view} {
        for (int i = 0; i < 3; ++i) extents[i] = other.extents[i], strides[i] = other.strides[i];
        ++live_arrays;
    }
    ~host_array() {
        delete[] data;
        --live_arrays;
    }
    host_array& layout(std::int64_t first, int n, std::initializer_list<std::int64_t> shape,
                       std::initializer_list<std::int64_t> steps) {
        offset = first;
        rank = n;
        std::copy(shape.begin(), shape.end(), extents);
        std::copy(steps.begin(), steps.end(), strides);
        return *this;
    }
};

/// A reference-counted host_array, which can be shared.
struct shared_array {
    std::shared_ptr<host_array> held = std::make_shared<host_array>();
};

struct throwing_share {
    float value = 1;
};

}  // namespace

template <>
struct ferry::array_traits<host_array> {
    static tensor_view view(host_array& a) {
        if (a.fails_to_view) throw std::runtime_error{"view"};
        return {a.data + a.offset, {a.extents, a.rank}, {a.strides, a.rank}};
    }
    static tensor_view view(host_array const& a) {
        return {static_cast<float const*>(a.data) + a.offset, {a.extents, a.rank}, {a.strides, a.rank}};
    }
};

template <>
struct ferry::array_traits<shared_array> {
    static tensor_view view(shared_array& a) { return array_traits<host_array>::view(*a.held); }
    static tensor_view view(shared_array const& a) { return array_traits<host_array>::view(std::as_const(*a.held)); }
    static shared_array share(shared_array const& a) { return a; }
};

template <>
struct ferry::array_traits<throwing_share> {
    static tensor_view view(throwing_share& a) { return {&a.value, {}}; }
    static throwing_share share(throwing_share const&) { throw std::runtime_error{"share"}; }
};

namespace {

void check_copy(host_array& a, std::initializer_list<float> wanted) {
    auto const copied = ferry::to_dlpack(a, {.copy = copy_policy::always, .layout = ferry::layout::contiguous});
    CHECK(copied.is_copied());
    CHECK(!copied.is_read_only());
    CHECK(copied.view().is_contiguous());
    CHECK(copied.view().size() == static_cast<std::int64_t>(wanted.size()));
    auto const* at = static_cast<float const*>(copied.view().data());
    CHECK((at == nullptr || at != a.data));
    for (auto const value : wanted) CHECK(*at++ == value);
}

}  // namespace

TEST_CASE("R53: an rvalue is moved into the tensor, which shares its memory") {
    {
        host_array a;
        auto const* const data = a.data;
        auto const got = ferry::to_dlpack(std::move(a));
        CHECK(got.view().data() == data);
        CHECK(!got.is_copied());
        CHECK(a.data == nullptr);
    }
    CHECK(live_arrays == 0);
}

TEST_CASE("D1: an export makes one allocation, for owner, shape and strides") {
    host_array a;
    allocation_window const window;
    auto got = ferry::to_dlpack(std::move(a));
    CHECK(window.allocations() == 1);
}

TEST_CASE("R53: copies of every layout have the same elements (R25, R26, R28, R29)") {
    host_array a;
    check_copy(a, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    check_copy(a.layout(1, 2, {3, 2}, {4, 2}), {1, 3, 5, 7, 9, 11});                     // strided
    check_copy(a.layout(0, 2, {4, 3}, {1, 4}), {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});  // transposed
    check_copy(a.layout(11, 2, {3, 2}, {-4, -1}), {11, 10, 7, 6, 3, 2});                 // negative
    check_copy(a.layout(4, 2, {3, 2}, {0, 1}), {4, 5, 4, 5, 4, 5});                      // broadcast
    check_copy(a.layout(7, 0, {}, {}), {7});                                             // 0-d
    check_copy(a.layout(0, 2, {0, 4}, {4, 1}), {});                                      // empty
    check_copy(a.layout(0, 3, {2, 3, 2}, {6, 2, 1}), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
}

namespace {

/// Copies an array without a requirement on the layout. Returns the copy's strides; checks its elements.
std::vector<std::int64_t> strides_of_copy(host_array const& a) {
    auto const copied = ferry::to_dlpack(a, {.copy = copy_policy::always});
    auto const from = ferry::as<float const>(ferry::view_of(a)), to = copied.as<float const>();
    std::vector<float> elements[2];
    ferry::for_each(from, [&](float x) { elements[0].push_back(x); });
    ferry::for_each(to, [&](float x) { elements[1].push_back(x); });
    CHECK(elements[0] == elements[1]);
    std::vector<std::int64_t> strides;
    for (int i = 0; i < copied.rank(); ++i) strides.push_back(copied.view().stride(i));
    return strides;
}
using steps = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("R53: a copy keeps the order of a dense source") {
    host_array a;
    CHECK(strides_of_copy(a.layout(0, 2, {3, 4}, {4, 1})) == steps{4, 1});
    CHECK(strides_of_copy(a.layout(0, 2, {4, 3}, {1, 4})) == steps{1, 4});         // column-major
    CHECK(strides_of_copy(a.layout(0, 3, {2, 2, 3}, {2, 1, 4})) == steps{2, 1, 4});  // permuted
    CHECK(strides_of_copy(a.layout(0, 3, {2, 2, 3}, {3, 6, 1})) == steps{3, 6, 1});
    CHECK(strides_of_copy(a.layout(0, 3, {4, 1, 3}, {1, 4, 4})) == steps{1, 4, 4});
    auto const copied = ferry::to_dlpack(a.layout(0, 2, {4, 3}, {1, 4}), {.copy = copy_policy::always});
    CHECK(std::equal(a.data, a.data + 12, static_cast<float const*>(copied.view().data())));  // the memory is the same
}

TEST_CASE("R28, R29, R53: a copy of elements with gaps, and of repeated or reversed elements, is row-major") {
    host_array a;
    CHECK(strides_of_copy(a.layout(0, 2, {2, 3}, {1, 4})) == steps{3, 1});   // gaps between the columns
    CHECK(strides_of_copy(a.layout(0, 2, {3, 2}, {2, 6})) == steps{2, 1});   // gaps between the elements
    CHECK(strides_of_copy(a.layout(11, 2, {4, 3}, {-1, -4})) == steps{3, 1});
    CHECK(strides_of_copy(a.layout(3, 2, {4, 3}, {-1, 4})) == steps{3, 1});
    CHECK(strides_of_copy(a.layout(0, 2, {3, 3}, {0, 1})) == steps{3, 1});
    CHECK(strides_of_copy(a.layout(0, 2, {3, 3}, {1, 1})) == steps{3, 1});   // overlapping
    unsigned char packed[3] = {0x21, 0x43, 0x65};
    std::int64_t const extents[] = {2, 3}, strides[] = {1, 2};
    ferry::tensor_view const v{static_cast<void*>(packed), {ferry::type_code::uint, 4}, extents, strides};
    auto const copied = ferry::to_dlpack(v, {.copy = copy_policy::always});
    CHECK(copied.view().is_contiguous());
    CHECK(static_cast<unsigned char const*>(copied.view().data())[0] == 0x31);
}

TEST_CASE("R53: copies of views and tensors keep the order, and layout::contiguous in the request makes them row-major") {
    host_array a;
    auto const& v = ferry::view_of(a.layout(0, 2, {4, 3}, {1, 4}));
    auto const of_view = ferry::to_dlpack(v, {.copy = copy_policy::always});
    CHECK(of_view.view().is_contiguous(ferry::contiguity::column_major));
    auto const of_tensor = ferry::to_dlpack(of_view, {.copy = copy_policy::always});
    CHECK(of_tensor.view().is_contiguous(ferry::contiguity::column_major));
    request const row_major{.copy = copy_policy::always, .layout = ferry::layout::contiguous};
    auto const rows = ferry::to_dlpack(of_view, row_major);
    CHECK(rows.view().is_contiguous());
    CHECK(rows.as<float, 2>()(1, 2) == of_view.as<float, 2>()(1, 2));
    auto shared = ferry::to_dlpack(std::move(a), {.layout = ferry::layout::contiguous});  // does not cause a copy
    CHECK(!shared.is_copied());
    auto const imported = ferry::from_dlpack<managed_tensor>(std::move(shared), row_major);
    CHECK(imported.view().is_contiguous());
}

TEST_CASE("R54: the copy of a producer is copied again only if the request requires the row-major order") {
    host_array a;
    auto const& v = ferry::view_of(a.layout(0, 2, {4, 3}, {1, 4}));
    request const row_major{.copy = copy_policy::always, .layout = ferry::layout::contiguous};
    for (bool const is_row_major : {false, true}) {
        struct {
            managed_tensor made;
            managed_tensor ferry_export(request const&) { return std::move(made); }
        } producer{ferry::to_dlpack(v, is_row_major ? row_major : request{.copy = copy_policy::always})};
        auto const* const data = producer.made.view().data();
        auto const imported = ferry::from_dlpack<managed_tensor>(producer, row_major);
        CHECK(imported.view().is_contiguous());
        CHECK(imported.is_copied());
        CHECK((imported.view().data() == data) == is_row_major);
        CHECK(imported.as<float, 2>()(1, 2) == a.data[9]);
    }
}

TEST_CASE("R28: negative strides are shared unchanged") {
    host_array a;
    a.layout(11, 1, {12}, {-1});
    auto const* const last = a.data + 11;
    auto const got = ferry::to_dlpack(std::move(a));
    CHECK(got.view().data() == last);
    CHECK(got.view().stride(0) == -1);
}

namespace {

std::int64_t const of_four[] = {4}, of_none[] = {0};

/// Stores a view of elements of another object.
struct stored_view {
    ferry::tensor_view view;
    ferry::tensor_view ferry_view() const { return view; }
};
/// Contains its elements.
struct four_inside {
    float data[4] = {0, 1, 2, 3};
    ferry::tensor_view ferry_view() { return {data, of_four}; }
};
/// Contains its first element; the others follow the object, as with a flexible array member.
struct with_tail {
    std::int64_t n = 4;
    float data[1] = {};
    ferry::tensor_view ferry_view() { return {data, {&n, 1}}; }
};
/// Contains four floats; its view can have any reach.
struct any_reach {
    float data[4] = {0, 1, 2, 3};
    std::int64_t first = 0, extents[2] = {4, 1}, strides[2] = {1, 1};
    ferry::tensor_view ferry_view() {
        auto const offset = static_cast<std::uintptr_t>(first * std::int64_t{sizeof(float)});
        return {reinterpret_cast<float*>(reinterpret_cast<std::uintptr_t>(data) + offset), extents, strides};
    }
};
/// Contains its elements, and a pointer to the first one, which still refers to the previous object after a move.
struct points_inside {
    float data[4] = {0, 1, 2, 3};
    float* first = data;
    std::int64_t stride[1] = {1};
    ferry::tensor_view ferry_view() { return {first, of_four, stride}; }
};
/// References elements in static storage.
struct constants {
    float* data;
    ferry::tensor_view ferry_view() const { return {data, of_four}; }
};
/// Has a non-trivial destructor, and `owns` is false.
struct observer {
    std::shared_ptr<int> other;
    float* data;
    ferry::tensor_view ferry_view() const { return {data, of_four}; }
};

/// Owns its elements unless it was made of a pointer.
struct maybe_owner {
    std::shared_ptr<float[]> own;
    float* data;
    std::int64_t extents[1] = {4};
    ferry::tensor_view ferry_view() const { return {data, extents}; }
};

}  // namespace

template <>
struct ferry::array_traits<maybe_owner> {
    static bool owns(maybe_owner const& a) { return a.own != nullptr; }
};
template <>
struct ferry::array_traits<constants> {
    static constexpr bool owns = true;
};
template <>
struct ferry::array_traits<observer> {
    static constexpr bool owns = false;
};

TEST_CASE("D13: an rvalue that owns no elements is copied or refused") {
    float data[] = {1, 2, 3, 4};
    auto const stored = [&] { return stored_view{{data, of_four}}; };
    auto const refused = [](auto f) {
        fails(ferry::errc::not_shareable, f,
              {"ferry::to_dlpack", "does not own its elements", "its owner cannot be shared", "pass std::move(array)"});
    };
    refused([&] { static_cast<void>(ferry::to_dlpack(stored())); });
    refused([&] { static_cast<void>(ferry::to_dlpack(stored(), {.copy = copy_policy::never})); });
    refused([&] { static_cast<void>(ferry::to_dlpack(observer{nullptr, data}, {.copy = copy_policy::never})); });
    for (ferry::request const& r : {ferry::request{}, {.device = ferry::cpu}, {.copy = copy_policy::always}}) {
        auto const first = ferry::to_dlpack(stored(), r), second = ferry::to_dlpack(observer{nullptr, data}, r);
        CHECK(first.is_copied());
        CHECK(first.as<float, 1>()(3) == 4);
        CHECK(second.is_copied());
        CHECK(second.as<float, 1>()(3) == 4);
    }
    auto const empty = ferry::to_dlpack(stored_view{{static_cast<float*>(nullptr), of_none}});
    CHECK(empty.view().is_empty());
}

TEST_CASE("D13: an rvalue with elements outside of the object is copied or refused") {
    struct {
        with_tail front;
        float tail[3] = {};
    } whole;
    auto const refused = [](auto&& array) {
        fails(ferry::errc::not_shareable, [&] { static_cast<void>(ferry::to_dlpack(std::move(array))); },
              {"ferry::to_dlpack", "does not own its elements"});
    };
    refused(whole.front);
    whole.front.n = 1;
    CHECK(ferry::to_dlpack(std::move(whole.front)).rank() == 1);

    // `data` is the first member; the other members are 40 bytes.
    constexpr std::int64_t floats = sizeof(any_reach) / sizeof(float);
    struct part {
        std::int64_t first, extents[2], strides[2];
    };
    auto const with = [](part const& p) {
        any_reach a;
        a.first = p.first;
        for (int i = 0; i < 2; ++i) a.extents[i] = p.extents[i], a.strides[i] = p.strides[i];
        return a;
    };
    for (part const& p : {part{0, {floats + 1, 1}, {1, 1}},    // one element after the end
                          part{0, {2, 2}, {floats - 1, 1}},    // the same, by the sum of two dimensions
                          part{3, {5, 1}, {-1, 1}},            // one element before the start
                          part{-1, {2, 1}, {1, 1}},            // the first element before the start
                          part{floats, {2, 1}, {-1, 1}},       // the first element after the end
                          part{0, {2, 1}, {INTPTR_MAX / 64, 1}}})
        refused(with(p));
    for (part const& p : {part{0, {4, 1}, {1, 1}}, part{0, {floats, 1}, {1, 1}}, part{3, {4, 1}, {-1, 1}},
                          part{3, {4, 1}, {0, 1}}, part{2, {1, 2}, {1000, -2}}, part{1000, {0, 2}, {1, 1}}})
        CHECK(ferry::to_dlpack(with(p)).rank() == 2);
    auto negative = with({0, {-1, 1}, {1, 1}});
    fails(ferry::errc::shape, [&] { static_cast<void>(ferry::to_dlpack(std::move(negative))); }, {"shape[0] is -1"});
    auto const copy = ferry::to_dlpack(with({3, {4, 1}, {-1, 1}}), {.copy = ferry::copy_policy::always});
    CHECK(copy.as<float, 2>()(3, 0) == 0);
}

TEST_CASE("D13: an rvalue whose view refers to the object that it was moved from is copied or refused") {
    auto const refused = [](points_inside array) {
        array.first = array.data + (array.stride[0] < 0 ? 3 : 0);
        fails(ferry::errc::argument, [&] { static_cast<void>(ferry::to_dlpack(std::move(array))); },
              {"ferry::to_dlpack", "the object that it was moved from"});
    };
    refused({});
    refused({.stride = {-1}});
    points_inside array;
    auto const copy = ferry::to_dlpack(std::move(array), {.copy = ferry::copy_policy::always});
    CHECK(copy.as<float, 1>()(3) == 3);
}

TEST_CASE("D13: array_traits<T>::owns may depend on the array") {
    static_assert(!ferry::non_owning<maybe_owner>);
    float data[] = {1, 2, 3, 4};
    fails(ferry::errc::not_shareable, [&] { static_cast<void>(ferry::to_dlpack(maybe_owner{nullptr, data})); },
          {"does not own its elements"});
    fails(ferry::errc::not_shareable,
          [&] { static_cast<void>(ferry::to_dlpack(maybe_owner{nullptr, data}, {.copy = copy_policy::never})); },
          {"does not own its elements"});
    for (auto const policy : {copy_policy::if_needed, copy_policy::always}) {
        auto const copied = ferry::to_dlpack(maybe_owner{nullptr, data}, {.copy = policy});
        CHECK(copied.is_copied());
        CHECK(copied.as<float, 1>()(3) == 4);
    }
    std::shared_ptr<float[]> const own{new float[4]{5, 6, 7, 8}};
    auto const moved = ferry::to_dlpack(maybe_owner{own, own.get()});
    CHECK(moved.view().data() == own.get());
    CHECK(own.use_count() == 2);
    auto const empty = ferry::to_dlpack(maybe_owner{nullptr, nullptr, {0}});
    CHECK(empty.view().is_empty());
}

TEST_CASE("D13: an rvalue that contains its elements, or whose array_traits::owns is true, is shared") {
    auto const inside = ferry::to_dlpack(four_inside{});
    CHECK(inside.as<float, 1>()(3) == 3);
    static float data[] = {1, 2, 3, 4};
    auto const constant = ferry::to_dlpack(constants{data});
    CHECK(constant.view().data() == data);
}

TEST_CASE("R24: strides that a producer omitted are written only if its version requires them") {
    float data[6] = {};
    for (std::uint32_t minor : {0u, 1u, 2u, 3u}) {
        support::counting_producer theirs{data, support::float32, {2, 3}};
        theirs.raw.version = {1, minor};
        theirs.raw.flags = 3;
        {
            auto const got = ferry::to_dlpack(ferry::from_dlpack(&theirs.raw), ferry::request{});
            auto const& t = got.get()->dl_tensor;
            CHECK((got.get() == &theirs.raw) == (minor < 2));
            CHECK((t.strides == nullptr) == (minor < 2));
            if (t.strides != nullptr) {
                CHECK(t.strides[0] == 3);
                CHECK(t.strides[1] == 1);
            }
            CHECK(t.data == data);
            CHECK(got.get()->flags == 3);
            CHECK(theirs.deleter_calls == 0);
        }
        CHECK(theirs.deleter_calls == 1);
    }
    support::counting_producer scalar{data, support::float32, {}};
    CHECK(ferry::to_dlpack(ferry::from_dlpack(&scalar.raw), ferry::request{}).release() == &scalar.raw);
}

TEST_CASE("R26: an empty tensor travels without data") {
    host_array a;
    a.layout(0, 2, {0, 4}, {4, 1});
    auto const t = ferry::to_dlpack(std::move(a));
    CHECK(t.get()->dl_tensor.data == nullptr);
}

TEST_CASE("R31: copies are aligned to 256 bytes") {
    host_array a;
    auto const got = ferry::to_dlpack(a, {.copy = copy_policy::always});
    CHECK(reinterpret_cast<std::uintptr_t>(got.view().data()) % 256 == 0);
}

TEST_CASE("R11: a const array is shared read-only, and its copy is writable") {
    shared_array const a;
    CHECK(ferry::to_dlpack(a).is_read_only());
    CHECK(!ferry::to_dlpack(a, {.copy = copy_policy::always}).is_read_only());
    shared_array b;
    CHECK(!ferry::to_dlpack(b).is_read_only());
}

TEST_CASE("R59: exports can be repeated, share the memory, and release everything") {
    {
        shared_array a;
        for (int i = 0; i < 4; ++i) {
            auto const got = ferry::to_dlpack(a);
            CHECK(got.view().data() == a.held->data);
            CHECK(a.held.use_count() == 2);
        }
        CHECK(a.held.use_count() == 1);
    }
    CHECK(live_arrays == 0);
}

TEST_CASE("R53: an array that cannot be shared is copied, or refused for copy=False, and is unchanged") {
    host_array a;
    fails(errc::not_shareable, [&] { (void)ferry::to_dlpack(a, {.copy = copy_policy::never}); },
          {"std::move(array)", "borrow()", "array_traits::share", "request a copy"});
    CHECK(ferry::to_dlpack(a, ferry::request{}).is_copied());
    CHECK(ferry::to_dlpack(a, {.copy = copy_policy::always}).is_copied());
    CHECK(a.data != nullptr);
}

TEST_CASE("R53: a view and a tensor that the caller keeps are copied, or refused for copy=False") {
    float data[] = {1, 2, 3, 4};
    std::int64_t const two[] = {2}, every_other[] = {2};
    ferry::tensor_view const odd{data + 1, two, every_other};
    for (auto const policy : {copy_policy::if_needed, copy_policy::always}) {
        auto const from_view = ferry::to_dlpack(odd, {.copy = policy});
        auto const from_tensor = ferry::to_dlpack(from_view, {.copy = policy});
        CHECK(from_view.is_copied());
        CHECK(from_tensor.view().data() != from_view.view().data());
        CHECK(from_tensor.as<float, 1, ferry::access_from::host, ferry::layout::contiguous>()(1) == 4);
    }
    auto const kept = ferry::to_dlpack(host_array{});
    fails(errc::not_shareable, [&] { (void)ferry::to_dlpack(odd, {.copy = copy_policy::never}); }, {"borrow()"});
    fails(errc::not_shareable, [&] { (void)ferry::to_dlpack(kept, {.copy = copy_policy::never}); }, {"std::move"});
    CHECK(kept);
    fails(errc::consumed, [] { (void)ferry::to_dlpack(std::as_const(*std::make_unique<ferry::managed_tensor>()), {}); },
          {"it was moved from or released"});
    std::int64_t const negative[] = {-2};
    fails(errc::shape, [&] { (void)ferry::to_dlpack(ferry::tensor_view{data, negative}, ferry::request{}); },
          {"shape[0] is -2"});
}

TEST_CASE("R53: share_only shares, and refuses to copy") {
    auto const shared = ferry::to_dlpack(host_array{}, ferry::request{}, ferry::share_only);
    CHECK(!shared.is_copied());
    host_array a;
    fails(errc::copy_needed, [&] { (void)ferry::to_dlpack(a, {.copy = copy_policy::always}, ferry::share_only); },
          {"is needed and not permitted", "ferry::host_only instead of ferry::share_only"});
    ferry::destination const wrapped{ferry::host_space{}, ferry::share_only};
    fails(errc::copy_needed, [&] { (void)ferry::to_dlpack(a, {.copy = copy_policy::always}, wrapped); },
          {"ferry::host_only instead of ferry::share_only"});
    CHECK(a.data != nullptr);
}

TEST_CASE("R53: share_only refuses to copy device memory with the error of a missing copy") {
    ferry::device const gpu{ferry::device_type::cuda};
    sim_system sim{gpu};
    auto const theirs = sim.make_stream(gpu);
    fails(errc::copy_needed,
          [&] { (void)ferry::to_dlpack(make_array(sim, gpu, theirs, {4}), {.device = ferry::cpu}, ferry::share_only); },
          {"from cuda:0 to cpu:0", "is needed and not permitted", "a back end for the device instead of ferry::share_only"});
    host_array a;
    fails(errc::copy_needed, [&] { (void)ferry::to_dlpack(a, {.device = gpu}, ferry::share_only); },
          {"from cpu:0 to cuda:0", "a back end for the device"});
}

TEST_CASE("R40: another device without a back end is refused, and the array is unchanged") {
    host_array a;
    fails(errc::no_backend,
          [&] { (void)ferry::to_dlpack(std::move(a), {.device = ferry::device{ferry::device_type::cuda}}); },
          {"ferry::to_dlpack", "<ferry/cuda.hpp>"});
    CHECK(a.data != nullptr);
}

TEST_CASE("R53: copy=False across devices is refused") {
    host_array a;
    fails(errc::copy_needed,
          [&] {
              (void)ferry::to_dlpack(std::move(a),
                                     {.device = ferry::device{ferry::device_type::cuda}, .copy = copy_policy::never});
          },
          {"copy=False"});
    CHECK(a.data != nullptr);
}

TEST_CASE("R4: the stamped version is one that the request supports") {
    shared_array a;
    CHECK(ferry::to_dlpack(a, {.max_version = {1, 0}}).stamped() == ferry::version{1, 0});
    CHECK(ferry::to_dlpack(a, {.max_version = {2, 0}}).stamped() == ferry::version::current);
}

TEST_CASE("R15: a legacy request for read-only data gets a copy that the legacy struct can carry") {
    shared_array const a;
    auto got = ferry::to_dlpack(a, {.max_version = ferry::version::legacy});
    CHECK(got.is_copied());
    auto* const raw = got.release_legacy();
    CHECK(raw->dl_tensor.data != a.held->data);
    raw->deleter(raw);
    fails(errc::copy_needed,
          [&] { (void)ferry::to_dlpack(a, {.copy = copy_policy::never, .max_version = ferry::version::legacy}); });
}

TEST_CASE("R12: exporting a tensor keeps IS_COPIED, under another device as well") {
    host_array a;
    auto first = ferry::to_dlpack(a, {.copy = copy_policy::always});
    auto const* const raw = first.get();
    auto second = ferry::to_dlpack(std::move(first), {});
    CHECK(second.is_copied());
    CHECK(second.get() == raw);  // unchanged
    auto third = ferry::to_dlpack(std::move(second), {.device = ferry::device{ferry::device_type::cpu, 4}});
    CHECK(third.get() == raw);  // R35
    auto const fourth = ferry::to_dlpack(std::move(third), {.copy = copy_policy::always});
    CHECK(fourth.is_copied());
    CHECK(!third);
}

TEST_CASE("R63: the error for an empty managed_tensor states that it is empty") {
    managed_tensor nothing;
    fails(errc::consumed, [&] { (void)ferry::to_dlpack(std::move(nothing), {}); }, {"moved from or released"});
}

TEST_CASE("R59: no memory leaks and the array is unchanged, whichever allocation fails") {
    shared_array a;
    auto const survive = [&](ferry::request req) {
        return for_each_failing_allocation([&](int) { auto const got = ferry::to_dlpack(a, req); });
    };
    CHECK(survive({}) == 1);
    CHECK(survive({.copy = copy_policy::always}) == 2);  // memory and struct
    CHECK(a.held.use_count() == 1);
    CHECK(for_each_failing_allocation([&](int) {
              managed_tensor got = ferry::to_dlpack(shared_array{a});
              auto const copy = ferry::to_dlpack(std::move(got), {.copy = copy_policy::always});
          }) == 3);
    CHECK(a.held.use_count() == 1);
}

TEST_CASE("R68: after a failed allocation the caller still owns the tensor") {
    host_array a;
    auto tensor = ferry::to_dlpack(a, {.copy = copy_policy::always});
    auto const* const raw = tensor.get();
    int kept = 0;
    for (int n = 1; n <= 2; ++n) {
        allocation_window const window{n};
        try {
            auto const got = ferry::to_dlpack(std::move(tensor), {.copy = copy_policy::always});
        } catch (std::bad_alloc const&) {
            kept += tensor.get() == raw;
        }
    }
    CHECK(kept == 2);
}

TEST_CASE("R68: all memory is released exactly once, whichever operation of the back end fails") {
    for (auto const which : {verb::allocate, verb::copy, verb::order, verb::wait, verb::mark}) {
        for (bool const to_host : {false, true}) {
            sim_system sim{ferry::device_type::cuda, ferry::device{ferry::device_type::cuda, 1}};
            auto const theirs = sim.make_stream(ferry::device_type::cuda),
                       ours = sim.make_stream(ferry::device_type::cuda);
            {
                auto const a = make_array(sim, ferry::device_type::cuda, theirs, {64});
                auto tensor = ferry::to_dlpack(a, {.stream = theirs}, sim);
                auto const before = sim.live_bytes();
                bool const called = to_host ? which != verb::order && which != verb::mark : which != verb::wait;
                ferry::request req{.device = ferry::device{ferry::device_type::cuda, 1}, .stream = ours};
                if (to_host) req = {.device = ferry::cpu};
                sim.fail_at(which, 1);
                if (called) {
                    fails(errc::driver, [&] { (void)ferry::to_dlpack(a, req, sim); });
                    sim.fail_at(which, 1);
                    fails(errc::driver, [&] { (void)ferry::to_dlpack(std::move(tensor), req, sim, theirs); });
                    CHECK(static_cast<bool>(tensor));  // not consumed
                    CHECK(sim.live_bytes() == before);
                }
                sim.fail_at(which, 0);
                CHECK(ferry::to_dlpack(a, req, sim).is_copied());
            }
            CHECK(sim.live_bytes() == 0);
        }
    }
}

TEST_CASE("R59: no memory leaks, whichever allocation of a copy from a device fails") {
    sim_system sim{ferry::device_type::cuda, ferry::device{ferry::device_type::cuda, 1}};
    auto const theirs = sim.make_stream(ferry::device_type::cuda), ours = sim.make_stream(ferry::device_type::cuda);
    auto const a = make_array(sim, ferry::device_type::cuda, theirs, {64});
    auto const before = sim.live_bytes();
    for (auto const& req : {ferry::request{.device = ferry::cpu},
                             ferry::request{.device = ferry::device{ferry::device_type::cuda, 1}, .stream = ours}}) {
        CHECK(for_each_failing_allocation([&](int) { auto const got = ferry::to_dlpack(a, req, sim); }) >= 1);
        sim.finish(ours);
        CHECK(sim.live_bytes() == before);
    }
}

TEST_CASE("R50: stream-ordered memory of a failed exchange is released after the work on the stream") {
    float data[4] = {};
    std::int64_t const shape[] = {4};
    auto const on = ferry::stream_token::from_cuda_handle(16);
    auto const lend = [&] {
        return ferry::make_managed(support::no_owner{},
                                   ferry::tensor_view{data, {shape}, {}, {ferry::device_type::cuda, 0}});
    };
    {
        stream_ordered b;
        b.fails = true;
        fails(errc::driver, [&] { (void)ferry::to_dlpack(lend(), {.copy = copy_policy::always, .stream = on}, b, on); });
        CHECK(b.given_back == 1);
        CHECK(b.too_early == 0);
    }
    int taken = 0;
    for (int n = 1; n < 10; ++n) {
        stream_ordered b;
        auto t = lend();
        bool failed = false;
        {
            allocation_window const window{n};
            try {
                auto const got = ferry::to_dlpack(std::move(t), {.copy = copy_policy::always, .stream = on}, b, on);
            } catch (std::bad_alloc const&) {
                failed = true;
            }
        }
        if (!failed) break;
        taken += b.given;
        CHECK(b.given_back == b.given);
        CHECK(b.too_early == 0);
    }
    CHECK(taken >= 1);
}

TEST_CASE("R41, R81: exceptions of view and share are propagated, and no memory leaks") {
    {
        host_array a;
        a.fails_to_view = true;
        CHECK_THROWS_AS((void)ferry::to_dlpack(std::move(a)), std::runtime_error);
        CHECK(a.data != nullptr);
        throwing_share b;
        CHECK_THROWS_AS((void)ferry::to_dlpack(b), std::runtime_error);
    }
    CHECK(live_arrays == 0);
}

namespace {

/// A base class with virtual functions; the elements belong to the derived class.
struct abstract_array {
    std::int64_t extent = 2;
    float* first = nullptr;
    virtual ~abstract_array() = default;
};
struct owning_array : abstract_array {
    float values[2] = {1, 2};
    owning_array() { first = values; }
    owning_array(owning_array const&) : owning_array{} {}
};

}  // namespace

template <>
struct ferry::array_traits<abstract_array> {
    static tensor_view view(abstract_array const& a) { return {a.first, {&a.extent, 1}}; }
};
template <>
struct ferry::array_traits<owning_array> {
    static tensor_view view(owning_array const& a) { return {a.values, {&a.extent, 1}}; }
};

#if FERRY_HAS_RTTI  // needed to detect derived classes
TEST_CASE("an array that is moved as its base class is refused, because the move would slice it") {
    owning_array whole;
    abstract_array& base = whole;
    fails(errc::argument, [&] { static_cast<void>(ferry::to_dlpack(std::move(base))); }, {"would slice it"});
    fails(errc::argument, [&] { static_cast<void>(ferry::to_dlpack(std::move(base), {.copy = copy_policy::never})); });
    auto const copy = ferry::to_dlpack(base, {.copy = copy_policy::always});
    CHECK(copy.as<float, 1>()(1) == 2);
    auto const moved = ferry::to_dlpack(std::move(whole));
    CHECK(moved.as<float const, 1>()(1) == 2);
    float two[2] = {3, 4};
    abstract_array exactly;
    exactly.first = two;
    auto const tensor = ferry::to_dlpack(std::move(exactly));
    CHECK(tensor.as<float const, 1>()(1) == 4);
}
#endif
