// Bits of a column against memcpy: counted, re-aligned, unpacked to bytes and packed again.
// usage: bench_bits [rounds]; prints a line for each: what, seconds, seconds of memcpy for as many bytes, measured in
// turns
#include <ferry/column/detail/bits.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

/// Medians of two bodies that take turns.
template <class Ours, class Peer>
void measure(char const* what, int rounds, Ours ours, Peer peer) {
    auto const seconds = [](auto const& body) {
        auto const begin = std::chrono::steady_clock::now();
        body();
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    std::vector<double> mine, theirs;
    for (int i = 0; i < rounds; ++i) {
        mine.push_back(seconds(ours));
        theirs.push_back(seconds(peer));
    }
    for (auto* times : {&mine, &theirs}) std::nth_element(times->begin(), times->begin() + rounds / 2, times->end());
    std::printf("%s\t%.9f\t%.9f\n", what, mine[static_cast<std::size_t>(rounds / 2)],
                theirs[static_cast<std::size_t>(rounds / 2)]);
}

}  // namespace

int main(int argc, char** argv) {
    int const rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 31;
    constexpr std::int64_t bytes = std::int64_t{32} << 20, bits = 8 * bytes;
    std::vector<unsigned char> from(bytes + 1), to(bytes + 1), flags(bytes);
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i * 2654435761u >> 7);
    std::int64_t volatile count = 0;
    auto const copy = [&] {
        std::memcpy(to.data(), from.data(), bytes);
        asm volatile("" ::"r"(to.data()) : "memory");
    };
    measure(
        "32 MiB of validity, nulls counted", rounds, [&] { count = ferry::detail::count_set({from.data(), 3, bits}); },
        copy);
    measure(
        "32 MiB of validity, shifted by 3 bits", rounds,
        [&] { ferry::detail::copy_bits({from.data(), 3, bits}, to.data()); }, copy);
    measure(
        "bits unpacked to 32 MiB of booleans", rounds,
        [&] { ferry::detail::unpack_bits({from.data(), 3, bytes}, flags.data()); }, copy);
    measure(
        "32 MiB of booleans packed to bits", rounds, [&] { ferry::detail::pack_bits(flags.data(), bytes, to.data()); },
        copy);
}
