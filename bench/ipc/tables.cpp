// Tables shared in place, in host memory: the share, an attach that maps the memory, and an attach that finds it in its
// session, against the same for a tensor of each allocation, in turns. Two sessions, so that an attach is no alias, as
// if they were two processes. Closing and releasing are not measured.
//
// usage: bench_ipc_tables [rounds]     prints a line for each case: name, columns, allocations, and the medians in µs
// of the table, of the tensors, and of the differences
#include <ferry/column.hpp>
#include <ferry/ipc.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using ferry::ipc::session;
using memory = ferry::buffer<ferry::ipc::shared_space>;

constexpr std::size_t rows = 512;
constexpr std::size_t bytes = rows * sizeof(double);

/// A table of doubles, without nulls, in one allocation or in one for each column.
struct table {
    std::vector<std::shared_ptr<memory>> allocations;
    ferry::column column;

    table(session& s, std::size_t columns, bool is_split) {
        auto const count = is_split ? columns : 1;
        auto const size = is_split ? bytes : bytes * columns;
        for (std::size_t i = 0; i < count; ++i)
            allocations.push_back(std::make_shared<memory>(size, ferry::ipc::shared_space{s}));
        std::vector<std::string> names;
        std::vector<ferry::column_buffer> buffers;
        for (std::size_t k = 0; k < columns; ++k) {
            auto* const at = static_cast<std::byte*>(static_cast<void*>(allocations[is_split ? k : 0]->data()));
            buffers.push_back({});
            buffers.push_back({at + (is_split ? 0 : k * bytes), static_cast<std::int64_t>(bytes)});
            names.push_back("column " + std::to_string(k));
        }
        std::vector<ferry::column_parts> children;
        for (std::size_t k = 0; k < columns; ++k)
            children.push_back({.format = "g",
                                .name = names[k].c_str(),
                                .length = static_cast<std::int64_t>(rows),
                                .buffers = {&buffers[2 * k], 2}});
        ferry::column_buffer const none[] = {{}};
        column = ferry::make_column(
            {.format = "+s", .length = static_cast<std::int64_t>(rows), .buffers = none, .children = children},
            std::make_shared<std::vector<std::shared_ptr<memory>>>(allocations));
    }
    /// An allocation as a tensor of bytes, read-only like a column.
    [[nodiscard]] ferry::managed_tensor tensor(std::size_t k) const {
        auto const& m = allocations[k];
        std::int64_t const shape[] = {static_cast<std::int64_t>(m->size())};
        ferry::tensor_view const view{static_cast<void const*>(m->data()), ferry::dtype_of<std::uint8_t>, shape};
        return ferry::make_managed(std::shared_ptr{m}, view);
    }
};

double median(std::vector<double>& all) {
    auto const middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::nth_element(all.begin(), middle, all.end());
    return *middle;
}

/// Microseconds that a call takes, without the destruction of what it returns.
template <class Call>
double timed(Call call) {
    auto const begin = std::chrono::steady_clock::now();
    auto const kept = call();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

template <class One, class Each>
void measure(char const* what, table const& t, std::size_t columns, int rounds, One one, Each each) {
    using made = decltype(each(std::size_t{0}));
    auto const all = [&] {
        std::vector<made> kept;
        kept.reserve(t.allocations.size());
        for (std::size_t k = 0; k < t.allocations.size(); ++k) kept.push_back(each(k));
        return kept;
    };
    std::vector<double> ours, tensors, above;
    for (int i = 0; i < rounds; ++i) {
        double took[2];
        for (bool const is_table : {i % 2 == 0, i % 2 != 0}) took[is_table] = is_table ? timed(one) : timed(all);
        ours.push_back(took[1]);
        tensors.push_back(took[0]);
        above.push_back(took[1] - took[0]);
    }
    std::printf("%s\t%zu\t%zu\t%.3f\t%.3f\t%.3f\n", what, columns, t.allocations.size(), median(ours), median(tensors),
                median(above));
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    using namespace ferry::ipc;
    int const rounds_of_one = std::clamp(argc > 1 ? std::atoi(argv[1]) : 2000, 200, 1'000'000);
    rlimit files{};  // each allocation and each mapping has a file
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) return 1;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) return 1;
    for (std::size_t const columns : {std::size_t{1}, std::size_t{10}, std::size_t{1000}})
        for (bool const is_split : {false, true}) {
            if (columns == 1 && is_split) continue;
            session own, forgets{{.unused_mappings = 0}}, keeps{{.unused_mappings = 4096}};
            table const t{own, columns, is_split};
            int const rounds = rounds_of_one / std::min(20, static_cast<int>(t.allocations.size()));
            ferry::ipc::share_options const in_place{.session = &own, .copy = ferry::copy_policy::never};
            measure(
                "share", t, columns, rounds, [&] { return share(t.column, in_place); },
                [&](std::size_t k) { return share(t.tensor(k), in_place); });
            auto const s = share(t.column, in_place);
            std::vector<ferry::ipc::shared> each;
            for (std::size_t k = 0; k < t.allocations.size(); ++k) each.push_back(share(t.tensor(k), in_place));
            for (auto* const at : {&forgets, &keeps}) {
                auto const first = attach_column(s.descriptor(), {.session = at});
                static_cast<void>(first);
            }
            auto const attaches = [&](char const* what, session& at) {
                measure(
                    what, t, columns, rounds, [&] { return attach_column(s.descriptor(), {.session = &at}); },
                    [&](std::size_t k) { return attach(each[k].descriptor(), {.session = &at}); });
            };
            attaches("attach, mapped", forgets);
            attaches("attach, found", keeps);
        }
}
