#include <minitensor/error.hpp>

#include "cuda.hpp"

namespace mt::cuda {
namespace {

[[noreturn]] void fail(device where) {
    throw buffer_error{name(where) + " memory is not available: minitensor was built without CUDA"};
}

constexpr device any{device::cuda, 0};

}  // namespace

int device_count() noexcept { return 0; }
void require(device d) { fail(d); }
void* allocate(std::size_t, device d) { fail(d); }
void deallocate(void*, device, stream const&) noexcept {}
std::int32_t device_of(std::uintptr_t) { fail(any); }
void order(stream const&, stream const&) { fail(any); }
void wait(stream const&) { fail(any); }
void synchronize(std::int32_t id) { fail({device::cuda, id}); }
std::shared_ptr<void> mark(stream const&) { fail(any); }
bool passed(void*) noexcept { return true; }
void copy(void*, void const*, std::size_t, stream const&) { fail(any); }
void spread(void*, void const*, box const&, stream const&) { fail(any); }
void set(void*, unsigned char, std::size_t, stream const&) { fail(any); }
void upload(void*, void const*, std::size_t, stream const&) { fail(any); }

}  // namespace mt::cuda
