#include <ferry/tensor/make_managed.hpp>

#include <support/allocation_failure.hpp>
#include <support/fails.hpp>
#include <support/no_owner.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

using ferry::device_type;
using ferry::errc;
using ferry::flags;
using ferry::make_managed;
using ferry::managed_tensor;
using ferry::strides_view;
using ferry::tensor_view;
using ferry::version;
using support::both_fail;
using support::no_owner;

namespace {

alignas(64) float memory[64];
std::int64_t const two_by_three[] = {2, 3};

/// Counts live owners, except moved-from ones.
class owner {
   public:
    explicit owner(int& alive) noexcept : alive_{&alive} { ++*alive_; }
    owner(owner&& other) noexcept : alive_{std::exchange(other.alive_, nullptr)} {}
    owner& operator=(owner&&) = delete;
    ~owner() {
        if (alive_ != nullptr) --*alive_;
    }
    [[nodiscard]] bool owns() const noexcept { return alive_ != nullptr; }

   private:
    int* alive_;
};

/// Its move constructor throws.
struct throwing_owner {
    int* destroyed;
    explicit throwing_owner(int& d) : destroyed{&d} {}
    throwing_owner(throwing_owner&&) : destroyed{nullptr} { throw std::runtime_error{"it does not move"}; }
    ~throwing_owner() { ++*destroyed; }
};

/// An array that contains its elements, extents and strides.
struct inline_array {
    std::array<std::int32_t, 6> elements{};
    std::array<std::int64_t, 2> extents{2, 3}, steps{3, 1};
    inline_array() = default;
    inline_array(inline_array&& other) noexcept : elements{other.elements}, extents{other.extents}, steps{other.steps} {
        other.elements.fill(-1);
        other.extents.fill(-1);
        other.steps.fill(-1);
    }
    tensor_view view() { return {elements.data(), extents, steps}; }
};

auto const always = [](auto&) { return tensor_view{memory, two_by_three}; };

/// An owner whose view changes when it is moved.
struct changing {
    float* data;
    std::int64_t extents[1] = {4};
    bool is_moved = false, is_released = false;
    static inline ferry::device moved_device = ferry::cpu;
    static inline flags moved_flags = flags::none;
    static inline float* moved_data = nullptr;

    explicit changing(float* p) : data{p} {}
    changing(changing&& other) noexcept : data{moved_data != nullptr ? moved_data : other.data}, is_moved{true} {
        other.is_released = true;
    }

    [[nodiscard]] static tensor_view view(changing& c) {
        tensor_view const v{c.data, {c.extents}};
        return c.is_moved ? v.with_device(moved_device, moved_flags) : v;
    }
};

}  // namespace

TEST_CASE("R6: the owner is destroyed exactly once, with the tensor") {
    int alive = 0;
    {
        managed_tensor const t = make_managed(owner{alive}, tensor_view{memory, two_by_three});
        CHECK(alive == 1);
        CHECK(t.view().data() == memory);
    }
    CHECK(alive == 0);
}

TEST_CASE("R6, R68: a released struct is destroyed by its deleter, with shape and strides") {
    int alive = 0;
    auto* raw = make_managed(owner{alive}, tensor_view{memory, two_by_three}).release();
    CHECK(alive == 1);
    CHECK(raw->manager_ctx != nullptr);
    REQUIRE((raw->deleter != nullptr));
    CHECK(raw->dl_tensor.shape[1] == 3);
    raw->deleter(raw);
    CHECK(alive == 0);
}

TEST_CASE("R7: smart pointers can own tensors, and keep shared memory alive") {
    auto shared = std::make_shared<std::vector<float>>(6, 1.5f);
    std::weak_ptr const watch = shared;
    tensor_view const v{shared->data(), two_by_three};
    auto t = make_managed(std::move(shared), v);
    CHECK_FALSE(watch.expired());
    CHECK(t.as<float, 2>()(1, 2) == 1.5f);
    t = {};
    CHECK(watch.expired());
    auto unique = std::make_unique<float[]>(6);
    tensor_view const w{unique.get(), two_by_three};
    auto const u = make_managed(std::move(unique), w);
    CHECK(u.view().data() == w.data());
}

TEST_CASE("an array that contains its elements is viewed again after the move") {
    inline_array a;
    a.elements = {0, 1, 2, 3, 4, 5};
    auto const* before = a.elements.data();
    auto const t = make_managed(std::move(a), [](inline_array& x) { return x.view(); });
    auto const v = t.as<std::int32_t, 2>();
    CHECK(v.data() != before);
    CHECK(v(1, 2) == 5);
    CHECK(v.extent(0) == 2);
    CHECK(t.get()->dl_tensor.strides[0] == 3);
}

TEST_CASE("D1: one allocation for every owner and rank") {
    std::vector<std::int64_t> const high(40, 1);
    int alive = 0;
    support::allocation_window window;
    {
        auto const t = make_managed(owner{alive}, tensor_view{memory, high});
    }
    CHECK(window.allocations() == 1);
    CHECK(window.live() == 0);
}

TEST_CASE("an over-aligned owner is aligned") {
    struct alignas(128) wide {
        bool* aligned;
        explicit wide(bool& a) : aligned{&a} {}
        wide(wide&& other) noexcept : aligned{other.aligned} {
            *aligned = reinterpret_cast<std::uintptr_t>(this) % 128 == 0;
        }
        wide& operator=(wide&&) = delete;
        ~wide() = default;
    };
    bool aligned = false;
    auto const t = make_managed(wide{aligned}, tensor_view{memory, two_by_three});
    CHECK(aligned);
    CHECK(t.view().extent(1) == 3);
}

TEST_CASE("R24: strides are written under every version") {
    for (std::uint32_t minor : {0u, 1u, 3u}) {
        auto const t = make_managed(no_owner{}, tensor_view{memory, two_by_three}, flags::none, version{1, minor});
        REQUIRE(t.get()->dl_tensor.strides != nullptr);
        CHECK(t.get()->dl_tensor.strides[0] == 3);
        CHECK(t.get()->dl_tensor.strides[1] == 1);
    }
}

TEST_CASE("R28, R29: strides are exported unchanged") {
    std::int64_t const strides[] = {-3, 0};
    auto const t = make_managed(no_owner{}, tensor_view{memory + 6, two_by_three, strides});
    CHECK(t.get()->dl_tensor.strides[0] == -3);
    CHECK(t.get()->dl_tensor.strides[1] == 0);
    CHECK(t.get()->dl_tensor.strides != strides);
    CHECK(t.get()->dl_tensor.shape != two_by_three);
}

TEST_CASE("R25: a tensor of rank 0") {
    auto const t = make_managed(no_owner{}, tensor_view{memory, {}});
    CHECK(t.rank() == 0);
    CHECK(t.view().size() == 1);
    CHECK(t.as<float, 0>().data() == memory);
}

TEST_CASE("R26: an empty tensor is exported with NULL data, and with strides") {
    std::int64_t const shape[] = {2, 0};
    auto const t = make_managed(no_owner{}, tensor_view{memory, shape});
    CHECK(t.get()->dl_tensor.data == nullptr);
    CHECK(t.get()->dl_tensor.strides != nullptr);
    CHECK(t.view().is_empty());
    auto const u = make_managed(no_owner{}, tensor_view{static_cast<float*>(nullptr), shape});
    CHECK(u.get()->dl_tensor.data == nullptr);
    std::int64_t const garbage[] = {INT64_MIN, -1};
    auto const w = make_managed(no_owner{}, tensor_view{memory, shape, garbage});
    CHECK(w.view().is_contiguous());
}

TEST_CASE("R23: the byte offset of a view is added to an address, and exported with a handle") {
    tensor_view const at_address{
        static_cast<void*>(memory), ferry::dtype_of<float>, two_by_three, {}, ferry::cpu, flags::none, 12};
    CHECK(at_address.data() == memory + 3);
    auto const folded = make_managed(no_owner{}, at_address);
    CHECK(folded.get()->dl_tensor.byte_offset == 0);
    void const* const handle = memory;  // of a buffer object
    tensor_view const at_handle{handle, ferry::dtype_of<float>, two_by_three, {}, device_type::metal, flags::none, 12};
    CHECK(at_handle.is_read_only());
    auto const exported = make_managed(no_owner{}, at_handle);
    CHECK(exported.get()->dl_tensor.data == handle);
    CHECK(exported.get()->dl_tensor.byte_offset == 12);
}

TEST_CASE("R23: the data of an export is the address of the first element, with byte offset 0") {
    DLTensor foreign{};
    std::int64_t shape[] = {4};
    foreign.data = memory;
    foreign.byte_offset = 12;
    foreign.device = {static_cast<DLDeviceType>(1), 0};
    foreign.ndim = 1;
    foreign.dtype = ferry::dtype_of<float>.to_abi();
    foreign.shape = shape;
    auto const t = make_managed(no_owner{}, tensor_view{foreign, flags::none});
    CHECK(t.get()->dl_tensor.data == memory + 3);
    CHECK(t.get()->dl_tensor.byte_offset == 0);
    foreign.device.device_type = static_cast<DLDeviceType>(4);  // a handle, to which no offset can be added
    auto const u = make_managed(no_owner{}, tensor_view{foreign, flags::none});
    CHECK(u.get()->dl_tensor.data == memory);
    CHECK(u.get()->dl_tensor.byte_offset == 12);
    CHECK(u.view().byte_offset() == 12);
}

TEST_CASE("R35: id 0 is written for host, pinned and managed memory, and the device's id for others") {
    for (auto type : {device_type::cpu, device_type::cuda_host, device_type::rocm_host, device_type::cuda_managed}) {
        auto const t = make_managed(no_owner{}, tensor_view{memory, two_by_three, {}, {type, 5}});
        CHECK(t.get()->dl_tensor.device.device_id == 0);
        CHECK(t.device().type == type);
    }
    auto const t = make_managed(no_owner{}, tensor_view{memory, two_by_three, {}, {device_type::cuda, 5}});
    CHECK(t.get()->dl_tensor.device.device_id == 5);
}

TEST_CASE("R4: the smaller of the current and the requested version is stamped") {
    tensor_view const v{memory, two_by_three};
    for (std::uint32_t minor = 0; minor < 9; ++minor) {
        auto const t = make_managed(no_owner{}, v, flags::none, version{1, minor});
        CHECK(t.stamped() == version{1, minor < 3 ? minor : 3});
    }
    CHECK(make_managed(no_owner{}, v).stamped() == version{1, 3});
    // R57: the current version
    CHECK(make_managed(no_owner{}, v, flags::none, version{7, 0}).stamped() == version{1, 3});
    CHECK(make_managed(no_owner{}, v, flags::none, version::legacy).stamped() == version{1, 3});
}

TEST_CASE("R4, R13: FP8, FP6, FP4 and padding raise the stamp to 1.1") {
    for (int code = 7; code <= 17; ++code) {
        std::uint8_t const bits = code <= 14 ? 8 : code <= 16 ? 6 : 4;
        tensor_view const v{memory, {static_cast<ferry::type_code>(code), bits}, two_by_three};
        CHECK(make_managed(no_owner{}, v, flags::none, version{1, 0}).stamped() == version{1, 1});
        CHECK(make_managed(no_owner{}, v, flags::none, version{1, 2}).stamped() == version{1, 2});
    }
    tensor_view const padded{memory,     ferry::dtype_of<ferry::int4_t>, two_by_three, {},
                             ferry::cpu, flags::subbyte_padded};
    auto const t = make_managed(no_owner{}, padded, flags::none, version{1, 0});
    CHECK(t.stamped() == version{1, 1});
    CHECK(t.get()->flags == 4);
    auto legacy = make_managed(no_owner{}, padded);
    both_fail(
        errc::flags, [&] { static_cast<void>(legacy.release_legacy()); }, [&] { return legacy.try_release_legacy(); },
        {"R13", "max_version=(1, 0)"});
    tensor_view const packed{memory, ferry::dtype_of<ferry::int4_t>, two_by_three};
    CHECK(make_managed(no_owner{}, packed, flags::none, version{1, 0}).stamped() == version{1, 0});
}

TEST_CASE("R11: const elements are exported with READ_ONLY") {
    float const* const constant = memory;
    auto const t = make_managed(no_owner{}, tensor_view{constant, two_by_three});
    CHECK(t.get()->flags == 1);
    CHECK(t.is_read_only());
    auto const writable = make_managed(no_owner{}, tensor_view{memory, two_by_three});
    CHECK(writable.get()->flags == 0);
}

TEST_CASE("R12: IS_COPIED of a view is not exported") {
    tensor_view const v{memory, ferry::dtype_of<float>, two_by_three, {}, ferry::cpu, flags::is_copied};
    CHECK_FALSE(make_managed(no_owner{}, v).is_copied());
    auto const t = make_managed(no_owner{}, v, flags::is_copied);
    CHECK(t.is_copied());
    CHECK(t.get()->flags == 2);
}

TEST_CASE("R14: unknown bits are written as 0") {
    tensor_view const v{memory, ferry::dtype_of<float>, two_by_three, {}, ferry::cpu, flags{0xf0}};
    auto const t = make_managed(no_owner{}, v, flags{0xff00});
    CHECK(t.get()->flags == 0);
}

TEST_CASE("a view is validated before its owner is moved") {
    std::int64_t const one[] = {1}, negative[] = {2, -3}, huge[] = {INT64_MAX, 2};
    int alive = 0;
    owner o{alive};
    auto const refuses = [&](errc code, tensor_view v, std::initializer_list<char const*> texts) {
        both_fail(
            code, [&] { static_cast<void>(make_managed(std::move(o), v)); },
            [&] { return ferry::try_make_managed(std::move(o), v); }, texts);
        CHECK(o.owns());
        CHECK(alive == 1);
    };
    refuses(errc::strides, {memory, two_by_three, one}, {"ferry::make_managed", "2 extents", "1 strides"});
    refuses(errc::shape, {memory, negative}, {"shape[1] is -3"});
    refuses(errc::overflow, {memory, huge}, {"R32"});
    refuses(errc::null_data, {static_cast<float*>(nullptr), two_by_three}, {"6 elements"});
    refuses(errc::dtype, {memory, {ferry::type_code::bool_, 1}, two_by_three}, {"R17"});
    refuses(errc::device, {memory, two_by_three, {}, {static_cast<device_type>(6), 0}}, {"device type 6"});
}

TEST_CASE("after a failed allocation the owner is unchanged") {
    int const failures = support::for_each_failing_allocation([](int) {
        int alive = 0;
        {
            owner o{alive};
            try {
                auto const t = make_managed(std::move(o), tensor_view{memory, two_by_three});
                if (o.owns()) std::abort();
            } catch (...) {
                if (!o.owns()) std::abort();
                throw;
            }
        }
        if (alive != 0) std::abort();
    });
    CHECK(failures == 1);
}

TEST_CASE("try_make_managed returns the tensor, which owns the owner") {
    int alive = 0;
    {
        auto t = ferry::try_make_managed(owner{alive}, tensor_view{memory, two_by_three}, flags::is_copied, {1, 1});
        REQUIRE(t.has_value());
        CHECK(t->view().data() == memory);
        CHECK(t->is_copied());
        CHECK(t->stamped() == version{1, 1});
        CHECK(alive == 1);
        managed_tensor const taken = *std::move(t);
        CHECK(alive == 1);
    }
    CHECK(alive == 0);
}

TEST_CASE("try_make_managed returns errc::out_of_memory for a failed allocation, and the owner is unchanged") {
    int alive = 0;
    owner o{alive};
    auto code = errc::ok;
    {
        support::allocation_window window{1};
        auto const t = ferry::try_make_managed(std::move(o), tensor_view{memory, two_by_three});
        if (!t) code = t.error().code();
    }
    CHECK(code == errc::out_of_memory);
    CHECK(o.owns());
    CHECK(alive == 1);
}

TEST_CASE("try_make_managed returns a ferry::error that view_at throws, and passes other exceptions on") {
    int alive = 0;
    owner o{alive};
    ferry::error const sharded{errc::argument, "array::view", "the array is sharded"};
    auto const t = ferry::try_make_managed(std::move(o), [&](owner&) -> tensor_view { throw sharded; });
    REQUIRE_FALSE(t.has_value());
    CHECK(doctest::String{t.error().what()} == doctest::String{sharded.what()});
    CHECK_THROWS_AS(static_cast<void>(ferry::try_make_managed(
                        std::move(o), [](owner&) -> tensor_view { throw std::runtime_error{"no view"}; })),
                    std::runtime_error);
    CHECK(o.owns());
}

TEST_CASE("an owner whose move constructor throws is not consumed, and no memory leaks") {
    int destroyed = 0;
    {
        throwing_owner o{destroyed};
        support::allocation_window window;
        bool thrown = false;
        try {
            static_cast<void>(make_managed(std::move(o), always));
        } catch (std::runtime_error const&) {
            thrown = true;
        }
        CHECK(window.live() == 0);
        CHECK(thrown);
        CHECK(destroyed == 0);
    }
    CHECK(destroyed == 1);
}

TEST_CASE("when view_at throws, the owner is unchanged before the move, and destroyed exactly once after it") {
    int calls_until_throw = 0;
    for (int n = 1;; ++n) {
        int alive = 0, calls = 0;
        bool thrown = false, still_owns = false;
        {
            owner o{alive};
            support::allocation_window window;
            try {
                static_cast<void>(make_managed(std::move(o), [&](owner&) {
                    if (++calls == n) throw std::runtime_error{"no view"};
                    return tensor_view{memory, two_by_three};
                }));
            } catch (std::runtime_error const&) {
                thrown = true;
            }
            still_owns = o.owns();
            CHECK(window.live() == 0);
            CHECK(alive == (still_owns ? 1 : 0));
        }
        CHECK(alive == 0);
        if (!thrown) break;
        calls_until_throw = n;
        CHECK(calls == n);
        REQUIRE(n < 10);
    }
    CHECK(calls_until_throw >= 2);  // before the move, and after it
}

TEST_CASE("a view that differs after the move is refused, and the owner is destroyed exactly once") {
    std::int64_t const other_extent[] = {2, 4}, rank_1[] = {2}, strides[] = {3, 1}, other_strides[] = {1, 2},
                       short_strides[] = {1};
    std::int64_t const negative[] = {2, -3};
    struct {
        tensor_view before, after;
    } const rows[] = {
        {{memory, two_by_three}, {memory, rank_1}},
        {{memory, two_by_three}, {memory, other_extent}},
        {{memory, two_by_three}, {memory, negative}},
        {{memory, two_by_three}, {memory, two_by_three, strides}},
        {{memory, two_by_three, strides}, {memory, two_by_three}},
        {{memory, two_by_three, strides}, {memory, two_by_three, other_strides}},
        {{memory, two_by_three, strides}, {memory, two_by_three, short_strides}},
        {{memory, two_by_three}, {memory, {ferry::type_code::int_, 32}, two_by_three}},
        {{memory, two_by_three}, {static_cast<float*>(nullptr), two_by_three}},
        {{memory, two_by_three}, {}},
    };
    for (auto const& row : rows) {
        int alive = 0;
        owner o{alive}, other{alive};
        auto const view_at = [&](owner& x) { return &x == &o || &x == &other ? row.before : row.after; };
        both_fail(
            errc::argument, [&] { static_cast<void>(make_managed(std::move(o), view_at)); },
            [&] { return ferry::try_make_managed(std::move(other), view_at); },
            {"ferry::make_managed", "changed during its move"});
        CHECK_FALSE(o.owns());
        CHECK_FALSE(other.owns());
        CHECK(alive == 0);
    }
}

TEST_CASE("D13: a view of the object that the owner was moved from is refused, unless it is empty") {
    struct small {
        float data[6] = {};
    };
    std::int64_t const backwards[] = {-3, -1}, none[] = {0, 3};
    auto const moved = [](small& o, tensor_view v) { static_cast<void>(make_managed(std::move(o), v)); };
    auto const try_moved = [](small& o, tensor_view v) { return ferry::try_make_managed(std::move(o), v); };
    small o;
    for (auto const& v : {tensor_view{o.data, two_by_three}, tensor_view{o.data + 5, two_by_three, backwards}})
        both_fail(
            errc::argument, [&] { moved(o, v); }, [&] { return try_moved(o, v); },
            {"ferry::make_managed", "the object that it was moved from"});
    moved(o, {o.data, none});
    float outside[6] = {};
    moved(o, {outside, two_by_three});
    auto const t = make_managed(small{}, [](small& s) { return tensor_view{s.data, two_by_three}; });
    CHECK(t.as<float, 2>()(1, 2) == 0);
}

TEST_CASE("R20: data types have no byte order") {
    auto const t = make_managed(no_owner{}, tensor_view{memory, two_by_three});
    CHECK(t.get()->dl_tensor.dtype.code == 2);
    CHECK(t.get()->dl_tensor.dtype.bits == 32);
    CHECK(t.get()->dl_tensor.dtype.lanes == 1);
}

TEST_CASE("an owner whose device, flags or address range change during its move is refused") {
    float data[4] = {}, elsewhere[4] = {};
    auto const exports = [&] { return make_managed(changing{data}, changing::view); };
    auto const refused = [&] {
        support::fails(errc::argument, [&] { static_cast<void>(exports()); }, {"device and flags"});
    };
    auto const data_of = [](managed_tensor const& t) { return t.view().data(); };
    CHECK(data_of(exports()) == data);
    changing::moved_device = {ferry::device_type::cuda_host};
    refused();
    changing::moved_device = ferry::cpu;
    for (auto const bits : {flags::read_only, flags::subbyte_padded}) {
        changing::moved_flags = bits;
        refused();
    }
    changing::moved_flags = flags::is_copied;  // ignored
    CHECK_FALSE(exports().is_copied());
    changing::moved_flags = flags::none;
    changing::moved_data = elsewhere;
    CHECK(data_of(exports()) == elsewhere);
    changing::moved_data = reinterpret_cast<float*>(UINTPTR_MAX - 7);
    support::fails(errc::overflow, [&] { static_cast<void>(exports()); }, {"beyond the end"});
    changing::moved_data = nullptr;
    // The last of the elements that a negative stride reaches.
    static constexpr std::int64_t four[] = {4}, back[] = {-1};
    bool is_moved = false;
    auto const reversed = [&](no_owner) {
        auto* const first = std::exchange(is_moved, true) ? reinterpret_cast<float*>(8) : data + 3;
        return tensor_view{first, four, strides_view{back}};
    };
    support::fails(errc::overflow, [&] { static_cast<void>(make_managed(no_owner{}, reversed)); },
                   {"before the start"});
}

TEST_CASE("D25: an owner whose elements are in it is unchanged when make_managed refuses a view of them") {
    changing owner{nullptr};
    owner.extents[0] = 1;
    tensor_view const v{owner.extents, owner.extents};
    support::fails(errc::argument, [&] { static_cast<void>(make_managed(std::move(owner), v)); }, {"the object that"});
    CHECK_FALSE(owner.is_released);
    CHECK(ferry::try_make_managed(std::move(owner), v).error().code() == errc::argument);
    CHECK_FALSE(owner.is_released);
}
