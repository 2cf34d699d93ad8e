#include <ferry/tensor/validate.hpp>

#include <support/counting_producer.hpp>
#include <support/fails.hpp>
#include <support/pages.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <random>
#include <string>

using ferry::errc;
using ferry::flags;
using ferry::validate;
using support::both_fail;
using support::fails;
using tensor = support::counting_producer;

namespace {

constexpr std::int64_t big = std::int64_t{1} << 40;
alignas(8) std::byte memory[4096];

void accepts(tensor& t, flags bits = flags::none) {
    CHECK_NOTHROW(validate(t.tensor(), bits));
    CHECK(ferry::try_validate(t.tensor(), bits));
}
void refuses(tensor& t, errc code, std::initializer_list<char const*> texts, flags bits = flags::none) {
    both_fail(
        code, [&] { validate(t.tensor(), bits); }, [&] { return ferry::try_validate(t.tensor(), bits); }, texts);
}

}  // namespace

TEST_CASE("a valid tensor on any device is accepted") {
    for (int type : {1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21}) {
        tensor t{memory, support::float32, {2, 3}, {3, 1}};
        accepts(t.on(type, 3));
    }
}

TEST_CASE("R2: another major version is refused before any other field is read") {
    for (std::uint32_t major : {0u, 2u, 3u, 0xffff'ffffu}) {
        tensor t{nullptr, {255, 0, 0}, {-1}};  // every field is invalid
        t.raw.version = {major, 7};
        auto const shown = "version " + std::to_string(major) + ".7";
        both_fail(
            errc::version, [&] { validate(t.raw); }, [&] { return ferry::try_validate(t.raw); },
            {shown.c_str(), "(R2)", "max_version=(1, 3)"});
        CHECK(t.deleter_calls == 0);
    }
}

TEST_CASE("R3: every minor version is accepted") {
    for (std::uint32_t minor = 0; minor < 100; ++minor) {
        tensor t{memory, support::float32, {2}};
        t.raw.version = {1, minor};
        CHECK_NOTHROW(validate(t.raw));
    }
}

TEST_CASE("R14: unknown flag bits are ignored") {
    tensor t{memory, support::float32, {2}};
    t.raw.flags = ~std::uint64_t{0};
    CHECK_NOTHROW(validate(t.raw));
}

TEST_CASE("R3, R34: an unknown device type is refused, and the error contains its number") {
    for (int type : {0, 5, 6, 22, -1, 1000}) {
        tensor t{memory, support::float32, {2}};
        auto const shown = "device type " + std::to_string(type) + " ";
        refuses(t.on(type), errc::device, {shown.c_str(), "R34", "copy the tensor to the CPU"});
    }
}

TEST_CASE("R35, R36: negative ids are refused for device types with ids, and any id is accepted for others") {
    for (int type : {1, 2, 3, 11, 13})
        for (int id : {0, 1, 99}) {
            tensor t{memory, support::float32, {2}};
            accepts(t.on(type, id));
        }
    for (int type : {1, 3, 11, 13}) {
        tensor t{memory, support::float32, {2}};
        accepts(t.on(type, -1));
    }
    for (int type : {2, 4, 10, 12}) {
        tensor t{memory, support::float32, {2}};
        refuses(t.on(type, -7), errc::device, {"device id", "-7", "R36"});
    }
}

TEST_CASE("R3, R9, R16: an unknown type code is refused, and the error contains its number") {
    for (unsigned code : {19u, 100u, 255u}) {
        tensor t{memory, {static_cast<std::uint8_t>(code), 8, 1}, {2}};
        auto const shown = "(code " + std::to_string(code) + ", bits 8, lanes 1)";
        refuses(t, errc::dtype, {shown.c_str(), "R16", "uint8"});
    }
}

TEST_CASE("R17, R18: a width that the type code does not allow is refused, and the error contains the correct one") {
    tensor fp6{memory, {15, 8, 1}, {2}}, fp6_other{memory, {16, 4, 1}, {2}}, fp4{memory, {17, 8, 1}, {2}};
    tensor one_bit{memory, {6, 1, 1}, {2}}, no_bits{memory, {2, 0, 1}, {2}}, no_lanes{memory, {2, 32, 0}, {2}};
    refuses(fp6, errc::dtype, {"FP6 must have 6 bits (R18)", "bits 8", "uint8"});
    refuses(fp6_other, errc::dtype, {"FP6 must have 6 bits (R18)"});
    refuses(fp4, errc::dtype, {"FP4 must have 4 bits (R18)"});
    refuses(one_bit, errc::dtype, {"bool must have 8 bits (R17)"});
    refuses(no_bits, errc::dtype, {"bits 0"});
    refuses(no_lanes, errc::dtype, {"lanes 0"});
    tensor right{memory, {17, 4, 2}, {2}};
    accepts(right);
}

TEST_CASE("R32: negative ndim, missing shape and negative extents are refused") {
    tensor negative{memory, support::float32, {2}}, missing{memory, support::float32, {2, 2}};
    negative.tensor().ndim = -1;
    refuses(negative, errc::rank, {"ndim is -1", "(R32)"});
    negative.tensor().ndim = INT32_MIN;
    refuses(negative, errc::rank, {"ndim is -2147483648"});
    missing.tensor().shape = nullptr;
    refuses(missing, errc::shape, {"shape is NULL with ndim 2", "R25", "R32"});
    tensor extent{memory, support::float32, {2, 3, -4}};
    refuses(extent, errc::shape, {"shape[2] is -4", "(R32)"});
    tensor least{memory, support::float32, {0, INT64_MIN}};
    refuses(least, errc::shape, {"shape[1] is -9223372036854775808"});
}

TEST_CASE("R25: rank 0 has one element; its shape may be NULL, its data not") {
    tensor t{memory, support::float32, {}};
    accepts(t);
    t.tensor().shape = nullptr;
    accepts(t);
    t.tensor().data = nullptr;
    refuses(t, errc::null_data, {"1 element"});
}

TEST_CASE("R32: elements and bytes must fit 63 bits") {
    tensor elements{memory, support::uint8, {big, big}}, bytes{memory, support::float32, {big, 1 << 22}};
    tensor fits{memory, support::uint8, {big, 1 << 22}}, lanes{memory, {2, 64, 65535}, {1 << 30, 1 << 15}};
    refuses(elements, errc::overflow, {"(R32)"});
    refuses(bytes, errc::overflow, {"(R32)"});
    accepts(fits.on(4));
    refuses(lanes, errc::overflow, {"(R32)"});
}

TEST_CASE("R13, R19, R32: packed elements are counted in bits, padded ones in bytes") {
    tensor t{memory, {0, 4, 1}, {INT64_MAX}};
    t.on(4);  // data is a handle: the elements need no addresses
    accepts(t);
    accepts(t, flags::subbyte_padded);
    tensor wide{memory, {0, 4, 3}, {INT64_MAX / 12 * 8}};  // 12 bits fit, 16 do not
    wide.on(4);
    accepts(wide);
    refuses(wide, errc::overflow, {"(R32)"}, flags::subbyte_padded);
}

TEST_CASE("R24: NULL strides are accepted for every rank") {
    tensor t{memory, support::float32, {4, 5, 6}};
    CHECK(t.tensor().strides == nullptr);
    accepts(t);
}

TEST_CASE("R28, R29: negative and zero strides are accepted") {
    tensor negative{memory + 100, support::float32, {2, 3}, {-3, -1}},
        zero{memory, support::float32, {1000, 1000}, {0, 0}};
    accepts(negative);
    accepts(zero);
}

TEST_CASE("R27: any stride of a dimension of extent 1 is accepted") {
    for (std::int64_t stride : {INT64_MAX, INT64_MIN, std::int64_t{0}}) {
        tensor t{memory, support::float32, {1, 3, 1}, {stride, 1, stride}};
        accepts(t);
    }
}

TEST_CASE("R26: an empty tensor may have any data, any strides, and extents of any size") {
    for (void* data : {static_cast<void*>(nullptr), static_cast<void*>(memory), reinterpret_cast<void*>(1)}) {
        tensor plain{data, support::float32, {2, 0}},
            garbage{data, support::float32, {2, 0, 5}, {INT64_MIN, INT64_MAX, -1}};
        tensor huge{data, support::float32, {big, 0, big}}, last{data, support::float32, {big, big, 0}, {0, 0, 0}};
        accepts(plain);
        accepts(garbage);
        accepts(huge);
        accepts(last);
    }
}

TEST_CASE("R26: a tensor with elements must have data, on every device") {
    for (int type : {1, 2, 13, 4}) {
        tensor t{nullptr, support::float32, {2, 3}};
        refuses(t.on(type), errc::null_data, {"data is NULL", "6 elements", "(R26)"});
    }
}

TEST_CASE("R32: strides that leave the address space at either end are refused") {
    tensor up{memory, support::float32, {3}, {INT64_MAX / 2}}, down{memory, support::float32, {3}, {INT64_MIN / 2}};
    tensor product{memory, support::uint8, {3}, {INT64_MAX}},
        sum{memory, support::uint8, {2, 2}, {INT64_MAX / 2 + 1, INT64_MAX / 2 + 1}};
    tensor both{memory + 64, support::float32, {2, 2}, {big, -16}}, least{memory, support::float32, {2}, {INT64_MIN}};
    refuses(up, errc::overflow, {"strides", "(R32)"});
    refuses(down, errc::overflow, {"strides"});
    refuses(product, errc::overflow, {"strides"});
    refuses(sum, errc::overflow, {"strides"});
    refuses(least, errc::overflow, {"strides"});
    accepts(both.on(4));
}

TEST_CASE("R23, R32: elements before the first or after the last address are refused") {
    auto const at = [](std::uintptr_t address) { return reinterpret_cast<void*>(address); };
    tensor below{at(4096), support::float32, {3}, {-513}}, first{at(4096), support::float32, {3}, {-512}};
    refuses(below, errc::overflow, {"data is 4096", "before", "R32"}), accepts(first);
    below.tensor().byte_offset = 64;
    accepts(below);
    tensor above{at(UINTPTR_MAX - 4095), support::float32, {1025}}, last{at(UINTPTR_MAX - 4095), support::float32, {1024}};
    refuses(above, errc::overflow, {"beyond the end of the address space", "R32"}), accepts(last);
    last.tensor().byte_offset = 4;
    refuses(last, errc::overflow, {"beyond the end of the address space"});
    tensor spread{at(UINTPTR_MAX - 4095), support::float32, {2}, {1024}}, near{at(UINTPTR_MAX - 4095), support::uint8, {2}, {4095}};
    refuses(spread, errc::overflow, {"beyond the end of the address space"}), accepts(near);
    tensor nibbles{at(4096), {0, 4, 1}, {2}, {-8193}}, packed{at(4096), {0, 4, 1}, {2}, {-8192}};
    refuses(nibbles, errc::overflow, {"before"}), accepts(packed);
    accepts(below.on(4)), accepts(above.on(4));  // handles, to which no offset is added
    tensor empty{at(UINTPTR_MAX), support::float32, {0, 4096}};
    accepts(empty);
}

TEST_CASE("R23, R32: a byte offset within the address space is accepted") {
    tensor t{memory, support::float32, {2}};
    t.tensor().byte_offset = 2048;
    accepts(t);
    t.tensor().byte_offset = UINT64_MAX;
    refuses(t, errc::overflow, {"byte_offset is 18446744073709551615", "R23", "R32", "byte_offset to 0"});
    t.tensor().byte_offset = UINT64_MAX - reinterpret_cast<std::uintptr_t>(memory) + 1;
    refuses(t, errc::overflow, {"byte_offset"});
    t.tensor().data = reinterpret_cast<void*>(UINTPTR_MAX);  // any offset leaves the address space
    t.tensor().byte_offset = 1;
    refuses(t, errc::overflow, {"byte_offset is 1,", "R23"});
    t.on(4);  // data is a handle, to which no offset is added
    accepts(t);
    tensor empty{nullptr, support::float32, {0}};
    empty.tensor().byte_offset = UINTPTR_MAX;
    accepts(empty);
}

#if defined(__SIZEOF_INT128__)  // not on 32-bit targets, which have the next test
namespace {

__extension__ typedef __int128 wide;

// A second implementation of the rules, with wide integers.
bool is_sound(DLTensor const& t, bool padded) {
    ferry::data_type const type{t.dtype};
    if (!is_known(ferry::device{t.device}.type) || (t.device.device_id < 0 && !is_host_accessible(ferry::device{t.device})))
        return false;
    if (!is_valid(type) || t.ndim < 0) return false;
    if (t.ndim > 0 && t.shape == nullptr) return false;
    bool empty = false;
    for (int i = 0; i < t.ndim; ++i) {
        if (t.shape[i] < 0) return false;
        empty = empty || t.shape[i] == 0;
    }
    if (t.data == nullptr && !empty) return false;
    if (is_addressable(ferry::device{t.device}.type) &&
        wide{reinterpret_cast<std::uintptr_t>(t.data)} + t.byte_offset > UINT64_MAX)
        return false;
    if (empty) return true;
    wide const bits = bits_per_element(type, padded);
    wide count = 1, lowest = 0, highest = 0;
    for (int i = 0; i < t.ndim; ++i) {
        count *= t.shape[i];
        if (count > INT64_MAX) return false;
        if (t.strides == nullptr || t.shape[i] == 1) continue;
        wide const reach = wide{t.shape[i] - 1} * t.strides[i];
        (reach < 0 ? lowest : highest) += reach;
        if (lowest < INT64_MIN || highest > INT64_MAX) return false;
    }
    if ((count * bits + 7) / 8 > INT64_MAX) return false;
    if (t.strides != nullptr && (lowest * bits < INT64_MIN || (highest + 1) * bits > INT64_MAX)) return false;
    if (!is_addressable(ferry::device{t.device}.type)) return true;
    if (t.strides == nullptr) highest = count - 1;
    wide const first = (wide{reinterpret_cast<std::uintptr_t>(t.data)} + t.byte_offset) * 8;
    return first + lowest * bits >= 0 && first + (highest + 1) * bits <= (wide{UINTPTR_MAX} + 1) * 8;
}

}  // namespace

TEST_CASE("R3, R16-R18, R23-R29, R32: validate refuses exactly the invalid ones of random tensors") {
    std::mt19937_64 random{20};
    auto const one_of = [&](auto... values) {
        std::int64_t const all[] = {static_cast<std::int64_t>(values)...};
        return all[random() % (sizeof all / sizeof all[0])];
    };
    int sound = 0, rounds = 200'000;
    for (int round = 0; round < rounds; ++round) {
        tensor p{memory, support::float32, {}};
        auto& t = p.tensor();
        t.ndim = static_cast<std::int32_t>(round % 50 == 0 ? one_of(-1, INT32_MIN) : one_of(0, 1, 2, 3, 4, 8));
        for (int i = 0; i < tensor::max_rank; ++i) {
            p.shape[i] =
                one_of(1, 1, 2, 3, 5, 7, 64, 1 << 16, std::int64_t{1} << (random() % 63), random() % 40 == 0 ? 0 : 4,
                       random() % 40 == 0 ? -1 : 6, random() % 20 == 0 ? INT64_MAX : 9);
            p.strides[i] = one_of(0, 1, 1, 2, -1, -3, 24, std::int64_t{1} << (random() % 63),
                                  -(std::int64_t{1} << (random() % 63)), random() % 9 == 0 ? INT64_MIN : 8,
                                  random() % 9 == 0 ? INT64_MAX : 12);
        }
        if (random() % 2 == 0) t.strides = p.strides;
        if (random() % 30 == 0) t.shape = nullptr;
        if (random() % 20 == 0)
            t.data = reinterpret_cast<void*>(one_of(0, 0, 4096, -4096, INT64_MIN, std::int64_t{1} << 62));
        t.byte_offset =
            static_cast<std::uint64_t>(one_of(0, 0, 0, 16, std::int64_t{1} << 47, random() % 9 == 0 ? -1 : 0));
        p.on(static_cast<int>(random() % 20 == 0 ? one_of(0, 5, 6, 22, -1) : one_of(1, 2, 3, 4, 13, 15)),
             static_cast<int>(random() % 20 == 0 ? one_of(-1, INT32_MIN) : one_of(0, 1)));
        t.dtype = {static_cast<std::uint8_t>(one_of(0, 1, 2, 4, 5, 6, 15, 17, random() % 256)),
                   static_cast<std::uint8_t>(one_of(8, 8, 16, 32, 64, 4, 6, random() % 256)),
                   static_cast<std::uint16_t>(random() % 9 == 0 ? one_of(0, 2, 4, 65535) : 1)};
        bool const padded = random() % 2 == 0, want = is_sound(t, padded);
        bool taken = true;
        try {
            validate(t, padded ? flags::subbyte_padded : flags::none);
        } catch (ferry::error const&) {
            taken = false;
        }
        if (taken != want) {
            CAPTURE(round);
            CHECK(taken == want);
            break;
        }
        sound += want;
    }
    CHECK(sound > rounds / 20);
    CHECK(sound < rounds / 2);
}

#endif

TEST_CASE("R23, R32: on 32-bit targets, elements and byte offsets beyond 4 GiB are refused") {
    if constexpr (sizeof(void*) == 4) {
        std::int64_t const gibi = std::int64_t{1} << 30;
        tensor large{memory, support::float32, {gibi}}, apart{memory, support::float32, {2}, {gibi}},
            below{memory, support::float32, {2}, {-gibi}}, offset{memory, support::float32, {2}};
        refuses(large, errc::overflow, {"beyond the end", "(R23, R32)"});
        refuses(apart, errc::overflow, {"beyond the end"});
        refuses(below, errc::overflow, {"before the start"});
        offset.tensor().byte_offset = std::uint64_t{1} << 32;
        refuses(offset, errc::overflow, {"byte_offset is 4294967296"});
        tensor fits{memory, support::float32, {2}, {gibi / 16}};
        accepts(fits);
    }
}

TEST_CASE("R33: validate does not write the struct, and does not read the data") {
    support::two_pages pages;
    auto* t = new (pages.first()) DLManagedTensorVersioned{};
    auto* lists = reinterpret_cast<std::int64_t*>(pages.first() + 256);
    for (int i = 0; i < 4; ++i) lists[i] = 2 - i % 2;  // shape {2, 1}, strides {2, 1}
    t->version = {1, 2};
    t->dl_tensor.data = reinterpret_cast<void*>(16);  // not mapped
    t->dl_tensor.device = {static_cast<DLDeviceType>(1), 0};
    t->dl_tensor.ndim = 2;
    t->dl_tensor.dtype = support::float32;
    t->dl_tensor.shape = lists;
    t->dl_tensor.strides = lists + 2;
    pages.make_read_only();
    CHECK_NOTHROW(validate(*t));
}

TEST_CASE("errors of validate have the given api and source location") {
    tensor t{nullptr, support::float32, {2}};
    auto const line = static_cast<unsigned>(__LINE__ + 2);
    try {
        validate(t.tensor());
    } catch (ferry::error const& e) {
        CHECK(std::string{e.api()} == "ferry::validate");
        CHECK(e.where().line() == line);
        CHECK(std::strstr(e.where().file_name(), "validate.cpp") != nullptr);
    }
    fails(errc::null_data, [&] { validate(t.tensor(), flags::none, "mine"); }, {"mine: "});
}
