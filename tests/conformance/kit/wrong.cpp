// Each fault is reported under the rule that it breaks.
#include "events.hpp"
#include "judged.hpp"
#include "library.hpp"
#include "owners.hpp"

#include <iterator>
#include <set>
#include <string>
#include <type_traits>

namespace {

struct expectation {
    library::fault fault;
    char const* what;
    char const* broken;
};
constexpr expectation all[] = {
#define WRONG(name, rule) {library::fault::name, #name, rule}
    WRONG(shape_reversed, "R32 shape"),
    WRONG(shape_with_one_more, "R32 shape"),
    WRONG(type_in_bytes, "R17 dtype"),
    WRONG(type_always_float, "R17 dtype"),
    WRONG(strides_in_bytes, "R24 strides"),
    WRONG(strides_forgotten, "R24 strides"),
    WRONG(stride_missing, "R24 strides"),
    WRONG(offset_forgotten, "R23 first_element"),
    WRONG(read_only_forgotten, "R11 read_only"),
    WRONG(flags_unknown, "R14 unknown_flags"),
    WRONG(misaligned, "R31 alignment"),
    WRONG(device_unknown, "R34 device"),
    WRONG(empty_flattened, "R26 empty"),
    WRONG(empty_refused, "R26 empty"),
    WRONG(scalar_as_one, "R25 zero_d"),
    WRONG(share_copies, "R53 share"),
    WRONG(share_without_owning, "R7 outlives_array"),
    WRONG(share_leaks, "R6 release"),
    WRONG(share_releases, "R59 repeated_export"),
    WRONG(allocate_swapped, "R32 allocate_shape"),
    WRONG(allocate_other_type, "R17 allocate_dtype"),
    WRONG(allocate_read_only, "R12 allocate_fresh"),
    WRONG(allocate_same_memory, "R12 allocate_fresh"),
    WRONG(allocate_overlapping, "R12 allocate_fresh"),
    WRONG(allocate_anywhere, "R40 allocate_device"),
    WRONG(allocate_leaks, "R6 release"),
    WRONG(adopt_drops, "R53 adopt"),
    WRONG(adopt_leaks, "R53 adopt"),
    WRONG(adopt_releases_twice, "R62 adopt_moved"),
    WRONG(adopt_copies, "R53 adopt"),
    WRONG(adopt_without_strides, "R24 adopt_strides"),
    WRONG(adopt_with_struct_data, "R23 adopt_byte_offset"),
    WRONG(adopt_null_strides_as_zero, "R24 adopt_null_strides"),
    WRONG(adopt_positive_strides, "R28 adopt_negative_strides"),
    WRONG(adopt_writable, "R11 adopt_read_only"),
    WRONG(adopt_on_cpu, "R34 adopt_device"),
    WRONG(adopt_any_type, "R16 adopt_types"),
    WRONG(adopt_keeps_struct, "R33 adopt_keeps_no_struct"),
    WRONG(adopt_writes_struct, "R33 adopt_writes_nothing"),
    WRONG(adopt_scalar_as_one, "R25 adopt_zero_d"),
    WRONG(adopt_null_refused, "R26 adopt_empty"),
    WRONG(adopt_nothing, "R53 adopt"),
    WRONG(adopt_touches_memory, "R43 import_ordered"),
    WRONG(adopt_forgets_stream, "R43 import_on_stream"),
    WRONG(ready_always, "R43 import_ordered"),
    WRONG(ready_nowhere, "R43 import_ordered"),
    WRONG(ready_on_null, "R43 import_ordered"),
    WRONG(ready_elsewhere, "R43 export_ordered"),
    WRONG(ready_on_other_family, "R43 import_ordered"),
    WRONG(current_on_null, "R44 current_stream"),
    WRONG(current_on_other_family, "R44 current_stream"),
#undef WRONG
};

}  // namespace

TEST_CASE("R24: each faulty adapter is reported under the rule that it breaks") {
    for (auto const& [fault, what, broken] : all) {
        library::now = fault;
        judged const found = judge<library::array>(library::maker{});
        library::now = library::fault::none;
        INFO(std::string{what} << ": expected a finding for " << broken << "; the kit reported:\n" << found.told);
        CHECK(found.broken.contains(broken));
        CHECK(!static_cast<bool>(found.sum));
    }
}

TEST_CASE("R24: the list of faults is complete") {
    CHECK(std::size(all) == static_cast<std::size_t>(library::fault::last) - 1);
}

TEST_CASE("R43: an adapter whose event does not follow the producer's work is reported") {
    for (auto const fault : {events::fault::recorded_elsewhere, events::fault::complete, events::fault::never_waits}) {
        events::now = fault;
        judged const found = judge<events::array>(events::maker{});
        events::now = events::fault::none;
        INFO(found.told);
        CHECK(found.broken.contains("R43 import_ordered"));
    }
}

TEST_CASE("R12, R15, R40: an adapter whose allocate takes a stream, or that lends read-only data, is reported if faulty") {
    auto const broken = [](library::fault fault) {
        library::now = fault;
        judged const found = judge<events::array>(events::maker{});
        library::now = library::fault::none;
        INFO(found.told);
        CHECK(!static_cast<bool>(found.sum));
        return found.broken;
    };
    CHECK(broken(library::fault::allocate_same_memory).contains("R12 allocate_fresh"));
    CHECK(broken(library::fault::allocate_anywhere).contains("R40 allocate_device"));
    CHECK(broken(library::fault::share_copies).contains("R15 legacy_read_only"));
}

TEST_CASE("R7, R11: faulty arrays that own their elements are reported") {
    auto const broken = []<owners::fault Fault>(std::integral_constant<owners::fault, Fault>) {
        using matrix = owners::matrix<Fault>;
        judged const found = judge<matrix>(owners::maker::of<matrix>{});
        INFO(found.told);
        CHECK(!static_cast<bool>(found.sum));
        return found.broken;
    };
    using enum owners::fault;
    CHECK(broken(std::integral_constant<owners::fault, const_writable>{}).contains("R11 const"));
    CHECK(broken(std::integral_constant<owners::fault, address_kept>{}).contains("R7 move"));
    CHECK(broken(std::integral_constant<owners::fault, extents_shared>{}).contains("R7 stable_view"));
}

TEST_CASE("R32: a maker that makes no array is reported") {
    judged const found = judge<owners::point>([](ferry::shape_view) -> owners::point { throw 1; });
    CHECK(found.broken == std::set<std::string>{"R32 make_something"});
}
