// Columns in memory that another process writes during their validation and their copy: for at least 2,000 rounds, or
// FERRY_IPC_ROUNDS; and in all for at least FERRY_CHANGING_SECONDS.
#include <ferry/column.hpp>
#include <ferry/column/concat.hpp>

#include <support/pages.hpp>
#include <support/process.hpp>

#include <doctest/doctest.h>

#include <sys/prctl.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

using ferry::column_buffer;
using ferry::column_parts;

namespace {

/// Pages that a forked process shares, every second one inaccessible. `place(values)` copies the values to the end of a
/// page, so that an access behind them ends the test.
class shared_pages {
   public:
    shared_pages() {
        for (std::size_t i = 0; i < count; ++i)
            support::protect_pages(begin_ + (2 * i + 1) * page, page, support::page_access::none);
    }
    shared_pages(shared_pages const&) = delete;
    shared_pages& operator=(shared_pages const&) = delete;
    ~shared_pages() {
        support::unmap_pages(begin_, 2 * count * page);
        support::close_page_file(file_);
    }

    template <class T>
    [[nodiscard]] T* place(std::vector<T> const& values) {
        REQUIRE(used_ < count);
        auto* const to = begin_ + (2 * used_++ + 1) * page - values.size() * sizeof(T);
        std::memcpy(to, values.data(), values.size() * sizeof(T));
        return reinterpret_cast<T*>(to);
    }

   private:
    static constexpr std::size_t count = 4;
    std::size_t const page = support::page_size();
    support::page_file const file_ = support::make_page_file(2 * count * page);
    std::byte* const begin_ = support::map_pages(file_, 2 * count * page);
    std::size_t used_ = 0;
};

constexpr int changes = 13;  // calls of `change`, each for the same part of FERRY_CHANGING_SECONDS

/// Validates, compacts and validates again while another process writes `wrong` and `right` to `word` in turn.
template <class T>
void change(column_parts const& parts, T* word, T wrong) {
    auto const column = ferry::make_column(parts, std::make_shared<int>());
    T const right = *word;
    support::process writer{[&](support::talk to) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // the loop has no end
        for (to.say(); true;) {
            for (int i = 0; i < 64; ++i) std::atomic_ref{*word}.store(wrong, std::memory_order_relaxed);
            for (int i = 0; i < 64; ++i) std::atomic_ref{*word}.store(right, std::memory_order_relaxed);
        }
        return 0;
    }};
    REQUIRE(writer.hear() == '.');
    char const *const more = std::getenv("FERRY_IPC_ROUNDS"), *const seconds = std::getenv("FERRY_CHANGING_SECONDS");
    int const rounds = more != nullptr ? std::atoi(more) : 2'000;
    auto const end = std::chrono::steady_clock::now() +
                     std::chrono::milliseconds{1000} * (seconds != nullptr ? std::atoi(seconds) : 0) / changes;
    int accepted = 0, refused = 0;
    while (accepted == 0 || refused == 0 || accepted + refused < rounds ||  // both values have been seen
           std::chrono::steady_clock::now() < end) {
        ++(ferry::try_validate(column, ferry::validation::full) ? accepted : refused);
        if (auto const copy = ferry::try_compact(column.view()))
            static_cast<void>(ferry::try_validate(*copy, ferry::validation::full));
    }
    writer.kill(SIGKILL);
    static_cast<void>(writer.wait());
    *word = right;
}

constexpr std::int32_t far = 0x3FFF'0000;

std::vector<std::int32_t> steps(std::int32_t width) {
    std::vector<std::int32_t> all;
    for (std::int32_t i = 0; i <= 64; ++i) all.push_back(i * width);
    return all;
}

}  // namespace

TEST_CASE("text whose offsets change is refused or read within its buffers") {
    shared_pages memory;
    auto* const offsets = memory.place(steps(4));
    auto* const bytes = memory.place(std::vector<char>(256, 'a'));
    column_buffer const buffers[] = {{}, {offsets, 65 * 4}, {bytes, 256}};
    change({.format = "u", .length = 64, .buffers = buffers}, offsets + 33, far);
    change({.format = "u", .length = 64, .buffers = buffers}, offsets + 64, far);
}

TEST_CASE("views whose sizes, buffers or offsets change are refused or read within their buffers") {
    shared_pages memory;
    std::vector<std::int32_t> items;
    for (std::int32_t i = 0; i < 8; ++i) items.insert(items.end(), {16, 0x61616161, 0, 16 * i});
    auto* const views = memory.place(items);
    auto* const bytes = memory.place(std::vector<char>(128, 'a'));
    auto* const sizes = memory.place(std::vector<std::int64_t>{128});
    column_buffer const buffers[] = {{}, {views, 128}, {bytes, 128}, {sizes, 8}};
    column_parts const parts{.format = "vu", .length = 8, .buffers = buffers};
    change(parts, views + 4, far);                // the size of an item
    change(parts, views + 6, std::int32_t{1});    // its buffer
    change(parts, views + 7, far);                // its offset
    change(parts, sizes, std::int64_t{1} << 40);  // the size of the buffer
}

TEST_CASE("nested columns whose offsets and type ids change are refused or read within their children") {
    shared_pages memory;
    auto* const offsets = memory.place(steps(1));
    auto* const values = memory.place(std::vector<std::int8_t>(64, 1));
    column_buffer const items[] = {{}, {values, 64}};
    column_parts const child[] = {{.format = "c", .length = 64, .buffers = items}};
    column_buffer const lists[] = {{}, {offsets, 65 * 4}};
    change({.format = "+l", .length = 64, .buffers = lists, .children = child}, offsets + 9, far);
    auto* const ids = memory.place(std::vector<std::int8_t>(64, 0));
    column_buffer const unions[] = {{ids, 64}, {offsets, 64 * 4}};
    change({.format = "+ud:0", .length = 64, .buffers = unions, .children = child}, offsets + 9, far);
    change({.format = "+ud:0", .length = 64, .buffers = unions, .children = child}, ids + 9, std::int8_t{5});
}

TEST_CASE("indices and run ends that change are refused or read within their values") {
    shared_pages memory;
    auto* const indices = memory.place(std::vector<std::int32_t>(64, 3));
    auto* const values = memory.place(std::vector<std::int8_t>(64, 1));
    column_buffer const items[] = {{}, {values, 64}};
    column_parts const child{.format = "c", .length = 64, .buffers = items};
    column_buffer const buffers[] = {{}, {indices, 64 * 4}};
    change({.format = "i", .length = 64, .buffers = buffers, .dictionary = &child}, indices + 9, far);
    std::vector<std::int32_t> all = steps(1);
    all.erase(all.begin());
    auto* const ends = memory.place(all);
    column_buffer const run_buffers[] = {{}, {ends, 64 * 4}};
    column_parts const runs[] = {{.format = "i", .name = "run_ends", .length = 64, .buffers = run_buffers, .flags = 0},
                                 {.format = "c", .name = "values", .length = 64, .buffers = items}};
    change({.format = "+r", .length = 64, .null_count = 0, .children = runs}, ends + 9, far);
}
