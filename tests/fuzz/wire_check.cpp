// Descriptors with arbitrary numbers: a tensor passes the check exactly when an oracle in wide integers finds all of it
// in its memory; a valid one is converted to both formats unchanged, and an invalid one is not written.
#include "wire.hpp"

namespace {

using namespace ferry::wire;

std::uint64_t size(fuzz::bytes& in) { return static_cast<std::uint64_t>(number(in)); }

bool fits_63_bits(tensor const& t) {  // not in the oracle: the check counts bits in 63 bits
    fuzz::wide count = 1, lowest = 0, highest = 0;
    fuzz::wide const bits = bits_per_element(t.dtype, has(t.flags, ferry::flags::subbyte_padded));
    auto const small = [](fuzz::wide n) { return n <= INT64_MAX && n >= INT64_MIN; };
    for (auto const extent : t.shape)
        if (extent == 0) return true;
    for (std::size_t i = 0; i < t.shape.size(); ++i) {
        count *= t.shape[i];
        if (!small(count) || !small((count * bits + 7) / 8)) return false;
    }
    for (std::size_t i = 0; i < t.strides.size(); ++i) {
        fuzz::wide const reach = (t.shape[i] - 1) * fuzz::wide{t.strides[i]};
        (reach < 0 ? lowest : highest) += reach;
        if (!small(reach) || !small(lowest) || !small(highest)) return false;
    }
    if (t.strides.empty()) return true;
    return small(lowest * bits) && small((highest + 1) * bits);
}

memory take_memory(fuzz::bytes& in) {
    bool const cuda = in.flip();
    memory m{.kind = cuda ? memory_kind::cuda_legacy : memory_kind::host_shared,
             .type = cuda ? ferry::device_type::cuda : ferry::device_type::cpu,
             .id = size(in),
             .allocation = size(in),
             .offset = size(in),
             .length = size(in),
             .name = "/f"};
    if (cuda) m.device[0] = 1, m.handle.resize(handle_size), m.ready.resize(in.flip() ? handle_size : 0);
    return m;
}

node take_node(fuzz::bytes& in, int depth) {
    node n{.format = "i", .length = number(in), .null_count = -1, .offset = number(in), .flags = number(in)};
    for (auto k = in.below(4); k > 0; --k) n.buffers.push_back({in.below(3), size(in), size(in)});
    if (in.flip()) n.buffers.emplace_back();
    for (auto k = in.below(3); k > 0 && depth < 70 && !in.is_empty(); --k)
        n.children.push_back(take_node(in, depth + 1));
    if (in.flip() && depth < 70) n.dictionary.push_back(take_node(in, depth + 1));
    return n;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t count) {
    fuzz::bytes in{data, count};
    descriptor d;
    d.from.pid = in.take<std::uint8_t>();
    for (auto k = in.below(4); k > 0; --k) d.memories.push_back(take_memory(in));
    bool expected = true;
    for (auto const& m : d.memories) expected = expected && m.allocation <= static_cast<std::uint64_t>(INT64_MAX);
    if (in.flip()) {
        d.root = take_node(in, 1);
    } else if (in.below(4) == 3) {
        auto& all = d.root.emplace<list>();
        for (auto k = in.below(4); k > 0; --k) {
            if (in.flip()) all.emplace_back(take_node(in, 1));
            else
                all.emplace_back(tensor{.dtype = ferry::dtype_of<std::uint8_t>,
                                        .shape = {std::int64_t{in.below(100)}},
                                        .byte_offset = number(in),
                                        .memory = in.below(3)});
        }
    } else {
        tensor t{.memory = in.below(3)};
        constexpr ferry::data_type types[] = {
            {ferry::type_code::float_, 32}, {ferry::type_code::int_, 4},      {ferry::type_code::float6_e2m3fn, 6},
            {ferry::type_code::uint, 8},    {ferry::type_code::complex, 128}, {ferry::type_code::float_, 64, 65535}};
        t.dtype = types[in.below(6)];
        t.flags = ferry::known(ferry::flags{in.below(8)});
        t.byte_offset = number(in);
        auto const rank = in.below(66);
        for (unsigned i = 0; i < rank && !in.is_empty(); ++i) t.shape.push_back(number(in));
        if (in.flip())
            for (std::size_t i = 0; i < t.shape.size(); ++i) t.strides.push_back(number(in));
        bool negative = false;
        for (auto const extent : t.shape) negative = negative || extent < 0;
        expected = expected && (negative || fits_63_bits(t));
        d.root = t;
    }
    expected = expected && fuzz::lies_within(d);
    try {
        check(d);
    } catch (ferry::error const& e) {
        fuzz::saw(e.code());
        HOLDS(!expected && e.code() == ferry::errc::bad_descriptor);
        bool written = true;
        try {
            static_cast<void>(to_bytes(d));
        } catch (ferry::error const&) {
            written = false;
        }
        HOLDS(!written);
        return 0;
    }
    HOLDS(expected);
    fuzz::sound(d);
    return 0;
}
