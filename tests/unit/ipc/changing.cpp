// Columns in memory that another process writes while they are validated, copied, read, shared and exported: for at
// least 2,000 rounds, or FERRY_IPC_ROUNDS; and in all for at least FERRY_CHANGING_SECONDS.
#include <ferry/arrow.hpp>
#include <ferry/column.hpp>
#include <ferry/column/concat.hpp>
#include <ferry/ipc.hpp>

#include <support/pages.hpp>
#include <support/process.hpp>
#include <support/sim_space.hpp>

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
#include <string_view>
#include <vector>

using ferry::column;
using ferry::column_buffer;
using ferry::column_parts;
using ferry::column_view;

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

constexpr ferry::device gpu{ferry::device_type::cuda, 0};

/// Calls `use` for each item that can be read as a T.
template <class T, class F>
void for_each_item(column_view c, F use) {
    auto const all = c.try_values<T>();
    for (std::int64_t i = 0; all && i < all->size(); ++i)
        if (auto const item = all->try_at(i); item && *item) use(**item);
}
/// Reads the bytes of texts and of 8-bit integers, also in lists and in the first field of structs.
int sum_of(column_view c) {
    int sum = 0;
    for_each_item<std::string_view>(c, [&](std::string_view text) {
        for (char const byte : text) sum += byte;
    });
    for_each_item<std::int8_t>(c, [&](std::int8_t number) { sum += number; });
    for_each_item<column_view>(c, [&](column_view items) {
        sum += sum_of(items.type().id == ferry::type_id::structure ? items.field(0) : items);
    });
    return sum;
}
bool is_valid(column const& c) { return ferry::try_validate(c.view(), ferry::validation::full).has_value(); }

/// Reads, copies, shares or exports the column. Any values and any error are accepted.
void use(column const& c, int round, support::sim_system& sim) try {
    static std::atomic<int> results;
    switch (round % 5) {
        case 0: results += sum_of(c.view()); break;
        case 1: {
            column const two[] = {c, c.slice(1, c.length() - 2)};
            results += is_valid(ferry::concat(two));
            break;
        }
        case 2: results += is_valid(c.to(gpu, sim).to(ferry::cpu, sim)); break;
        case 3: {
            auto const shared = ferry::ipc::share(c);
            results += is_valid(ferry::ipc::share(shared.column()).column());
            break;
        }
        default: {
            ArrowArray array;
            ferry::to_arrow(c, &array);
            array.release(&array);
        }
    }
} catch (ferry::error const&) {
}

constexpr int changes = 21;  // calls of `change`, each for the same part of FERRY_CHANGING_SECONDS

/// Validates, compacts, validates again and uses a column while another process writes `wrong` and `right` to `word` in
/// turn.
template <class T>
void change(column_parts const& parts, T* word, T wrong) {
    auto const c = ferry::make_column(parts, std::make_shared<int>());
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
    support::sim_system sim{gpu};
    int accepted = 0, refused = 0;
    while (accepted == 0 || refused == 0 || accepted + refused < rounds ||  // both values have been seen
           std::chrono::steady_clock::now() < end) {
        ++(is_valid(c) ? accepted : refused);
        if (auto const copy = ferry::try_compact(c.view())) static_cast<void>(is_valid(*copy));
        if (auto const round = accepted + refused; round % 4 == 0) use(c, round / 4, sim);
    }
    writer.kill(SIGKILL);
    static_cast<void>(writer.wait());
    *word = right;
}

constexpr std::int32_t far = 0x3FFF'0000;

template <class T = std::int32_t>
std::vector<T> steps(T width) {
    std::vector<T> all;
    for (T i = 0; i <= 64; ++i) all.push_back(i * width);
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
    change({.format = "u", .length = 64, .buffers = buffers}, bytes + 100, '\xff');
    auto* const wide = memory.place(steps<std::int64_t>(4));
    column_buffer const large[] = {{}, {wide, 65 * 8}, {bytes, 256}};
    change({.format = "U", .length = 64, .buffers = large}, wide + 33, std::int64_t{1} << 40);
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
    column_buffer const none[] = {{}};
    column_parts const pair[] = {{.format = "c", .name = "key", .length = 64, .buffers = items, .flags = 0}, child[0]};
    column_parts const entries[] = {{.format = "+s", .length = 64, .buffers = none, .children = pair, .flags = 0}};
    change({.format = "+m", .length = 64, .buffers = lists, .children = entries}, offsets + 9, far);
    auto* const ids = memory.place(std::vector<std::int8_t>(64, 0));
    column_buffer const unions[] = {{ids, 64}, {offsets, 64 * 4}};
    change({.format = "+ud:0", .length = 64, .buffers = unions, .children = child}, offsets + 9, far);
    change({.format = "+ud:0", .length = 64, .buffers = unions, .children = child}, ids + 9, std::int8_t{5});
    change({.format = "+us:0", .length = 64, .buffers = {unions, 1}, .children = child}, ids + 9, std::int8_t{5});
}

TEST_CASE("views of lists whose offsets and sizes change are refused or read within their children") {
    shared_pages memory;
    auto* const values = memory.place(std::vector<std::int8_t>(64, 1));
    column_buffer const items[] = {{}, {values, 64}};
    column_parts const child[] = {{.format = "c", .length = 64, .buffers = items}};
    auto* const offsets = memory.place(steps(1));
    auto* const sizes = memory.place(std::vector<std::int32_t>(64, 1));
    column_buffer const lists[] = {{}, {offsets, 64 * 4}, {sizes, 64 * 4}};
    change({.format = "+vl", .length = 64, .buffers = lists, .children = child}, offsets + 9, far);
    change({.format = "+vl", .length = 64, .buffers = lists, .children = child}, sizes + 9, far);
    auto* const wide = memory.place(steps<std::int64_t>(1));
    column_buffer const large[] = {{}, {wide, 64 * 8}, {wide, 64 * 8}};  // item i has items i to 2 i
    change({.format = "+vL", .length = 32, .buffers = large, .children = child}, wide + 9, std::int64_t{1} << 40);
}

TEST_CASE("a validity and numbers that change are refused or read") {
    shared_pages memory;
    auto* const bits = memory.place(std::vector<std::uint8_t>(8, 255));
    auto* const numbers = memory.place(std::vector<std::int32_t>(64, 1));
    column_buffer const buffers[] = {{bits, 8}, {numbers, 256}}, flags[] = {{bits, 8}, {bits, 8}};
    change({.format = "i", .length = 64, .null_count = 0, .buffers = buffers}, bits + 3, std::uint8_t{0});
    change({.format = "b", .length = 64, .null_count = 0, .buffers = flags}, bits + 3, std::uint8_t{0});
    change({.format = "d:5,2,32", .length = 64, .buffers = buffers}, numbers + 3, std::int32_t{99'999'999});
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
