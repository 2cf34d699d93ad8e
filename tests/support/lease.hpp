// Simulated devices whose memory is limited, a memory space of one device, and a manager, for tests of leases.
#pragma once

#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/lease/spill_manager.hpp>
#include <ferry/space/copy.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <support/sim_array.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace support {

/// Memory of a simulated device, of at most `capacity` bytes. Copies of the space refer to the same memory.
class sim_heap {
   public:
    sim_heap(sim_system& sim, ferry::device d, std::size_t capacity) : sim_{sim}, device_{d}, capacity_{capacity} {}

    [[nodiscard]] void* allocate(std::size_t bytes) {
        std::lock_guard const lock{mutex_};
        if (++calls_ == fail_at_) throw std::bad_alloc{};
        if (bytes > capacity_ - used_) throw std::bad_alloc{};
        auto memory = sim_.make_memory(device_, bytes);
        auto* const p = memory.data();
        blocks_.emplace(p, std::move(memory));
        used_ += bytes;
        most_ = std::max(most_, used_);
        return p;
    }
    void deallocate(void* p, std::size_t bytes) noexcept {
        std::lock_guard const lock{mutex_};
        used_ -= bytes;
        blocks_.erase(p);
    }
    [[nodiscard]] ferry::device device() const noexcept { return device_; }
    [[nodiscard]] std::size_t used() const {
        std::lock_guard const lock{mutex_};
        return used_;
    }
    [[nodiscard]] std::size_t most_used() const {
        std::lock_guard const lock{mutex_};
        return most_;
    }
    /// Makes the n-th of the following allocations fail (0: none).
    void fail_at(int n) {
        std::lock_guard const lock{mutex_};
        fail_at_ = n == 0 ? 0 : calls_ + n;
    }

   private:
    sim_system& sim_;
    ferry::device device_;
    std::size_t capacity_, used_ = 0, most_ = 0;
    int calls_ = 0, fail_at_ = 0;
    std::mutex mutable mutex_;
    std::map<void*, sim_memory> blocks_;
};

struct heap_space {
    sim_heap* heap;
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t) { return heap->allocate(bytes); }
    void deallocate(void* p, std::size_t bytes, std::size_t) noexcept { heap->deallocate(p, bytes); }
    [[nodiscard]] ferry::device device() const noexcept { return heap->device(); }
};

/// Queues a write of `first`, `first` + 1, … to memory of the device.
inline void write_values(sim_system& sim, void* memory, std::size_t count, float first, ferry::stream_token on) {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), first);
    sim.write(on, sim.block_at(memory), values.data(), count * sizeof(float));
}
/// A tensor of floats in memory of a space, written on a stream.
template <class Space>
[[nodiscard]] ferry::managed_tensor make_floats(sim_system& sim, Space space, std::int64_t count, float first,
                                                ferry::stream_token on) {
    auto const n = static_cast<std::size_t>(count);
    ferry::buffer<Space> memory{n * sizeof(float), space};
    if (n != 0) write_values(sim, memory.data(), n, first, on);
    ferry::tensor_view const view{memory.data(), ferry::dtype_of<float>, {&count, 1}, {}, space.device()};
    return ferry::make_managed(std::move(memory), view);
}

inline constexpr ferry::device gpu{ferry::device_type::cuda}, pinned{ferry::device_type::cuda_host};
/// A device with a heap, two streams, and a manager.
struct lease_world {
    static constexpr std::size_t bytes = 256 * sizeof(float);  ///< of a tensor of `floats`

    sim_system sim{gpu, pinned};
    sim_heap heap;
    heap_space space{&heap};
    ferry::stream_token stream = sim.make_stream(gpu.type), other = sim.make_stream(gpu.type);
    std::optional<ferry::spill_manager> manager;

    explicit lease_world(std::size_t capacity = 16 * bytes, ferry::spill_options const& options = {})
        : heap{sim, gpu, capacity}, manager{std::in_place, sim, space, options} {}

    [[nodiscard]] ferry::managed_tensor floats(float first) { return make_floats(sim, space, 256, first, stream); }
    /// Element `i`, when the work on both streams is done.
    [[nodiscard]] float value(ferry::managed_tensor const& m, std::int64_t i = 0) {
        sim.finish(stream);
        sim.finish(other);
        return sim.read<float>(static_cast<float const*>(m.view().data()) + i);
    }
    template <class Handle>
    [[nodiscard]] float value(Handle const& t, std::int64_t i = 0) {
        return value(t.read(stream), i);
    }
    void write(ferry::managed_tensor const& m, float first, ferry::stream_token on) {
        write_values(sim, const_cast<void*>(m.view().data()), 256, first, on);
    }
};

}  // namespace support
