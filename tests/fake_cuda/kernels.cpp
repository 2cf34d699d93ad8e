// The pack kernels, run on the host: their reads and writes are checked first.
#include <fake_cuda/state.hpp>

#include <ferry/cuda/detail/pack/job.hpp>
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"  // written for nvcc
#include <ferry/cuda/detail/pack/kernels.cuh>
#pragma GCC diagnostic pop
#include <ferry/cuda/detail/pack/fatbin.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace fake {
namespace {

using namespace ferry::cuda::detail;

/// Binds the arguments of a launch, by value as CUDA does; requires the mutex.
struct kernel {
    std::uint64_t const* fatbin;
    char const* name;
    std::function<void()> (*bind)(void const* argument, dim3 blocks, int device);
};

/// Memory that a device cannot access corrupts its context.
void require_reach(place const& p, int device) {
    if (p.of == nullptr || p.of->type != cudaMemoryTypeDevice || p.of->device == device) return;
    if (!all().is_peer[device][p.of->device] || !has_leave(*p.of, device))
        fault("a kernel touches memory that is closed to its device");
}

/// The bytes that the loops of one side touch.
place touched(pack_arguments const& a, void const* p, std::int64_t const* strides, std::int64_t shift,
              std::int64_t each, bool is_bits) {
    std::int64_t low = shift, high = shift + each;
    for (int i = 0; i < a.rank; ++i) {
        auto const far = (a.extents[i] - 1) * strides[i];
        (far < 0 ? low : high) += far;
    }
    if (is_bits) {
        low = low >= 0 ? low / 8 : -((7 - low) / 8);
        high = (high + 7) / 8;
    }
    return place_of(static_cast<std::byte const*>(p) + low, static_cast<std::size_t>(high - low));
}

template <class Run>
std::function<void()> bind_pack(void const* argument, int device, std::int64_t word, Run run) {
    auto a = *static_cast<pack_arguments const*>(argument);
    bool const is_bits = word == 0;
    auto const dst = touched(a, a.dst, a.dst_strides, is_bits ? a.dst_shift : 0, is_bits ? a.span : word, is_bits);
    auto const src = touched(a, a.src, a.src_strides, is_bits ? a.src_shift : 0, is_bits ? a.unit : word, is_bits);
    require_reach(dst, device);
    require_reach(src, device);
    return [a, dst, src, run]() mutable {
        auto* const to = open(dst);
        auto const* const from = open(src);
        if (to == nullptr || from == nullptr) return;
        a.dst = to + (a.dst - static_cast<std::byte const*>(dst.p));
        a.src = from + (a.src - static_cast<std::byte const*>(src.p));
        run(a);
    };
}

template <class Word, class Count, class Offset>
std::function<void()> gather(void const* argument, dim3 blocks, int device) {
    return bind_pack(argument, device, sizeof(Word), [step = Count{blocks.x} * pack_threads](pack_arguments const& a) {
        for (Count first = 0; first < step; ++first) gather_words<Word, Count, Offset>(a, first, step);
    });
}

template <class Word, bool Vector>
std::function<void()> tiles(void const* argument, dim3, int device) {
    return bind_pack(argument, device, sizeof(Word), [](pack_arguments const& a) {
        using tile = ferry::cuda::detail::tile<Word, Vector>;
        alignas(16) Word shared[tile::edge * tile::pitch];
        for (std::uint32_t n = 0; n < a.count; ++n) {
            tile const here{a, n};
            for (int thread = 0; thread < pack_threads; ++thread) here.load(shared, thread);
            for (int thread = 0; thread < pack_threads; ++thread) here.store(shared, thread);
        }
    });
}

std::function<void()> bits(void const* argument, dim3, int device) {
    return bind_pack(argument, device, 0, [](pack_arguments const& a) { copy_bit_groups(a, 0, 1); });
}

std::function<void()> pieces(void const* argument, dim3, int device) {
    auto const& list = *static_cast<piece_list const*>(argument);
    std::vector<std::pair<place, place>> each;
    for (std::uint32_t i = 0; i < list.count; ++i) {
        auto const& p = list.pieces[i];
        each.emplace_back(place_of(p.dst, p.bytes), place_of(p.src, p.bytes));
        require_reach(each.back().first, device);
        require_reach(each.back().second, device);
    }
    return [each = std::move(each)] {
        for (auto const& [dst, src] : each) {
            auto* const to = open(dst);
            auto const* const from = open(src);
            if (to != nullptr && from != nullptr) std::memcpy(to, from, dst.bytes);
        }
    };
}

template <class Word>
constexpr kernel of_word(std::uint64_t const* fatbin, int i) {
    switch (static_cast<pack_kernel>(i)) {
        case pack_kernel::gather_32: return {fatbin, "ferry_gather_32", gather<Word, std::uint32_t, std::int32_t>};
        case pack_kernel::gather_mixed:
            return {fatbin, "ferry_gather_mixed", gather<Word, std::uint32_t, std::int64_t>};
        case pack_kernel::gather_64: return {fatbin, "ferry_gather_64", gather<Word, std::uint64_t, std::int64_t>};
        default: return {fatbin, "ferry_tiles", tiles<Word, false>};
    }
}

using byte_word = std::uint8_t;
using short_word = std::uint16_t;
kernel const kernels[] = {
    {pack_fatbin_0, "ferry_bits", bits},
    {pack_fatbin_pieces, "ferry_pieces", pieces},
    {pack_fatbin_1, "ferry_tiles_vector", tiles<byte_word, true>},
    {pack_fatbin_2, "ferry_tiles_vector", tiles<short_word, true>},
    of_word<byte_word>(pack_fatbin_1, 0),
    of_word<byte_word>(pack_fatbin_1, 1),
    of_word<byte_word>(pack_fatbin_1, 2),
    of_word<byte_word>(pack_fatbin_1, 3),
    of_word<short_word>(pack_fatbin_2, 0),
    of_word<short_word>(pack_fatbin_2, 1),
    of_word<short_word>(pack_fatbin_2, 2),
    of_word<short_word>(pack_fatbin_2, 3),
    of_word<std::uint32_t>(pack_fatbin_4, 0),
    of_word<std::uint32_t>(pack_fatbin_4, 1),
    of_word<std::uint32_t>(pack_fatbin_4, 2),
    of_word<std::uint32_t>(pack_fatbin_4, 3),
    of_word<std::uint64_t>(pack_fatbin_8, 0),
    of_word<std::uint64_t>(pack_fatbin_8, 1),
    of_word<std::uint64_t>(pack_fatbin_8, 2),
    of_word<std::uint64_t>(pack_fatbin_8, 3),
    of_word<word_16>(pack_fatbin_16, 0),
    of_word<word_16>(pack_fatbin_16, 1),
    of_word<word_16>(pack_fatbin_16, 2),
    of_word<word_16>(pack_fatbin_16, 3),
};

}  // namespace
}  // namespace fake

using namespace fake;

extern "C" {

/// A library is its fat binary, whose header states the sizes of the header and of the rest.
cudaError_t CUDARTAPI cudaLibraryLoadData(cudaLibrary_t* out, void const* data, cudaJitOption*, void**, unsigned,
                                          cudaLibraryOption*, void**, unsigned) {
    for (auto const& k : kernels) {
        if (std::memcmp(k.fatbin, data, 16) != 0 || std::memcmp(k.fatbin, data, 16 + k.fatbin[1]) != 0) continue;
        *out = reinterpret_cast<cudaLibrary_t>(const_cast<std::uint64_t*>(k.fatbin));
        return say(cudaSuccess);
    }
    return say(cudaErrorInvalidPtx);
}
cudaError_t CUDARTAPI cudaLibraryGetKernel(cudaKernel_t* out, cudaLibrary_t library, char const* name) {
    for (auto const& k : kernels) {
        if (k.fatbin != reinterpret_cast<std::uint64_t const*>(library) || std::strcmp(k.name, name) != 0) continue;
        *out = reinterpret_cast<cudaKernel_t>(const_cast<kernel*>(&k));
        return say(cudaSuccess);
    }
    return say(cudaErrorSymbolNotFound);
}
cudaError_t CUDARTAPI cudaLibraryUnload(cudaLibrary_t) { return say(cudaSuccess); }

cudaError_t CUDARTAPI cudaLaunchKernel(void const* function, dim3 blocks, dim3, void** arguments, std::size_t,
                                       cudaStream_t on) {
    std::lock_guard const lock{all().mutex};
    auto const* const k = static_cast<kernel const*>(function);
    auto const s = find(on);
    if (k < std::begin(kernels) || k >= std::end(kernels) || s == nullptr) return say(cudaErrorInvalidDeviceFunction);
    return say(push(s, k->bind(arguments[0], blocks, s->device)));
}

}  // extern "C"
