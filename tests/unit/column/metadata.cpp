// Key-value pairs of a schema.
#include <ferry/column/metadata.hpp>

#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <iterator>
#include <string>
#include <vector>

using ferry::errc;
using ferry::metadata_builder;
using ferry::metadata_entry;
using ferry::metadata_view;

static_assert(std::forward_iterator<metadata_view::iterator>);

TEST_CASE("the view reads the pairs that the builder wrote, in the same order, with any bytes") {
    std::string const nul{"\0\xff", 2};
    auto const bytes = metadata_builder{}
                           .add("ARROW:extension:name", "ferry.point")
                           .add("", "")
                           .add("k", nul)
                           .add("k", "second")
                           .bytes();
    metadata_view const view{bytes};
    std::vector<metadata_entry> const all{view.begin(), std::next(view.begin(), 4)};
    CHECK(view.size() == 4);
    CHECK(all ==
          std::vector<metadata_entry>{{"ARROW:extension:name", "ferry.point"}, {"", ""}, {"k", nul}, {"k", "second"}});
    CHECK(view.find("k") == nul);
    CHECK(view.find("").data() != nullptr);
    CHECK(view.find("none").data() == nullptr);
}

TEST_CASE("the binary format is that of Arrow: a count, then lengths and bytes") {
    std::int32_t const numbers[] = {1, 1, 2};
    auto const bytes = metadata_builder{}.add("k", "vv").bytes();
    REQUIRE(bytes.size() == 15);
    CHECK(std::memcmp(bytes.data(), &numbers[0], 4) == 0);
    CHECK(std::memcmp(bytes.data() + 4, &numbers[1], 4) == 0);
    CHECK(bytes[8] == 'k');
    CHECK(std::memcmp(bytes.data() + 9, &numbers[2], 4) == 0);
    CHECK(bytes.substr(13) == "vv");
    CHECK(metadata_builder{}.bytes().empty());
    CHECK(metadata_view{}.empty());
    CHECK(metadata_view{""}.empty());
}

TEST_CASE("truncated bytes, and negative numbers, are refused") {
    auto const bytes = metadata_builder{}.add("key", "value").bytes();
    for (std::size_t n = 1; n < bytes.size(); ++n) {
        // In an allocation of exactly their size, for AddressSanitizer.
        std::vector<char> const exact(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
        support::both_fail(
            errc::bad_column, [&] { metadata_view{{exact.data(), n}}; },
            [&] { return metadata_view::try_make({exact.data(), n}); }, {"metadata"});
    }
    for (std::size_t const at : {0U, 4U, 11U}) {
        auto negative = bytes;
        negative[at + 3] = '\x80';
        support::both_fail(
            errc::bad_column, [&] { metadata_view{negative}; }, [&] { return metadata_view::try_make(negative); });
    }
    CHECK(metadata_view{bytes + "more"}.size() == 1);
}
