// Adapters, from the minimal one of two lines to one with all functions of ferry::array_traits.
#include <ferry/ferry.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#undef NDEBUG  // the program is a test
#include <cassert>

// [member]
// A type with a member function ferry_view needs no specialisation.
struct samples {
    std::vector<double> values;

    ferry::inplace_view<1> ferry_view() { return {values.data(), {values.size()}}; }
    ferry::inplace_view<1> ferry_view() const { return {values.data(), {values.size()}}; }
};
// [/member]

// [grid]
struct grid {  // rows and columns are separate members
    float* data;
    std::int64_t rows, columns;
};

template <>
struct ferry::array_traits<grid> {
    static inplace_view<2> view(grid& g) { return {g.data, {g.rows, g.columns}}; }
    static inplace_view<2> view(grid const& g) { return {static_cast<float const*>(g.data), {g.rows, g.columns}}; }
    static constexpr bool owns = false;  // the pixels belong to another object
};
// [/grid]

struct volume {
    double const* data;
    std::vector<std::size_t> extents;
};

template <>
struct ferry::array_traits<volume> {
    // [sizes]
    // `extents` is a std::vector<std::size_t>: the integers may have any type, and the rank is at most 8.
    static inplace_view<8> view(volume const& v) { return {v.data, v.extents}; }
    // [/sizes]
    static constexpr bool owns = false;
};

struct bitmap {
    std::uint16_t* data;
    int height, width;
    std::size_t row_bytes;
};

template <>
struct ferry::array_traits<bitmap> {
    // [bytes]
    // `row_bytes` is the distance between two rows. element_strides throws unless it is a multiple of the element size (R30).
    static inplace_view<2> view(bitmap const& b) {
        auto const item = sizeof(std::uint16_t);
        return {b.data, {b.height, b.width}, element_strides<2>({b.row_bytes, item}, item)};
    }
    // [/bytes]
    static constexpr bool owns = false;
};

// [half]
struct my_half {  // IEEE binary16
    std::uint16_t bits;
};

template <>
struct ferry::dtype_traits<my_half> {
    static constexpr data_type value{type_code::float_, 16};  // bfloat16: {type_code::bfloat, 16}
};
// [/half]

enum class place { host, gpu };
struct slab {
    float* data;
    int count;
    place where;
    int gpu;
};

template <>
struct ferry::array_traits<slab> {
    // [device]
    // `where` is the library's own tag; `gpu` is the index of the GPU.
    static inplace_view<1> view(slab const& b) {
        ferry::device const dev = b.where == place::gpu ? ferry::device{device_type::cuda, b.gpu} : cpu;
        return {b.data, {b.count}, {}, dev};
    }
    // [/device]
    static constexpr bool owns = false;
};

// A library whose streams run ahead of its arrays. Its functions stand for those of an SDK.
struct sdk_event {
    bool is_complete = false;
};
int waiting_streams = 0;
void make_stream_wait(std::uintptr_t, sdk_event const*) { ++waiting_streams; }
void make_host_wait(sdk_event const*) {}

struct sdk_pool {
    float memory[8] = {};
    std::uintptr_t stream = 0;
    float* allocate(std::int64_t, std::uintptr_t on) { return stream = on, memory; }
} pool;

struct frame {
    float* data;
    std::int64_t count;
    sdk_event const* done;  // recorded behind the work that writes the frame
};

// [event]
struct frame_ready {
    sdk_event const* done;
    void wait_for_event(ferry::device, ferry::stream_token on) const {
        if (on.names_stream()) make_stream_wait(on.native_handle(), done);
        else make_host_wait(done);
    }
};

template <>
struct ferry::array_traits<frame> {
    static inplace_view<1> view(frame const& f) { return {f.data, {f.count}, {}, device_type::cuda}; }
    static frame share(frame const& f) { return f; }
    static frame_ready ready_on(frame const& f) { return {f.done}; }  // optional: without it, an export that must wait fails
};
// [/event]

struct constant {
    std::shared_ptr<float const> values;
    std::int64_t count;
};

template <>
struct ferry::array_traits<constant> {
    static inplace_view<1> view(constant const& c) { return {c.values.get(), {c.count}}; }
    // [lend_read_only]
    static constant share(constant const& c) { return c; }
    static constexpr bool lend_read_only = true;  // optional: without it, legacy consumers receive a copy
    // [/lend_read_only]
};

struct pooled {
    float* data;
    std::int64_t count;
    ferry::device place;
};

template <>
struct ferry::array_traits<pooled> {
    static inplace_view<1> view(pooled const& p) { return {p.data, {p.count}, {}, p.place}; }
    static pooled share(pooled const& p) { return p; }
    // [allocate]
    // `on` is optional: without it, any stream may use the memory as soon as allocate returns.
    static pooled allocate(data_type, shape_view shape, device d, stream_token on) {
        return {pool.allocate(shape[0], on.native_handle()), shape[0], d};
    }
    // [/allocate]
};

struct matrix {
    std::shared_ptr<void> owner;
    float* data;
    std::vector<std::int64_t> shape, strides;
};

template <>
struct ferry::array_traits<matrix> {
    // [view]
    static tensor_view view(matrix& m) { return {m.data, m.shape, m.strides}; }
    static tensor_view view(matrix const& m) { return {static_cast<float const*>(m.data), m.shape, m.strides}; }
    // [/view]
    // [share]
    static matrix share(matrix const& m) { return m; }  // increments a reference count, copies no elements
    // [/share]
    // [adopt]
    static matrix adopt(managed_tensor t) {
        auto const elements = t.as<float>();  // throws for another type, read-only or device memory
        auto const v = t.view();
        std::vector<std::int64_t> shape, strides;
        for (int i = 0; i < v.rank(); ++i) {
            shape.push_back(v.extent(i));
            strides.push_back(v.stride(i));
        }
        return {std::make_shared<managed_tensor>(std::move(t)), elements.data(), std::move(shape), std::move(strides)};
    }
    // [/adopt]
};

// [lend]
// A function of another library that reads a tensor during the call and does not store it.
double sum(DLTensor const* t);

double sum_of(samples const& s) {
    auto const lent = ferry::borrow(s);  // allocates nothing, owns nothing
    return sum(lent.dltensor());
}
// [/lend]

double sum(DLTensor const* t) {
    ferry::validate(*t);
    auto const values = ferry::as<double const, 1>(ferry::tensor_view{*t, ferry::flags::none});
    double total = 0;
    for (std::int64_t i = 0; i < values.extent(0); ++i) total += values(i);
    return total;
}

int main() {
    samples const mine{{1, 2, 3.5}};
    assert(sum_of(mine) == 6.5);

    float pixels[6] = {1, 2, 3, 4, 5, 6};
    grid g{pixels, 2, 3};
    auto const copied = ferry::to_dlpack(g, {.copy = ferry::copy_policy::always});
    assert((copied.as<float, 2>()(1, 0) == 4));
    double const voxels[2] = {1, 2};
    volume const v{voxels, {1, 1, 2}};
    assert((ferry::as<double const, 3>(ferry::view_of(v))(0, 0, 1) == 2));
    std::uint16_t rows[8] = {1, 2, 3, 0, 4, 5, 6, 0};
    bitmap const b{rows, 2, 3, 4 * sizeof(std::uint16_t)};
    assert((ferry::as<std::uint16_t, 2>(ferry::view_of(b))(1, 2) == 6));
    assert(ferry::dtype_of<my_half>.bits == 16);
    slab const there{pixels, 6, place::gpu, 1};
    assert((ferry::view_of(there).device() == ferry::device{ferry::device_type::cuda, 1}));

    sdk_event const done;
    frame const f{pixels, 6, &done};
    struct : ferry::share_only_back_end {
        bool reaches(ferry::device) const { return true; }
    } sdk;
    static_cast<void>(ferry::to_dlpack(f, {.stream = ferry::already_ready}, sdk));
    assert(waiting_streams == 0);
    static_cast<void>(ferry::to_dlpack(f, {.stream = ferry::stream_token::from_cuda_handle(std::uintptr_t{64})}, sdk));
    assert(waiting_streams == 1);
    constant const two{std::make_shared<float const>(2.0f), 1};
    assert(ferry::to_dlpack(two).is_read_only());
    auto lent = ferry::to_dlpack(two, {.copy = ferry::copy_policy::never, .max_version = ferry::version::legacy});
    DLManagedTensor* const legacy = lent.release_legacy();
    assert(legacy->dl_tensor.data == two.values.get());
    legacy->deleter(legacy);
    pooled const p{pixels, 6, ferry::cpu};
    auto const in_pool = ferry::to_dlpack(p, {.copy = ferry::copy_policy::always});
    assert(in_pool.view().data() == pool.memory && pool.memory[5] == 6 && pool.stream == 0);

    auto numbers = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4, 5, 6});
    matrix m{numbers, numbers->data(), {2, 3}, {3, 1}};

    // [exchange]
    ferry::managed_tensor out = ferry::to_dlpack(m);                   // share: the tensor holds another handle
    matrix back = ferry::from_dlpack<matrix>(std::move(out));          // adopt: the same memory
    matrix copy = ferry::from_dlpack<matrix>(m, {.copy = ferry::copy_policy::always});
    // [/exchange]
    matrix const columns{numbers, numbers->data(), {3, 2}, {1, 3}};
    // [order]
    auto const kept = ferry::to_dlpack(columns, {.copy = ferry::copy_policy::always});  // column-major, like the source
    auto const in_rows = ferry::to_dlpack(columns, {.copy = ferry::copy_policy::always, .layout = ferry::layout::contiguous});
    // [/order]
    assert(kept.view().is_contiguous(ferry::contiguity::column_major) && in_rows.view().is_contiguous());
    assert(back.data == m.data && copy.data != m.data && copy.data[5] == 6);

    try {
        static_cast<void>(ferry::from_dlpack<matrix>(std::as_const(mine), {.copy = ferry::copy_policy::always}));
        assert(false);
    } catch (ferry::error const& e) {
        assert(e.code() == ferry::errc::dtype);
    }
}
