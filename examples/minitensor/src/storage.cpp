#include <minitensor/error.hpp>
#include <minitensor/storage.hpp>

#include <atomic>
#include <limits>
#include <new>
#include <string>

namespace mt {
namespace {

std::atomic<std::int64_t> live{0};

/// Frees host memory and takes it off the count.
struct host_free {
    std::size_t bytes;
    void operator()(void* p) const noexcept {
        ::operator delete(p, std::align_val_t{alignment});
        live.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
    }
};

[[noreturn]] void no_cuda(device where) {
    throw buffer_error{name(where) + " memory is not to be had: minitensor was built without CUDA"};
}

}  // namespace

device normalised(device d) {
    switch (d.type) {
        case device::cpu:
        case device::cuda_host:
        case device::cuda_managed: return {d.type, 0};
        case device::cuda: no_cuda(d);
        default:
            throw buffer_error{"minitensor has no use for memory of device type " +
                               std::to_string(d.type)};
    }
}

std::string name(device d) {
    switch (d.type) {
        case device::cpu: return "cpu";
        case device::cuda: return "cuda:" + std::to_string(d.id);
        case device::cuda_host: return "cuda_host";
        case device::cuda_managed: return "cuda_managed";
        default: return "(" + std::to_string(d.type) + ", " + std::to_string(d.id) + ")";
    }
}

std::shared_ptr<void> allocate(std::size_t bytes, device where) {
    where = normalised(where);
    if (where.type != device::cpu) no_cuda(where);
    if (bytes == 0) return nullptr;
    if (bytes > std::numeric_limits<std::size_t>::max() / 2) throw std::bad_alloc{};
    void* const p = ::operator new(bytes, std::align_val_t{alignment});
    live.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
    return std::shared_ptr<void>{p, host_free{bytes}};  // frees p too if it throws
}

std::int64_t live_bytes() noexcept { return live.load(std::memory_order_relaxed); }

}  // namespace mt
