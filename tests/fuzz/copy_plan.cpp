// Copies of random layouts compared with a loop over single bits (R13, R19, R26–R29): every byte of the destination is
// compared, and both sides are allocations of their exact size, so that AddressSanitizer detects accesses out of
// bounds.
#include "bytes.hpp"

#include <ferry/space/copy_plan.hpp>
#include <ferry/space/host_copy.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace {

using list = std::vector<std::int64_t>;

constexpr std::int64_t most_elements = 1 << 13, most_bits = 1 << 19;

/// The elements of one side: strides in elements, and the bits from the first element's byte to both ends.
struct side {
    list strides;
    std::int64_t unit = 8;  // bits between neighbours
    bool padded = false;
    std::int64_t first_byte = 0, end_byte = 0;
    std::unique_ptr<std::uint8_t[]> memory;
    std::size_t skew = 0;  // bytes before the first one: nothing is aligned

    [[nodiscard]] std::int64_t bytes() const { return end_byte - first_byte; }

    /// False when it is too large to try.
    bool lay_out(list const& shape, std::size_t skewed) {
        fuzz::wide low = 0, high = 0;
        for (std::size_t i = 0; i < shape.size(); ++i) {
            auto const reach = static_cast<fuzz::wide>(shape[i] - 1) * strides[i];
            (reach < 0 ? low : high) += reach;
        }
        low *= unit;
        high = (high + 1) * unit;
        if (high - low > most_bits) return false;
        first_byte = -((-static_cast<std::int64_t>(low) + 7) / 8);
        end_byte = (static_cast<std::int64_t>(high) + 7) / 8;
        skew = skewed;
        memory = std::make_unique<std::uint8_t[]>(skew + static_cast<std::size_t>(bytes()));
        return true;
    }
    [[nodiscard]] std::uint8_t* data() const { return memory.get() + skew - first_byte; }
};

/// A source may have any strides: repeated, negative, overlapping.
void read_source(fuzz::bytes& in, side& s, list const& shape) {
    s.strides.resize(shape.size());
    bool const compact = in.flip();
    std::int64_t step = 1;
    for (std::size_t i = shape.size(); i-- > 0;) {
        s.strides[i] = compact ? step : in.take<std::int8_t>();
        step *= shape[i];
    }
    if (compact && shape.size() > 1 && in.flip())
        std::swap(s.strides[0], s.strides[in.below(static_cast<unsigned>(shape.size()))]);
}

/// The elements of a destination are distinct: dimensions in any order and direction, with gaps.
void read_destination(fuzz::bytes& in, side& d, list const& shape) {
    d.strides.assign(shape.size(), 0);
    std::vector<std::size_t> order(shape.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
    bool const compact = in.flip();
    for (std::size_t i = order.size(); !compact && i > 1; --i)
        std::swap(order[i - 1], order[in.below(static_cast<unsigned>(i))]);
    std::int64_t step = 1;
    for (auto const i : order) {
        auto const how = compact ? 0u : in.below(8);
        d.strides[i] = how == 1 ? -step : step;
        step *= shape[i];
        if (how > 5) step += how - 5;
    }
}

bool bit(std::uint8_t const* base, std::int64_t at) { return (base[at >> 3] >> (at & 7) & 1) != 0; }
void set_bit(std::uint8_t* base, std::int64_t at, bool value) {
    auto const mask = static_cast<std::uint8_t>(1 << (at & 7));
    base[at >> 3] = static_cast<std::uint8_t>(value ? base[at >> 3] | mask : base[at >> 3] & ~mask);
}

/// Copies bit by bit; unpacking clears the padding (R13), padded elements are copied with their padding.
void copy_by_bits(std::uint8_t* to, side const& d, std::uint8_t const* from, side const& s, list const& shape,
                  std::int64_t bits) {
    list index(shape.size());
    std::int64_t count = 1;
    for (auto const n : shape) count *= n;
    for (; count > 0; --count) {
        std::int64_t at_d = 0, at_s = 0;
        for (std::size_t i = 0; i < shape.size(); ++i) at_d += index[i] * d.strides[i], at_s += index[i] * s.strides[i];
        if (d.unit == s.unit && d.unit % 8 == 0)
            std::memcpy(to + at_d * d.unit / 8, from + at_s * s.unit / 8, static_cast<std::size_t>(d.unit / 8));
        else
            for (std::int64_t b = 0; b < d.unit; ++b)
                set_bit(to, at_d * d.unit + b, b < bits && bit(from, at_s * s.unit + b));
        for (std::size_t i = shape.size(); i-- > 0; index[i] = 0)
            if (++index[i] < shape[i]) break;
    }
}

/// Two views that cannot be copied are refused with the reason; their data is not read.
void refuse(fuzz::bytes& in, ferry::tensor_view dst, ferry::tensor_view src, list const& shape) {
    auto wanted = ferry::errc::ok;
    list other = shape, strides(shape.size(), 0);
    std::int64_t count = 1;
    for (auto const n : shape) count *= n;
    auto const last = shape.empty() ? 0 : in.below(static_cast<unsigned>(shape.size()));
    switch (in.below(8)) {
        case 0: return;
        case 1:
            if (shape.empty()) return;
            ++other[last];
            wanted = ferry::errc::shape;
            src = {src.data(), src.dtype(), other, {}, ferry::cpu, src.flags()};
            break;
        case 2:
            wanted = ferry::errc::dtype;
            src = {src.data(), {ferry::type_code::bool_, 8}, src.shape(), src.strides(), ferry::cpu, src.flags()};
            break;
        case 3:
            wanted = ferry::errc::read_only;
            dst = {dst.writable_data(),    dst.dtype(), dst.shape(),
                   dst.strides(), ferry::cpu,  dst.flags() | ferry::flags::read_only};
            break;
        case 4:
            if (shape.empty() || shape[last] < 2 || count == 0) return;
            wanted = ferry::errc::strides;
            strides.assign(dst.strides().data(), dst.strides().data() + shape.size());
            strides[last] = 0;
            dst = {dst.writable_data(), dst.dtype(), dst.shape(), strides, ferry::cpu, dst.flags()};
            break;
        case 5:
            if (count == 0) return;
            wanted = ferry::errc::overflow;
            other.push_back(INT64_MAX);
            other.push_back(INT64_MAX);
            dst = {dst.writable_data(), dst.dtype(), other, {}, ferry::cpu, dst.flags()};
            src = {src.data(), src.dtype(), other, {}, ferry::cpu, src.flags()};
            break;
        case 6:
            if (count == 0) return;
            wanted = ferry::errc::null_data;
            src = {static_cast<void*>(nullptr), src.dtype(), src.shape(), src.strides(), ferry::cpu, src.flags()};
            break;
        default:
            if (count == 0) return;
            wanted = ferry::errc::strides;
            strides.push_back(1);
            src = {src.data(), src.dtype(), src.shape(), strides, ferry::cpu, src.flags()};
    }
    try {
        static_cast<void>(ferry::make_copy_plan(dst, src));
        HOLDS(false);
    } catch (ferry::error const& e) {
        fuzz::saw(e.code());
        HOLDS(e.code() == wanted);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    fuzz::bytes in{data, size};
    constexpr struct {
        ferry::type_code code;
        std::uint8_t bits;
        std::uint8_t lanes;
    } types[] = {
        {ferry::type_code::uint, 8, 1},          {ferry::type_code::uint, 16, 1},     {ferry::type_code::float_, 32, 1},
        {ferry::type_code::float_, 64, 1},       {ferry::type_code::complex, 128, 1}, {ferry::type_code::uint, 4, 1},
        {ferry::type_code::float6_e2m3fn, 6, 1}, {ferry::type_code::uint, 1, 1},      {ferry::type_code::uint, 8, 3},
        {ferry::type_code::uint, 4, 3},          {ferry::type_code::float_, 64, 9},   {ferry::type_code::uint, 2, 1}};
    auto const chosen = types[in.below(12)];
    ferry::data_type const type{chosen.code, chosen.bits, chosen.lanes};
    auto const mode = in.take<std::uint8_t>();

    list shape(in.below(7));
    std::int64_t count = 1;
    for (auto& n : shape) {
        n = in.below(256) < 200 ? in.below(9) : in.below(128);
        count *= n;
        if (count > most_elements) return -1;
    }

    side d, s;
    std::int64_t const bits = ferry::bits_per_element(type);
    d.padded = (mode & 1) != 0;
    s.padded = (mode & 2) != 0;
    d.unit = ferry::bits_per_element(type, d.padded);
    s.unit = ferry::bits_per_element(type, s.padded);
    read_destination(in, d, shape);
    read_source(in, s, shape);
    if (count == 0) shape.assign(shape.size(), 0);
    else if (!d.lay_out(shape, in.below(8)) || !s.lay_out(shape, in.below(8))) return -1;

    std::uint32_t state = in.take<std::uint32_t>() | 1;
    auto const noise = [&state] { return static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24); };
    std::unique_ptr<std::uint8_t[]> expected;
    if (count != 0) {
        std::generate_n(s.memory.get() + s.skew, s.bytes(), noise);
        std::generate_n(d.memory.get(), d.skew + static_cast<std::size_t>(d.bytes()), noise);
        expected = std::make_unique<std::uint8_t[]>(d.skew + static_cast<std::size_t>(d.bytes()));
        std::copy_n(d.memory.get(), d.skew + static_cast<std::size_t>(d.bytes()), expected.get());
        copy_by_bits(expected.get() + d.skew - d.first_byte, d, s.data(), s, shape, bits);
    }

    auto const flags_of = [](side const& x) { return x.padded ? ferry::flags::subbyte_padded : ferry::flags::none; };
    auto* const to = count != 0 ? d.data() : nullptr;
    auto* const from = count != 0 ? s.data() : nullptr;
    ferry::tensor_view const dst{to, type, shape, d.strides, ferry::cpu, flags_of(d)};
    ferry::tensor_view const src{from, type, shape, s.strides, ferry::cpu, flags_of(s)};
    refuse(in, dst, src, shape);
    auto const plan = ferry::make_copy_plan(dst, src);

    HOLDS((plan.kind == ferry::copy_kind::empty) == (count == 0));
    HOLDS(plan.total_bytes == (count * d.unit + 7) / 8);
    HOLDS(plan.rank >= 0 && plan.rank <= static_cast<int>(shape.size()));
    for (int i = 0; i < plan.rank; ++i) HOLDS(plan.extents[i] >= 2 && plan.dst_strides[i] > 0);
    ferry::copy_on_host(plan, to, from);
    if (count != 0)
        HOLDS(std::memcmp(d.memory.get(), expected.get(), d.skew + static_cast<std::size_t>(d.bytes())) == 0);
    return 0;
}
