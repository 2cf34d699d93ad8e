// Allocates copies from a std::pmr resource, and from a custom space.
#include <ferry/ferry.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory_resource>
#include <new>
#include <utility>
#include <vector>

namespace {

struct samples {
    std::vector<float> values{1, 2, 3, 4, 5, 6};
    std::int64_t extents[2] = {2, 3};

    ferry::tensor_view ferry_view() { return {values.data(), {extents}}; }
    ferry::tensor_view ferry_view() const { return {values.data(), {extents}}; }
};

// [space]
// Counts the allocated bytes. Copies of a space refer to the same counter; the deleter of a tensor
// holds a copy.
class counted_space {
   public:
    explicit counted_space(std::atomic<std::size_t>& bytes) noexcept : bytes_{&bytes} {}

    void* allocate(std::size_t bytes, std::size_t alignment) {
        void* const p = ::operator new(bytes, std::align_val_t{alignment});
        *bytes_ += bytes;
        return p;
    }
    void deallocate(void* p, std::size_t bytes, std::size_t alignment) noexcept {
        *bytes_ -= bytes;
        ::operator delete(p, std::align_val_t{alignment});
    }
    [[nodiscard]] ferry::device device() const noexcept { return ferry::cpu; }

   private:
    std::atomic<std::size_t>* bytes_;
};
static_assert(ferry::memory_space<counted_space>);
// [/space]

}  // namespace

int main() {
    samples const mine;

    // [pmr]
    // Any class with allocate and deallocate, such as the resources of std::pmr. The resource must
    // outlive the tensors.
    std::pmr::monotonic_buffer_resource arena;
    ferry::resource_space in_arena{arena};
    auto const copy = ferry::to_dlpack(mine, {.copy = ferry::copy_policy::always}, ferry::destination{in_arena});
    // [/pmr]

    // [use]
    std::atomic<std::size_t> bytes = 0;
    {
        ferry::destination const counted{counted_space{bytes}};
        auto const t = ferry::to_dlpack(mine, {.copy = ferry::copy_policy::always}, counted);
        std::printf("%zu bytes while the tensor exists\n", bytes.load());
    }
    std::printf("%zu bytes afterwards\n", bytes.load());
    // [/use]

    // [fill]
    // A tensor in memory that the caller fills. The tensor owns the buffer; the deleter frees it.
    ferry::buffer<counted_space> memory{6 * sizeof(float), counted_space{bytes}};
    std::int64_t const shape[] = {2, 3};
    ferry::tensor_view const view{static_cast<float*>(memory.data()), {shape}};
    ferry::managed_tensor const owned = ferry::make_managed(std::move(memory), view);
    // [/fill]
    return copy.is_copied() && bytes == 24 && owned.as<float, 2>().extent(1) == 3 ? 0 : 1;
}
