// Exchanges tensors without exceptions. CMakeLists.txt compiles this program with -fno-exceptions -fno-rtti.
#include <ferry/ferry.hpp>

#include <cstdint>
#include <cstdio>
#include <utility>

// [adapter]
struct recording {  // your array type
    float* samples;
    std::int64_t extents[1];
    bool is_running = false;

    recording(float* s, std::int64_t count) : samples{s}, extents{count} {}
    recording(recording&& other) : samples{std::exchange(other.samples, nullptr)}, extents{other.extents[0]} {}
    ~recording() { delete[] samples; }
};

template <>
struct ferry::array_traits<recording> {  // its adapter, whose view may fail
    static result<tensor_view> view(recording& r) {
        if (r.is_running)
            return error{errc::argument, "recording", "the recording is still running: stop it before the export"};
        return tensor_view{r.samples, r.extents};
    }
};
// [/adapter]

// [import]
ferry::result<float> loudest(DLManagedTensorVersioned* raw) {
    auto const tensor = ferry::try_from_dlpack(raw);  // on failure, the deleter of raw has run
    if (!tensor) return tensor.error();
    auto const samples = tensor->try_as<float const, 1>();
    if (!samples) return samples.error();
    float most = 0;
    for (float const sample : *samples)
        if (sample > most) most = sample;
    return most;
}
// [/import]

int main() {
    recording mine{new float[3]{0.25f, 0.75f, 0.5f}, 3};
    mine.is_running = true;

    // [export]
    auto shared = ferry::try_to_dlpack(std::move(mine));
    if (!shared) {
        std::printf("%s: %s\n", ferry::name(shared.error().code()), shared.error().what());
        mine.is_running = false;  // a failed export leaves the array unchanged
        shared = ferry::try_to_dlpack(std::move(mine));
    }
    // [/export]
    if (!shared) return 1;
    auto const most = loudest(shared->release());
    if (!most) return 1;
    std::printf("loudest: %g\n", static_cast<double>(*most));
    return *most == 0.75f ? 0 : 1;
}
