// Copies by the plain back end, compared with copies by the host: all pairs of memory kinds, all kinds of layout.
#include <gpu/world.hpp>

#include <array>
#include <random>
#include <vector>

namespace {

using namespace support;
using ferry::copy_kind;
using ferry::device;
using ferry::errc;
using ferry::tensor_view;

using list = std::vector<std::int64_t>;

/// Two layouts of one shape, in elements; the offset is of the first element, from the start of the memory.
struct layouts {
    char const* name;
    list shape;
    list dst_strides;
    std::int64_t dst_offset;
    list src_strides;
    std::int64_t src_offset;
};

/// Elements of memory that suffice for all layouts below.
constexpr std::int64_t room = 1 << 16;

std::vector<layouts> all_layouts() {
    return {
        {"compact", {40, 50}, {50, 1}, 7, {50, 1}, 3},
        {"one element", {}, {}, 5, {}, 9},
        {"rows out of a matrix", {40, 50}, {50, 1}, 0, {100, 1}, 20},
        {"rows into a matrix", {40, 50}, {90, 1}, 11, {50, 1}, 0},
        {"a box out of a volume", {6, 7, 8}, {56, 8, 1}, 0, {400, 20, 1}, 33},
        {"a box into a volume", {6, 7, 8}, {300, 10, 1}, 2, {56, 8, 1}, 0},
        {"slices apart by no whole rows", {6, 7, 8}, {301, 10, 1}, 2, {401, 20, 1}, 0},
        {"four loops", {3, 4, 5, 6}, {2000, 300, 17, 2}, 1, {3000, 400, 33, 3}, 5},
        {"single elements out of rows", {500}, {1}, 0, {7}, 1},
        {"single elements into rows", {500}, {7}, 3, {1}, 0},
        {"transposed", {60, 70}, {70, 1}, 0, {1, 60}, 0},
        {"transposed into rows", {60, 70}, {100, 1}, 9, {1, 64}, 4},
        {"channels first to last", {2, 9, 11, 3}, {297, 33, 3, 1}, 0, {297, 11, 1, 99}, 0},
        {"backwards source", {300}, {1}, 0, {-1}, 400},
        {"backwards rows", {40, 50}, {50, 1}, 0, {-60, 1}, 60 * 39},
        {"backwards destination", {300}, {-2}, 700, {1}, 0},
        {"both backwards, one dimension", {20, 30}, {-40, 1}, 40 * 19, {-50, 2}, 50 * 19},
        {"a repeated source", {20, 30}, {30, 1}, 0, {0, 1}, 8},
        {"one value repeated", {20, 30}, {33, 1}, 0, {0, 0}, 8},
        {"overlapping windows", {50, 8}, {8, 1}, 0, {1, 1}, 4},
        {"far apart", {5, 3}, {3, 1}, 0, {12000, 5000}, 0},
        {"an extent of 1 with any stride", {1, 50}, {-99, 1}, 0, {12345, 1}, 1},
        {"nothing", {0, 5}, {5, 1}, 0, {5, 1}, 0},
    };
}

struct place {
    device where;
    ferry::cuda::memory memory;
    explicit place(device d) : where{d}, memory{d, room * sizeof(float), {}} {}
    [[nodiscard]] float* data() const { return static_cast<float*>(memory.data()); }
    /// Written and read without ferry, and without waiting for the legacy stream.
    void put(std::vector<float> const& v) const { move(memory.data(), v.data(), v.size()); }
    [[nodiscard]] std::vector<float> get() const {
        std::vector<float> v(room);
        move(v.data(), memory.data(), v.size());
        return v;
    }
    static void move(void* to, void const* from, std::size_t n) {
        test_stream const s;
        must(cudaMemcpyAsync(to, from, n * sizeof(float), cudaMemcpyDefault, s.get()));
        s.finish();
    }
};

constexpr std::array<device, 4> kinds{ferry::cpu, gpu, pinned, managed};

}  // namespace

TEST_CASE("cuda: system copies every layout between all kinds of memory, and writes nothing else") {
    std::vector<float> values(room), background(room, -1.0f);
    std::iota(values.begin(), values.end(), 1.0f);
    test_stream const s;
    for (auto const& to : kinds)
        for (auto const& from : kinds) {
            place const dst{to}, src{from};
            src.put(values);
            for (auto const& l : all_layouts())
                for (bool const queued : {false, true}) {
                    INFO(l.name, " from ", ferry::name(from.type), " to ", ferry::name(to.type),
                         queued ? " on a stream" : "");
                    auto expected = background;
                    dst.put(background);
                    tensor_view const d{dst.data() + l.dst_offset, l.shape, l.dst_strides, to};
                    tensor_view const f{static_cast<float const*>(src.data()) + l.src_offset, l.shape, l.src_strides,
                                        from};
                    auto const plan = ferry::make_copy_plan(d, f);
                    if (plan.kind != copy_kind::empty)
                        ferry::copy_on_host(plan, expected.data() + l.dst_offset, values.data() + l.src_offset);
                    ferry::copy(d, f, ferry::cuda::system, queued ? s.token() : ferry::stream_token{});
                    CHECK(dst.get() == expected);
                }
        }
    CHECK(left_no_error());
}

TEST_CASE("cuda R19: elements that begin within a byte keep what shares their bytes") {
    std::mt19937 random{7};
    ferry::data_type const fp4{ferry::type_code::float4_e2m1fn, 4, 1};
    test_stream const s;
    for (auto const& to : kinds)
        for (auto const& from : kinds) {
            if (to.type == ferry::device_type::cpu && from.type == ferry::device_type::cpu) continue;
            place const dst{to}, src{from};
            std::vector<unsigned char> values(4096), background(4096);
            for (auto& v : values) v = static_cast<unsigned char>(random());
            for (auto& v : background) v = static_cast<unsigned char>(random());
            list const shape{9, 7}, odd{15, 1}, apart{30, 3}, compact{7, 1};
            for (auto const& [ds, ss] :
                 {std::pair{compact, odd}, std::pair{odd, compact}, std::pair{apart, odd}, std::pair{compact, apart}}) {
                auto expected = background;
                place::move(dst.memory.data(), background.data(), 1024);
                place::move(src.memory.data(), values.data(), 1024);
                tensor_view const d{dst.memory.data(), fp4, shape, ds, to};
                tensor_view const f{static_cast<void const*>(src.memory.data()), fp4, shape, ss, from};
                auto const plan = ferry::make_copy_plan(d, f);
                ferry::copy_on_host(plan, expected.data(), values.data());
                ferry::copy(d, f, ferry::cuda::system, s.token());
                std::vector<unsigned char> got(4096);
                place::move(got.data(), dst.memory.data(), 1024);
                CHECK(got == expected);
            }
        }
}

TEST_CASE("cuda: host memory that was copied from may be overwritten at once, pinned or not") {
    test_stream const s;
    constexpr std::size_t n = std::size_t{4} << 20;
    ferry::cuda::memory const far{gpu, n * sizeof(float), {}}, locked{pinned, n * sizeof(float), {}};
    std::vector<float> pageable(n);
    std::int64_t const shape[] = {static_cast<std::int64_t>(n)};
    for (auto* const source : {pageable.data(), static_cast<float*>(locked.data())}) {
        std::iota(source, source + n, 1.0f);
        gate closed{s.get()};
        opener const later{closed};
        tensor_view const d{static_cast<float*>(far.data()), shape, {}, gpu},
            f{static_cast<float const*>(source), shape};
        auto const plan = ferry::make_copy_plan(d, f);
        ferry::cuda::system.copy(plan, far.data(), gpu, source, ferry::cpu, s.token());
        std::fill(source, source + n, -1.0f);
        s.finish();
        CHECK(read(far.data(), 1000) == [] {
            std::vector<float> v(1000);
            std::iota(v.begin(), v.end(), 1.0f);
            return v;
        }());
        CHECK(read(static_cast<float*>(far.data()) + n - 1, 1)[0] == static_cast<float>(n));
    }
}

TEST_CASE("cuda: copies between memory of the host run in the order of their stream") {
    test_stream const s;
    for (auto const from : {pinned, managed})
        for (auto const to : kinds) {
            CAPTURE(ferry::name(from.type));
            CAPTURE(ferry::name(to.type));
            auto const src = make_poisoned(from, {1000});
            auto dst = make_poisoned(to, {1000});
            load_kernels();
            gate closed{s.get()};
            opener const later{closed};
            iota(src.first(), 1000, s.get());
            ferry::copy(ferry::view_of(dst), ferry::view_of(src), ferry::cuda::system, s.token());
            CHECK_GATED(!closed.was_forced());
            CHECK(is_iota(read(dst.first(), 1000)));
        }
}

TEST_CASE("cuda: rows with a stride beyond the largest pitch") {
    constexpr std::int64_t far_apart = (std::int64_t{1} << 31) + 4096;  // bytes
    ferry::cuda::memory const src{gpu, static_cast<std::size_t>(2 * far_apart + 64), {}}, dst{gpu, 64, {}};
    test_stream const s;
    load_kernels();
    for (int i = 0; i < 3; ++i)
        iota(reinterpret_cast<float*>(static_cast<std::byte*>(src.data()) + i * far_apart), 4, s.get());
    s.finish();
    std::int64_t const shape[] = {3, 4}, steps[] = {far_apart / 4, 1};
    ferry::copy(tensor_view{static_cast<float*>(dst.data()), shape, {}, gpu},
                tensor_view{static_cast<float const*>(src.data()), shape, steps, gpu}, ferry::cuda::system, s.token());
    CHECK(read(dst.data(), 12) == std::vector<float>{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4});
}
