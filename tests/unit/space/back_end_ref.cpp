#include <ferry/space/back_end_ref.hpp>
#include <ferry/space/copy.hpp>
#include <support/fails.hpp>
#include <support/returned_errors.hpp>
#include <support/sim_space.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

using ferry::back_end_ref;
using ferry::device;
using ferry::device_type;

namespace {

std::int64_t const two[] = {2};
[[nodiscard]] ferry::tensor_view ints_at(void* p, device d = ferry::cpu) {
    return {p, ferry::dtype_of<int>, two, {}, d};
}

static_assert(ferry::marking_back_end<back_end_ref> && ferry::marking_back_end<back_end_ref const>);
static_assert(std::is_trivially_copyable_v<back_end_ref> && sizeof(back_end_ref) == 2 * sizeof(void*));
static_assert(std::is_convertible_v<ferry::host_back_end const&, back_end_ref>);
static_assert(std::is_convertible_v<ferry::destination<ferry::host_space>, back_end_ref>);
static_assert(!std::is_convertible_v<ferry::host_space, back_end_ref> && !std::is_convertible_v<int, back_end_ref>);

/// Memory or a mark of a given size that counts its owners.
template <std::size_t Bytes>
struct counted {
    counted() = default;
    explicit counted(int& n) : count{&n} { ++n; }
    counted(counted&& other) noexcept : count{std::exchange(other.count, nullptr)} {}
    counted& operator=(counted&& other) noexcept {
        std::swap(count, other.count);
        return *this;
    }
    ~counted() {
        if (count != nullptr) --*count;
    }
    [[nodiscard]] void* data() const noexcept { return const_cast<std::byte*>(room.data()); }

    int* count = nullptr;
    std::array<std::byte, Bytes> room{};
};

template <std::size_t Bytes>
struct counting_back_end : ferry::host_back_end {
    [[nodiscard]] counted<Bytes> allocate(device, std::size_t, ferry::stream_token) { return counted<Bytes>{count}; }
    [[nodiscard]] counted<Bytes> mark(ferry::stream_token) { return counted<Bytes>{count}; }
    int count = 0;
};

template <std::size_t Bytes>
void check_owner() {
    counting_back_end<Bytes> b;
    back_end_ref const ref{b};
    {
        auto got = ref.allocate(ferry::cpu, 1, {});
        REQUIRE(got);
        CHECK(b.count == 1);
        ferry::detail::any_owner owner{*std::move(got)};
        CHECK(b.count == 1);
        CHECK(owner.data() != nullptr);
        ferry::detail::any_owner other;
        CHECK(other.data() == nullptr);
        other = std::move(owner);
        CHECK(b.count == 1);
        // In place, the object has moved with its owner, and the address is that of the object.
        auto const inside = reinterpret_cast<std::byte*>(&other);
        auto const* const at = static_cast<std::byte*>(other.data());
        CHECK((at >= inside && at < inside + sizeof other) == (Bytes <= 32));
        other = ferry::detail::any_owner{};
        CHECK(b.count == 0);
    }
    {
        auto const mark = ref.mark({});
        CHECK(mark);
        CHECK(b.count == 1);
    }
    CHECK(b.count == 0);
}

}  // namespace

TEST_CASE("D24: an owner of memory or of a mark of any type destroys it once, in place or allocated") {
    check_owner<8>();
    check_owner<500>();
}

TEST_CASE("D24: an owner of a large object needs no operator new of its class") {
    struct large : counted<500> {
        using counted<500>::counted;
        static void* operator new(std::size_t) = delete;
        static void operator delete(void*) = delete;
    };
    int count = 0;
    ferry::detail::any_owner owner;
    REQUIRE(owner.store(large{count}));
    CHECK(count == 1);
    owner = {};
    CHECK(count == 0);
}

TEST_CASE("D24: a reference calls the operations of its back end, also of a temporary one") {
    CHECK(back_end_ref{ferry::host_only}.reaches(ferry::cpu));
    CHECK(!back_end_ref{ferry::host_only}.reaches(device_type::cuda));
    int const from[] = {1, 2};
    int to[] = {0, 0};
    auto const dst = ints_at(to), src = ints_at(const_cast<int*>(from));
    CHECK(ferry::copy(dst, src, ferry::destination{ferry::host_space{}}) == 8);
    CHECK(to[1] == 2);
    support::sim_system sim{device{device_type::cuda}};
    back_end_ref const ref{sim}, copy{ref};
    CHECK(copy.reaches(device_type::cuda));
    auto const on = sim.make_stream(device_type::cuda);
    auto const memory = ref.allocate(device_type::cuda, 8, on);
    REQUIRE(memory);
    CHECK(memory->data() != nullptr);
    CHECK(ferry::try_copy(ints_at(memory->data(), {device_type::cuda}), src, ref, on));
    CHECK(ref.mark(on));
}

TEST_CASE("D24: a mark of a back end without marks waits for nothing") {
    auto const mark = back_end_ref{ferry::host_only}.mark({});
    REQUIRE(mark);
    CHECK(mark->data() == nullptr);
}

TEST_CASE("D24: an error comes out in one way, thrown or returned by the back end") {
    device const gpu{device_type::cuda};
    support::sim_system sim{gpu};
    support::returning_back_end returning{sim};
    auto const on = sim.make_stream(device_type::cuda);
    support::fails_at_each_operation(
        returning.calls, sim, "allocate copy mark order wait", [&]() -> ferry::result<int> {
            back_end_ref const ref{returning};
            auto const memory = ref.allocate(gpu, 8, on);
            if (!memory) return memory.error();
            int from[] = {1, 2};
            if (auto const got = ferry::try_copy(ints_at(memory->data(), gpu), ints_at(from), ref); !got)
                return got.error();
            auto const mark = ref.mark(on);
            if (!mark) return mark.error();
            if (auto const got = ref.order(on, on); !got) return got.error();
            if (auto const got = ref.wait(on); !got) return got.error();
            return 0;
        });
    int a[] = {1, 2}, b[] = {0, 0};
    CHECK(ferry::copy(ints_at(b), ints_at(a), {}) == 8);  // bytes, by the host's back end
    CHECK(b[1] == 2);
    struct throws : ferry::host_back_end {
        bool copy(ferry::copy_plan const&, void*, device, void const*, device, ferry::stream_token) const {
            throw ferry::error{ferry::errc::driver, "test", "no copy"};
        }
    };
    int from[] = {1, 2}, to[] = {0, 0};
    support::fails(ferry::errc::driver, [&] { ferry::copy(ints_at(to), ints_at(from), throws{}); }, {"no copy"});
    auto const got = ferry::try_copy(ints_at(to), ints_at(from), throws{});
    REQUIRE(!got);
    CHECK(got.error().code() == ferry::errc::driver);
}
