// Twelve tasks with ferry. count.py counts the statements of each marked part; torch.cpp and tvm_ffi.cpp perform the
// same tasks, and nanobind.cpp and cccl.cpp those for which these libraries have functions.
// Not counted: the types of the program, their adapters, and the checks of main.
#include <ferry/conformance/sim_device.hpp>
#include <ferry/ferry.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

struct image {
    std::vector<float> pixels{0, 1, 2, 3, 4, 5, 6, 7};
    std::int64_t extents[2] = {2, 4};

    ferry::tensor_view ferry_view() { return {pixels.data(), extents}; }
    ferry::tensor_view ferry_view() const { return {pixels.data(), extents}; }
};

using device = ferry::conformance::sim_device;  // on a GPU: ferry::cuda::system

struct bfloat16 {
    std::uint16_t bits;
    explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

template <class View>
double sum(View const& view) {
    double total = 0;
    for (std::int64_t i = 0; i < view.extent(0); ++i) total += static_cast<double>(view(i));
    return total;
}

}  // namespace

template <>
struct ferry::dtype_traits<bfloat16> {
    static constexpr data_type value{type_code::bfloat, 16};
};

namespace {

float import_and_read(DLManagedTensorVersioned* raw) {
    // [import]
    auto const tensor = ferry::from_dlpack(raw);
    return tensor.as<float const, 2>()(1, 2);
    // [/import]
}

// float32, float64 or int32; other types are an error.
double import_unknown(DLManagedTensorVersioned* raw) {
    // [unknown]
    auto const tensor = ferry::from_dlpack(raw);
    return ferry::visit<1, float const, double const, std::int32_t const>(tensor.view(),
                                                                          [](auto const& v) { return sum(v); });
    // [/unknown]
}

DLManagedTensorVersioned* export_owned(image&& owner) {
    // [owned]
    return ferry::to_dlpack(std::move(owner)).release();
    // [/owned]
}

DLManagedTensorVersioned* export_shared(std::shared_ptr<image> const& owner) {
    // [shared]
    return ferry::make_managed(std::shared_ptr{owner}, ferry::view_of(*owner)).release();
    // [/shared]
}

template <class Consumer>
void export_borrowed(image& owner, Consumer consume) {
    // [borrowed]
    auto const lent = ferry::borrow(owner);
    consume(lent.get()->dl_tensor);
    // [/borrowed]
}

// A copy with IS_COPIED set, and a shared tensor of the same memory; an error where only a copy is possible.
std::pair<DLManagedTensorVersioned*, DLManagedTensorVersioned*> export_with_policies(image&& owner) {
    // [copies]
    return {ferry::to_dlpack(owner, {.copy = ferry::copy_policy::always}).release(),
            ferry::to_dlpack(std::move(owner), {.copy = ferry::copy_policy::never}).release()};
    // [/copies]
}

DLManagedTensorVersioned* export_read_only(std::shared_ptr<image const> const& owner) {
    // [read-only]
    return ferry::make_managed(std::shared_ptr{owner}, ferry::view_of(*owner)).release();
    // [/read-only]
}

DLManagedTensor* export_legacy(image&& owner) {
    // [legacy]
    return ferry::to_dlpack(std::move(owner)).release_legacy();
    // [/legacy]
}

float import_bfloat16(DLManagedTensorVersioned* raw) {
    // [bfloat]
    auto const tensor = ferry::from_dlpack(raw);
    return static_cast<float>(tensor.as<bfloat16 const, 1>()(1));
    // [/bfloat]
}

// [:, ::2]
DLManagedTensorVersioned* export_every_second(std::shared_ptr<image> const& owner) {
    // [every-second]
    return ferry::make_managed(std::shared_ptr{owner}, ferry::as<float, 2>(ferry::view_of(*owner))
                                   .slice(ferry::full_extent, ferry::range_slice{.stride = 2})).release();
    // [/every-second]
}

// The consumer's stream waits for the work on the producer's stream.
DLManagedTensorVersioned* export_ordered(ferry::managed_tensor&& tensor, ferry::stream_token producer,
                                         ferry::stream_token consumer, device& back_end) {
    // [stream]
    return ferry::to_dlpack(std::move(tensor), {.stream = consumer}, back_end, producer).release();
    // [/stream]
}

// The elements are in host memory when to_host returns.
float copy_to_host(DLManagedTensorVersioned* raw, ferry::stream_token producer, device& back_end) {
    // [host]
    auto const tensor = ferry::to_host(ferry::from_dlpack(raw), back_end, producer);
    return tensor.as<float const, 2>()(1, 2);
    // [/host]
}

bool is(bool kept, char const* what) {
    if (!kept) std::printf("failed: %s\n", what);
    return kept;
}

}  // namespace

int main() {
    bool good = is(import_and_read(export_owned(image{})) == 6, "import, owned");
    std::int64_t const three[] = {3};
    auto const numbers = [&](auto... n) {
        auto memory = std::make_shared<std::vector<std::common_type_t<decltype(n)...>>>(std::initializer_list{n...});
        ferry::tensor_view const view{memory->data(), three};
        return ferry::make_managed(std::move(memory), view);
    };
    good &= is(import_unknown(numbers(1.5f, 2.f, 3.f).release()) == 6.5, "float32");
    good &= is(import_unknown(numbers(1.5, 2., 3.).release()) == 6.5, "float64");
    good &= is(import_unknown(numbers(1, 2, 3).release()) == 6, "int32");
    try {
        good &= is(import_unknown(numbers(std::int64_t{1}, std::int64_t{2}, std::int64_t{3}).release()) < 0, "int64");
    } catch (ferry::error const& e) {
        good &= is(e.code() == ferry::errc::dtype, "error for int64");
    }
    auto const shared = std::make_shared<image>();
    good &= is(import_and_read(export_shared(shared)) == 6 && shared.use_count() == 1, "shared");
    export_borrowed(*shared, [&](DLTensor const& t) { good &= is(t.data == shared->pixels.data(), "borrowed"); });
    image moved;
    auto const* const pixels = moved.pixels.data();
    auto const [copied, uncopied] = export_with_policies(std::move(moved));
    auto const copy = ferry::from_dlpack(copied), same = ferry::from_dlpack(uncopied);
    good &= is(copy.is_copied() && copy.view().data() != pixels, "copy always");
    good &= is(!same.is_copied() && same.view().data() == pixels, "copy never");
    good &= is(ferry::from_dlpack(export_read_only(shared)).is_read_only(), "read-only");
    auto* const legacy = export_legacy(image{});
    good &= is(legacy->dl_tensor.ndim == 2, "legacy");
    legacy->deleter(legacy);
    good &= is(import_bfloat16(numbers(bfloat16{0x3F80}, bfloat16{0x4040}, bfloat16{0}).release()) == 3, "bfloat16");
    auto const columns = ferry::from_dlpack(export_every_second(shared));
    good &= is(columns.as<float, 2>()(1, 1) == 6, "every second column");

    // A simulated device: work runs when its stream or a stream that is ordered after it runs.
    device sim{{ferry::device_type::cuda}};
    auto const producer = sim.make_stream(), consumer = sim.make_stream();
    auto memory = sim.allocate({ferry::device_type::cuda}, 8 * sizeof(float), producer);
    ferry::tensor_view const on_device{
        static_cast<float*>(memory.data()), shared->extents, {}, ferry::device_type::cuda};
    sim.queue(producer, [&, to = sim.elements(memory.data())] {
        for (std::size_t i = 0; i < 8; ++i) reinterpret_cast<float*>(to)[i] = shared->pixels[i];
    });
    auto* const ordered = export_ordered(ferry::make_managed(std::move(memory), on_device), producer, consumer, sim);
    good &= is(copy_to_host(ordered, consumer, sim) == 6, "stream order, to host");
    return good ? 0 : 1;
}
