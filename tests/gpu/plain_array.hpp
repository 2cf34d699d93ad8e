// GPU bytes that a handle can export, with an adapter for sharing.
#pragma once

#include <ferry/cuda/ipc.hpp>
#include <ferry/ipc/share.hpp>
#include <ferry/wire/binary.hpp>
#include <gpu/importer.hpp>
#include <gpu/world.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace support {

struct plain_array {
    static constexpr std::size_t bytes = std::size_t{4} << 20;

    std::shared_ptr<std::byte> memory;
    std::vector<std::int64_t> shape, strides;
    std::int64_t offset = 0;
    bool read_only = false;
    ferry::stream_token ready = ferry::already_ready;
};

/// A view on memory that its space has allocated.
template <class Space>
[[nodiscard]] plain_array make_plain_in(Space space, std::vector<std::int64_t> shape,
                                        std::vector<std::int64_t> strides = {}, std::int64_t offset = 0) {
    auto const owner = std::make_shared<ferry::buffer<Space>>(plain_array::bytes, std::move(space));
    return {{owner, static_cast<std::byte*>(owner->data())}, std::move(shape), std::move(strides), offset};
}
/// Of cudaMalloc.
[[nodiscard]] inline plain_array make_plain(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides = {},
                                            std::int64_t offset = 0) {
    return make_plain_in(ferry::cuda::device_space{0}, std::move(shape), std::move(strides), offset);
}

/// 0, 1, 2, … modulo 256, from the begin of the memory to its end.
inline void count_up(plain_array const& a) {
    std::vector<std::uint8_t> values(plain_array::bytes);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i);
    test_stream const s;
    must(cudaMemcpyAsync(a.memory.get(), values.data(), values.size(), cudaMemcpyHostToDevice, s.get()));
    s.finish();
}

/// Layouts in memory that counts upwards, and the values that they read.
struct arrangement {
    std::vector<std::int64_t> shape, strides;
    std::int64_t offset;
    std::vector<int> expected;
};
[[nodiscard]] inline std::vector<arrangement> arrangements() {
    return {{{4}, {}, 0, {0, 1, 2, 3}},
            {{2, 3}, {}, 100, {100, 101, 102, 103, 104, 105}},
            {{2, 3}, {16, 2}, 5, {5, 7, 9, 21, 23, 25}},
            {{3, 2}, {1, 3}, 7, {7, 10, 8, 11, 9, 12}},
            {{4}, {-2}, 50, {50, 48, 46, 44}},
            {{2, 2}, {0, 1}, 9, {9, 10, 9, 10}},
            {{}, {}, 33, {33}},
            {{0, 3}, {}, 0, {}}};
}

[[nodiscard]] inline std::vector<std::byte> text(ferry::ipc::shared const& s) {
    return ferry::wire::to_bytes(s.descriptor());
}
[[nodiscard]] inline std::vector<int> numbers(answer const& a) {
    std::vector<int> out;
    for (auto const b : a.bytes) out.push_back(static_cast<int>(b));
    return out;
}
/// Of 64 bits each.
[[nodiscard]] inline std::vector<std::int64_t> words(answer const& a) {
    std::vector<std::int64_t> out(a.bytes.size() / sizeof(std::int64_t));
    std::memcpy(out.data(), a.bytes.data(), out.size() * sizeof(std::int64_t));
    return out;
}
/// Devices on which memory of GPU 0 is opened: -1 is GPU 0 itself; also the next one, or a line that reports that there
/// is none.
[[nodiscard]] inline std::vector<std::int32_t> devices_to_open_on() {
    if (gpus() > 1) return {-1, 1};
    MESSAGE("SKIPPED: nothing is opened on a second GPU");
    return {-1};
}

[[nodiscard]] inline std::vector<std::byte> as_payload(std::initializer_list<std::int64_t> all) {
    auto const* const p = reinterpret_cast<std::byte const*>(all.begin());
    return {p, p + all.size() * sizeof(std::int64_t)};
}

}  // namespace support

template <>
struct ferry::array_traits<support::plain_array> {
    static tensor_view view(support::plain_array const& a) {
        return {reinterpret_cast<std::uint8_t*>(a.memory.get()) + a.offset,
                dtype_of<std::uint8_t>,
                a.shape,
                a.strides.empty() ? strides_view{} : strides_view{a.strides},
                support::gpu,
                a.read_only ? flags::read_only : flags::none};
    }
    static support::plain_array share(support::plain_array const& a) { return a; }
    static stream_token ready_on(support::plain_array const& a) { return a.ready; }
};
