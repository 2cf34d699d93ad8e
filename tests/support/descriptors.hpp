// Valid descriptors of each kind of share.
#pragma once

#include <ferry/wire/descriptor.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace support {

inline ferry::wire::uuid a_uuid(std::uint8_t first) {
    ferry::wire::uuid u{};
    for (auto& byte : u) byte = first++;
    return u;
}

inline std::vector<std::byte> a_handle(unsigned char first) {
    std::vector<std::byte> out;
    for (int i = 0; i < 64; ++i) out.push_back(static_cast<std::byte>(first + i));
    return out;
}

/// `length` bytes of host memory, 4096 bytes into their segment.
inline ferry::wire::memory host_memory(std::uint64_t length) {
    return {.kind = ferry::wire::memory_kind::host_shared,
            .type = ferry::device_type::cpu,
            .device = {},
            .id = 7,
            .allocation = length + 8192,
            .offset = 4096,
            .length = length,
            .name = "/ferry-1000-4026531836-42-123456-7"};
}

inline ferry::wire::memory cuda_memory(ferry::wire::memory_kind kind, std::uint64_t length) {
    return {.kind = kind,
            .type = ferry::device_type::cuda,
            .device = a_uuid(0xa0),
            .id = 8,
            .allocation = 2u << 20,
            .offset = 512,
            .length = length,
            .name = "/ferry-1000-4026531836-42-123456-8",
            .handle = a_handle(1),
            .ready = a_handle(100)};
}

inline ferry::wire::descriptor describe(ferry::wire::memory m, ferry::wire::tensor t) {
    return {.from = {.pid = 42, .pid_namespace = 4026531836, .boot_id = a_uuid(0x10)},
            .memories = {std::move(m)},
            .root = std::move(t)};
}

/// A struct column of a nullable int32, a dictionary of strings, and a name that is not ASCII.
inline ferry::wire::descriptor a_column() {
    using ferry::wire::node;
    auto d = describe(host_memory(4096), {});
    d.memories.push_back(host_memory(1024));
    node numbers{.format = "i",
                 .name = "n\u00famero",
                 .length = 10,
                 .null_count = 2,
                 .offset = 3,
                 .flags = 2,
                 .buffers = {{0, 0, 64}, {0, 64, 64}}};
    node words{.format = "u", .length = 3, .null_count = 0, .buffers = {{}, {1, 0, 16}, {1, 64, 12}}};
    node keys{.format = "c",
              .name = "\"quoted\"\n",
              .metadata = a_handle(0),
              .length = 10,
              .null_count = 0,
              .buffers = {{}, {0, 128, 10}}};
    keys.dictionary.push_back(words);
    node all{.format = "+s", .length = 10, .null_count = -1, .buffers = {{}}};
    all.children = {numbers, keys};
    d.root = all;
    return d;
}

/// Tensors and columns of different lengths, types and devices in three memories, two of them in one.
inline ferry::wire::descriptor a_list() {
    auto d = a_column();
    d.memories.push_back(cuda_memory(ferry::wire::memory_kind::cuda_legacy, 96));
    d.root = ferry::wire::list{
        ferry::wire::tensor{.dtype = ferry::dtype_of<float>, .shape = {4, 6}, .memory = 2},
        std::get<ferry::wire::node>(d.root),
        ferry::wire::tensor{.dtype = ferry::dtype_of<std::uint8_t>, .shape = {7}, .byte_offset = 200},
        ferry::wire::node{.format = "n", .length = 5},
    };
    return d;
}

struct named_descriptor {
    std::string name;
    ferry::wire::descriptor d;
};

inline std::vector<named_descriptor> descriptors() {
    using ferry::data_type, ferry::flags, ferry::type_code, ferry::wire::memory_kind;
    constexpr data_type f32{type_code::float_, 32}, i4{type_code::int_, 4}, f6{type_code::float6_e2m3fn, 6};
    std::vector<std::int64_t> const ones(64, 1);
    auto large = describe(host_memory(80), {.dtype = {type_code::uint, 64}, .shape = {10}});
    large.from.pid_namespace = UINT64_MAX;
    large.memories[0].id = (std::uint64_t{1} << 53) + 1;
    large.memories[0].allocation = INT64_MAX;
    auto ready = describe(cuda_memory(memory_kind::cuda_legacy, 96), {.dtype = f32, .shape = {2, 3}});
    ready.memories[0].ready.clear();
    return {
        {"compact", describe(host_memory(96), {.dtype = f32, .shape = {4, 6}})},
        {"a slice of every other row",
         describe(host_memory(96), {.dtype = f32, .shape = {2, 2}, .strides = {12, 1}, .byte_offset = 8})},
        {"read-only", describe(host_memory(24), {.dtype = f32, .shape = {6}, .flags = flags::read_only})},
        {"broadcast", describe(host_memory(4), {.dtype = f32, .shape = {1000, 1000}, .strides = {0, 0}})},
        {"backwards", describe(host_memory(24), {.dtype = f32, .shape = {6}, .strides = {-1}, .byte_offset = 20})},
        {"a stride that is never used",
         describe(host_memory(24), {.dtype = f32, .shape = {1, 6}, .strides = {INT64_MIN, 1}})},
        {"empty", describe({}, {.dtype = f32, .shape = {0, 3}})},
        {"empty, of huge extents",
         describe({}, {.dtype = f32, .shape = {INT64_MAX, INT64_MAX, 0}, .strides = {1, INT64_MAX, 5}})},
        {"an empty part of memory", describe(host_memory(16), {.dtype = f32, .shape = {0}, .byte_offset = 16})},
        {"rank 0", describe(host_memory(4), {.dtype = f32})},
        {"rank 64", describe(host_memory(4), {.dtype = f32, .shape = ones, .strides = ones})},
        {"packed", describe(host_memory(4), {.dtype = i4, .shape = {7}})},
        {"packed, backwards", describe(host_memory(4), {.dtype = i4, .shape = {7}, .strides = {-1}, .byte_offset = 3})},
        {"padded", describe(host_memory(7), {.dtype = f6, .shape = {7}, .flags = flags::subbyte_padded})},
        {"lanes", describe(host_memory(48), {.dtype = {type_code::float_, 32, 4}, .shape = {3}})},
        {"large numbers", large},
        {"CUDA",
         describe(cuda_memory(memory_kind::cuda_legacy, 96), {.dtype = f32, .shape = {2, 3}, .byte_offset = 48})},
        {"CUDA, ready already", ready},
        {"a CUDA pool", describe(cuda_memory(memory_kind::cuda_pool, 24), {.dtype = f32, .shape = {2, 3}})},
        {"a column", a_column()},
        {"a list", a_list()},
        {"an empty list",
         [] {
             auto d = describe({}, {});
             d.root = ferry::wire::list{};
             return d;
         }()},
    };
}

}  // namespace support
