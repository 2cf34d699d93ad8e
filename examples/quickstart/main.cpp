// Receive a tensor, read it, hand out one of your own, ask for a copy.
#include <ferry/ferry.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <utility>
#include <vector>

// [adapter]
// An array type of yours, and all that ferry wants to know of it.
struct image {
    std::vector<float> pixels;
    std::array<std::int64_t, 2> extents;
};

template <>
struct ferry::array_traits<image> {
    static tensor_view view(image& i) { return {i.pixels.data(), i.extents}; }
    static tensor_view view(image const& i) { return {i.pixels.data(), i.extents}; }  // const: read-only
};
// [/adapter]

// [receive]
// Takes the struct over: it is released when `tensor` goes, or before an error leaves.
float brightest(DLManagedTensorVersioned* raw) {
    ferry::managed_tensor tensor = ferry::from_dlpack(raw);  // checked here, once
    auto const pixels = tensor.as<float const, 2>();         // type, rank and place are checked here
    float most = -std::numeric_limits<float>::infinity();
    for (std::int64_t y = 0; y < pixels.extent(0); ++y)
        for (std::int64_t x = 0; x < pixels.extent(1); ++x)
            if (pixels(y, x) > most) most = pixels(y, x);
    return most;
}
// [/receive]

int main() {
    image mine{{1, 2, 3, 40, 5, 6}, {2, 3}};

    // [export]
    // A copy, of which the receiver is the sole owner; and the array itself, moved into the struct that travels.
    auto copy = ferry::to_dlpack(mine, {.copy = ferry::copy_policy::always});
    auto shared = ferry::to_dlpack(std::move(mine));
    // [/export]
    std::printf("copied: %s, %s\n", copy.is_copied() ? "yes" : "no", copy.view().data() != shared.view().data() ? "elsewhere" : "in place");

    std::printf("brightest: %g\n", brightest(shared.release()));

    // [error]
    try {
        static_cast<void>(copy.as<double, 2>());
    } catch (ferry::error const& e) {
        std::printf("%s: %s\n", ferry::name(e.code()), e.what());
    }
    // [/error]
}
