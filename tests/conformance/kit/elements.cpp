// Adapters whose only element type is half precision, bfloat16, FP8, or a type that the kit cannot read.
#include "elements.hpp"
#include "judged.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

namespace {

using sets = std::set<std::string>;

/// The rules that arrays in host memory without read-only arrays and without a count of live arrays do not have.
sets const without_device_and_hooks = {
    "R11 read_only",      "R11 read_only_export", "R15 legacy_read_only", "R6 release",  "R11 adopt_read_only",
    "R34 adopt_device",   "R44 current_stream",   "R43 import_ordered",   "R48 to_host", "R43 export_ordered",
    "R43 import_on_stream", "R50 queued_copy"};

sets broken(elements::format const& of, elements::fault fault) {
    elements::only = &of;
    elements::now = fault;
    judged const found = judge<elements::array<false>>(elements::maker{});
    elements::now = elements::fault::none;
    CHECK(!static_cast<bool>(found.sum));
    return found.broken;
}

void is_found_broken(elements::format const& of) {
    using enum elements::fault;
    CHECK(broken(of, strides_in_bytes).contains("R24 strides"));
    CHECK(broken(of, values_reversed).contains("R23 first_element"));
    CHECK(broken(of, type_as_integer).contains("R23 first_element"));
    CHECK(broken(of, type_of_other_half).contains("R23 first_element"));
    CHECK(broken(of, adopt_any_type).contains("R16 adopt_types"));
    CHECK(broken(of, adopt_copies).contains("R53 adopt"));
    CHECK(broken(of, adopt_without_strides).contains("R24 adopt_strides"));
    CHECK(broken(of, adopt_nothing).contains("R53 adopt"));
}

/// The rules whose checks read elements.
sets const of_elements = {"R23 first_element", "R24 strides",    "R7 move",       "R7 outlives_array",
                          "R57 legacy",        "R12 copy",       "R12 allocate_fresh", "R7 failed_copy"};

/// Checks that the adapter passes when its only type is the argument.
template <class Make>
void passes_as(elements::format const& of, Make make) {
    elements::only = &of;
    passes<elements::array<false>>(make, without_device_and_hooks);
}

/// Checks that no rule is broken, and that the rules about elements are not examined because of their type.
template <bool Lanes = false>
void is_not_examined(elements::format const& of, std::string const& type) {
    elements::only = &of;
    judged const found = judge<elements::array<Lanes>>(elements::maker<Lanes>{});
    INFO(found.told);
    CHECK(found.broken.empty());
    CHECK(found.not_examined == of_elements);
    CHECK(found.not_applicable == without_device_and_hooks);
    CHECK(found.told.find("the kit cannot read elements of type " + type) != std::string::npos);
    CHECK(found.kept.contains("R53 adopt"));
    CHECK(found.kept.contains("R16 adopt_types"));
}

}  // namespace

TEST_CASE("R16: an adapter whose only type is half precision or bfloat16 passes") {
    passes_as(elements::half, elements::maker{});
    passes_as(elements::brain, elements::maker{});
    passes_as(elements::brain, elements::typed_maker{});
}

TEST_CASE("R16: an adapter whose only type is FP8 passes, although not every integer up to 24 is representable") {
    passes_as(elements::e4m3, elements::maker{});
    passes_as(elements::e5m2, elements::typed_maker{});
}

TEST_CASE("R16: a faulty adapter of half precision or bfloat16 is reported under the rule that it breaks") {
    is_found_broken(elements::half);
    is_found_broken(elements::brain);
}

TEST_CASE("R53: the finding for an adapter that accepts no tensor has the error for a tensor of the maker's type") {
    elements::only = &elements::half;
    elements::now = elements::fault::adopt_nothing;
    judged const found = judge<elements::array<false>>(elements::maker{});
    elements::now = elements::fault::none;
    CHECK(found.told.find("the error for type float16 was: the library accepts nothing") != std::string::npos);
}

TEST_CASE("R16: the kit writes and reads every floating-point format of 16 and 8 bits but float8_e3m4") {
    namespace kit = ferry::conformance::detail;
    using enum ferry::type_code;
    struct encoding {
        ferry::data_type type;
        unsigned of_one, of_six;
    };
    for (auto const& [type, of_one, of_six] : {encoding{{float_, 16}, 0x3C00, 0x4600},
                                               {{complex, 32}, 0x3C00, 0x4600},
                                               {{bfloat, 16}, 0x3F80, 0x40C0},
                                               {{bcomplex, 32}, 0x3F80, 0x40C0},
                                               {{float8_e4m3, 8}, 0x38, 0x4C},
                                               {{float8_e4m3fn, 8}, 0x38, 0x4C},
                                               {{float8_e4m3b11fnuz, 8}, 0x58, 0x6C},
                                               {{float8_e4m3fnuz, 8}, 0x40, 0x54},
                                               {{float8_e5m2, 8}, 0x3C, 0x46},
                                               {{float8_e5m2fnuz, 8}, 0x40, 0x4A},
                                               {{float8_e8m0fnu, 8}, 0x7F, 0x81}}) {
        INFO(type.bits << " bits, code " << static_cast<int>(type.code));
        std::uint16_t element = 0;
        auto* const bytes = reinterpret_cast<std::byte*>(&element);
        kit::write_number(type, bytes, 1);
        CHECK(element == of_one);
        CHECK(kit::read_number(type, bytes) == 1);
        kit::write_number(type, bytes, 6);
        CHECK(element == of_six);
        CHECK(kit::is_number(type, bytes, 6));
        CHECK_FALSE(kit::is_number(type, bytes, 9));
    }
    CHECK_FALSE(kit::is_readable({float8_e3m4, 8}));
}

TEST_CASE("R16: elements that the kit cannot read are not examined, and all other rules are") {
    is_not_examined(elements::quad, "float128");
    is_not_examined<true>(elements::vector, "float32x4");
    is_not_examined(elements::nibble, "int4");
}
