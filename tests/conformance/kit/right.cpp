// Correct adapters pass the kit, and rules that do not apply are reported.
#include "events.hpp"
#include "judged.hpp"
#include "library.hpp"
#include "owners.hpp"

#include <set>
#include <string>

TEST_CASE("R24: a complete adapter passes every check of the kit") {
    library::now = library::fault::none;
    passes<library::array>(library::maker{});
}

TEST_CASE("R43: an adapter whose ready_on returns an event passes every check of the kit") {
    passes<events::array>(events::maker{});
}

namespace {

using sets = std::set<std::string>;

sets const without_adopt = {"R53 adopt",   "R44 current_stream", "R43 import_ordered", "R43 export_ordered",
                            "R48 to_host", "R50 queued_copy",    "R62 failed_import",  "R43 import_on_stream"};
sets const without_allocate = {"R32 allocate_shape", "R17 allocate_dtype", "R12 allocate_fresh", "R40 allocate_device"};
sets const without_share = {"R53 share", "R59 repeated_export", "R7 outlives_array"};
sets const without_hooks = {"R11 read_only", "R11 read_only_export", "R15 legacy_read_only", "R6 release"};

sets all_of(std::initializer_list<sets> parts) {
    sets all;
    for (auto part : parts) all.merge(part);
    return all;
}

}  // namespace

namespace {

/// The array of the kit, with an adapter that returns results.
struct returning : library::array {};
struct returning_maker {
    returning operator()(ferry::shape_view s, ferry::data_type t) const { return {library::maker{}(s, t)}; }
    returning strided(ferry::shape_view s) const { return {library::maker{}.strided(s)}; }
    returning read_only(ferry::shape_view s) const { return {library::maker{}.read_only(s)}; }
    long long live() const { return library::live; }
};

}  // namespace

template <>
struct ferry::array_traits<returning> {
    using base = array_traits<library::array>;
    static result<tensor_view> view(returning const& a) { return base::view(a); }
    static result<returning> share(returning const& a) { return returning{base::share(a)}; }
    static result<returning> adopt(managed_tensor m, stream_token ready) {
        return returning{base::adopt(std::move(m), ready)};
    }
    static result<returning> allocate(data_type t, shape_view s, device d) {
        if (d != cpu) return error{errc::device, "returning", "no such device"};
        return returning{base::allocate(t, s, d)};
    }
    static stream_token ready_on(returning const& a) { return base::ready_on(a); }
    static stream_token current_stream(device d) { return base::current_stream(d); }
};

TEST_CASE("D17: an adapter that returns results passes every check of the kit") {
    library::now = library::fault::none;
    passes<returning>(returning_maker{});
}

TEST_CASE("R11: an adapter with only a view, for an array that owns its elements, passes") {
    passes<owners::matrix<owners::fault::none>>(
        owners::maker::of<owners::matrix<owners::fault::none>>{},
        all_of({without_adopt, without_allocate, without_share, without_hooks, {"R25 zero_d"}}));
}

TEST_CASE("D13: an array whose elements belong to another object passes") {
    passes<owners::reference>(owners::reference_maker{},
                              all_of({without_adopt,
                                      without_allocate,
                                      without_share,
                                      without_hooks,
                                      {"R25 zero_d", "R26 empty", "R26 empty_export", "R7 move"}}));
}

TEST_CASE("R11: an array of fixed shape with a member ferry_view passes") {
    passes<owners::point>(owners::point_maker{}, all_of({without_adopt,
                                                         without_allocate,
                                                         without_share,
                                                         without_hooks,
                                                         {"R25 zero_d", "R26 empty", "R26 empty_export"}}));
}

namespace {

/// The maker of a library that uses every device in this process.
struct reaching_maker : library::maker {
    bool reaches(ferry::device) const { return true; }
};

}  // namespace

TEST_CASE("R43: no simulated memory is offered to an adapter for a device that its library uses") {
    library::now = library::fault::none;
    judged const all = judge<library::array>(reaching_maker{});
    CHECK(all.broken.empty());
    CHECK(all.not_applicable == sets{"R44 current_stream", "R43 import_ordered", "R43 export_ordered", "R48 to_host",
                                     "R50 queued_copy", "R43 import_on_stream"});
    CHECK(all.told.find("check the adapter on a real device") != std::string::npos);
}
