// A back end for an accelerator for which ferry has none: an exchange with the device, and a copy
// back to the host.
#include <ferry/ferry.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

// Replaces the SDK of the accelerator. It has one queue, which runs work immediately.
namespace npu {
void* allocate(std::size_t bytes) { return std::malloc(bytes != 0 ? bytes : 1); }
void release(void* p) { std::free(p); }
void enqueue_copy(void* dst, void const* src, std::size_t bytes) { std::memcpy(dst, src, bytes); }
void finish() {}
}  // namespace npu

namespace {

struct samples {
    float values[6] = {1, 2, 3, 4, 5, 6};
    std::int64_t extents[2] = {2, 3};

    ferry::tensor_view ferry_view() const { return {values, {extents}}; }
};

constexpr ferry::device accelerator{ferry::device_type::ext_dev, 0};

// Owns host or device memory. Can be destroyed on any thread.
class npu_memory {
   public:
    npu_memory(std::size_t bytes, bool is_far)
        : data_{is_far ? npu::allocate(bytes) : ::operator new(bytes, align)}, is_far_{is_far} {
        if (data_ == nullptr) throw std::bad_alloc{};
    }
    npu_memory(npu_memory&& other) noexcept
        : data_{std::exchange(other.data_, nullptr)}, is_far_{other.is_far_} {}
    npu_memory& operator=(npu_memory&&) = delete;
    ~npu_memory() {
        if (is_far_)
            npu::release(data_);
        else
            ::operator delete(data_, align);
    }
    [[nodiscard]] void* data() const noexcept { return data_; }

   private:
    static constexpr std::align_val_t align{ferry::default_alignment};
    void* data_;
    bool is_far_;
};

// [back_end]
struct npu_back_end {
    [[nodiscard]] bool reaches(ferry::device d) const noexcept {
        return d == accelerator || d == ferry::cpu;
    }
    [[nodiscard]] npu_memory allocate(ferry::device d, std::size_t bytes,
                                      ferry::stream_token) const {
        return {bytes, d == accelerator};
    }
    // A plan merges dimensions as far as possible; this SDK copies only contiguous blocks.
    void copy(ferry::copy_plan const& plan, void* dst, ferry::device, void const* src,
              ferry::device, ferry::stream_token on) const {
        if (plan.kind == ferry::copy_kind::empty) return;
        if (plan.kind != ferry::copy_kind::contiguous)
            throw ferry::error{ferry::errc::strides, "npu_back_end::copy",
                               "this device copies compact tensors only: make the tensor compact first"};
        npu::enqueue_copy(dst, src, static_cast<std::size_t>(plan.unit));
        if (!on.names_stream()) npu::finish();  // no stream: finished on return
    }
    void order(ferry::stream_token, ferry::stream_token) const noexcept {
    }  // one queue: work runs in order
    void wait(ferry::stream_token) const noexcept { npu::finish(); }
};
static_assert(ferry::back_end<npu_back_end>);
// [/back_end]

}  // namespace

int main() {
    samples const mine;

    // [exchange]
    npu_back_end const npu;
    ferry::managed_tensor far =
        ferry::to_dlpack(mine, {.device = accelerator}, npu);  // a copy on the device
    ferry::managed_tensor near =
        ferry::to_host(std::move(far), npu, ferry::already_ready);  // and back; ready on return
    // [/exchange]
    bool const is_right = near.as<float, 2>()(1, 2) == 6;

    // [without]
    try {
        static_cast<void>(ferry::to_dlpack(mine, {.device = accelerator}));
    } catch (ferry::error const& e) {
        std::printf("%s\n", e.what());
    }
    // [/without]
    return is_right && near.device() == ferry::cpu ? 0 : 1;
}
