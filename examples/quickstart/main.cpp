// Imports a tensor, reads it, exports an array, and requests a copy.
#include <ferry/ferry.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <utility>
#include <vector>

// [adapter]
struct image {  // your array type
    std::vector<float> pixels;
    std::array<std::int64_t, 2> extents;
};

template <>
struct ferry::array_traits<image> {  // its adapter
    static tensor_view view(image& i) { return {i.pixels.data(), i.extents}; }
    static tensor_view view(image const& i) { return {i.pixels.data(), i.extents}; }  // const: read-only
};
// [/adapter]

// [receive]
float brightest(DLManagedTensorVersioned* raw) {
    ferry::managed_tensor tensor = ferry::from_dlpack(raw);  // takes ownership; validated here, once
    auto const pixels = tensor.as<float const, 2>();         // type, rank and device are checked here
    float most = -std::numeric_limits<float>::infinity();
    for (std::int64_t y = 0; y < pixels.extent(0); ++y)
        for (std::int64_t x = 0; x < pixels.extent(1); ++x)
            if (pixels(y, x) > most) most = pixels(y, x);
    return most;
}  // the deleter runs here; if from_dlpack throws, it has run already
// [/receive]

int main() {
    image mine{{1, 2, 3, 40, 5, 6}, {2, 3}};

    // [export]
    // A copy, owned only by the consumer; and the array itself, moved into the DLPack struct.
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
