// Counts the allocations of exchanges: prints lines `<what>: <number>`. A separate program, so that counting does not
// affect timings.
#include "exchange.hpp"

#include <ferry/ferry.hpp>

#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

int allocations = 0;

template <class Work>
void count(char const* what, Work work) {
    allocations = 0;
    work();
    std::printf("%s: %d\n", what, allocations);
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
    ++allocations;
    if (void* p = std::malloc(bytes)) return p;
    throw std::bad_alloc{};
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

int main() {
    using bench::owner;
    count("export, import, release", [] {
        auto* raw = ferry::to_dlpack(owner{bench::elements, bench::extents}).release();
        auto const back = ferry::from_dlpack(raw);
        benchmark::DoNotOptimize(back.get());
    });
    count("borrow", [] {
        owner lender{bench::elements, bench::extents};
        auto const loan = ferry::borrow(lender);
        benchmark::DoNotOptimize(loan.dltensor());
    });
}
