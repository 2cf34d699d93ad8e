#include <minitensor/error.hpp>
#include <minitensor/storage.hpp>

#include "cuda.hpp"

#include <atomic>
#include <limits>
#include <new>
#include <string>
#include <utility>

namespace mt {
namespace {

std::atomic<std::int64_t> live{0};

/// Frees memory and subtracts it from the count.
struct free_memory {
    std::size_t bytes;
    device where;
    std::shared_ptr<timeline const> line;
    void operator()(void* p) const noexcept {
        if (where.type == device::cpu) ::operator delete(p, std::align_val_t{alignment});
        else cuda::deallocate(p, where, line ? line->last() : stream{});
        live.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
    }
};

}  // namespace

device normalised(device d) {
    switch (d.type) {
        case device::cpu:
        case device::cuda_host:
        case device::cuda_managed: return {d.type, 0};
        case device::cuda: cuda::require(d); return d;
        default:
            throw buffer_error{"minitensor does not support memory of device type " + std::to_string(d.type) +
                               ": pass device='cpu', or copy the data to the CPU with the library that created it"};
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

std::shared_ptr<void> allocate(std::size_t bytes, device where,
                               std::shared_ptr<timeline const> line) {
    where = normalised(where);
    bool const host = where.type == device::cpu;
    if (!host) cuda::require(where);
    if (bytes == 0) return nullptr;
    if (bytes > std::numeric_limits<std::size_t>::max() / 2) throw std::bad_alloc{};
    void* const p = host ? ::operator new(bytes, std::align_val_t{alignment})
                         : cuda::allocate(bytes, where);
    live.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
    std::shared_ptr<void> memory{p, free_memory{bytes, where, line}};  // frees p even if it throws
    if (host || where.type == device::cuda || line == nullptr) return memory;
    // Freed after the work on its streams: the free itself does not wait for them, or waits for the whole device.
    return {p, [memory, line](void*) mutable { release_when_done(*line, std::move(memory)); }};
}

std::int64_t live_bytes() noexcept {
    release_what_is_done();
    return live.load(std::memory_order_relaxed);
}

}  // namespace mt
