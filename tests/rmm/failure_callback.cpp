// spill_manager::on_failure as a callback of RMM's own failure_callback_resource_adaptor, above a simulated device.
#include <ferry/lease/spill_manager.hpp>

#include <support/lease.hpp>

#include <rmm/error.hpp>
#include <rmm/mr/failure_callback_resource_adaptor.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <new>
#include <type_traits>

namespace {

using namespace support;
using ferry::spill_manager;
using ferry::spillable;

constexpr std::size_t one = lease_world::bytes;

/// The heap of a device as a resource of RMM, which throws an exception of its own when the heap is full.
template <class Thrown>
struct heap_resource {
    sim_heap* heap;

    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t) const {
        try {
            return heap->allocate(bytes);
        } catch (std::bad_alloc const&) {
            if constexpr (std::is_same_v<Thrown, std::bad_alloc>) throw;
            else throw Thrown{"the heap is full"};
        }
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t) const noexcept { heap->deallocate(p, bytes); }
    [[nodiscard]] void* allocate(cuda::stream_ref, std::size_t bytes, std::size_t alignment) const {
        return allocate_sync(bytes, alignment);
    }
    void deallocate(cuda::stream_ref, void* p, std::size_t bytes, std::size_t alignment) const noexcept {
        deallocate_sync(p, bytes, alignment);
    }
    bool operator==(heap_resource const&) const = default;
    friend void get_property(heap_resource const&, cuda::mr::device_accessible) noexcept {}
};

/// Returns whether a resource allocates.
[[nodiscard]] bool allocates(auto resource) {
    cuda::stream_ref const stream{cudaStream_t{}};
    try {
        resource.deallocate(stream, resource.allocate(stream, one, 256), one, 256);
        return true;
    } catch (std::bad_alloc const&) {
        return false;
    }
}

TEST_CASE("RMM calls back only for its exception type: std::bad_alloc serves every resource, and is not its default") {
    lease_world w{2 * one};
    auto& manager = *w.manager;
    spillable const a = manager.adopt(w.floats(1), w.stream), b = manager.adopt(w.floats(2), w.stream);
    heap_resource<std::bad_alloc> const resource{&w.heap};
    rmm::mr::failure_callback_resource_adaptor<> const by_default{resource, &spill_manager::on_failure, &manager};
    CHECK_FALSE(allocates(by_default));
    CHECK(manager.statistics().spills == 0);  // not called back
    // [rmm]
    rmm::mr::failure_callback_resource_adaptor<std::bad_alloc> adaptor{resource, &ferry::spill_manager::on_failure,
                                                                       &manager};
    // [/rmm]
    CHECK(allocates(adaptor));
    CHECK(manager.statistics().spills == 1);
    CHECK(w.value(a) == 1);
    heap_resource<rmm::out_of_memory> const of_rmm{&w.heap};
    CHECK(allocates(
        rmm::mr::failure_callback_resource_adaptor<std::bad_alloc>{of_rmm, &spill_manager::on_failure, &manager}));
    CHECK(manager.statistics().spills == 2);
    CHECK(w.value(b) == 2);
    CHECK(w.value(a) == 1);
    ferry::managed_tensor const m = a.read(w.stream), n = b.read(w.stream);
    CHECK_FALSE(allocates(adaptor));  // leases use all memory
    CHECK(w.value(m) == 1);
}

}  // namespace
