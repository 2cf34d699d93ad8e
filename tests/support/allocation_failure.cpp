#include <support/allocation_failure.hpp>

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

// One per thread, so that threads do not affect each other. A table instead of a count, since memory that was allocated
// before the window may be freed in it.
struct state {
    bool open = false;
    bool failed = false;
    int fail_at = 0;
    int allocations = 0;
    int live = 0;
    void* blocks[4096] = {};
};
thread_local state here;

#ifdef _WIN32  // has no std::aligned_alloc, and frees aligned memory with a function of its own
void* aligned_memory(std::size_t size, std::size_t alignment) noexcept { return ::_aligned_malloc(size, alignment); }
void free_memory(void* memory) noexcept { ::_aligned_free(memory); }
#else
void* aligned_memory(std::size_t size, std::size_t alignment) noexcept {
    return alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
               ? std::malloc(size)
               : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}
void free_memory(void* memory) noexcept { std::free(memory); }
#endif

void* allocate(std::size_t size, std::size_t alignment) noexcept {
    if (here.open) {
        ++here.allocations;
        if (here.allocations == here.fail_at) {
            here.failed = true;
            return nullptr;
        }
    }
    if (size == 0) size = 1;
    void* const memory = aligned_memory(size, alignment);
    if (here.open && memory != nullptr) {
        if (here.live == 4096) std::abort();
        here.blocks[here.live++] = memory;
    }
    return memory;
}

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
    void* const memory = allocate(size, alignment);
    if (memory == nullptr) throw std::bad_alloc{};
    return memory;
}

void release(void* memory) noexcept {
    if (here.open && memory != nullptr)
        for (int i = here.live; i-- > 0;)
            if (here.blocks[i] == memory) {
                here.blocks[i] = here.blocks[--here.live];
                break;
            }
    free_memory(memory);
}

constexpr std::size_t normal = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
std::size_t number(std::align_val_t alignment) noexcept { return static_cast<std::size_t>(alignment); }

}  // namespace

namespace support {

allocation_window::allocation_window(int fail_at) noexcept {
    here.open = true;
    here.failed = false;
    here.fail_at = fail_at;
    here.allocations = 0;
    here.live = 0;
}
allocation_window::~allocation_window() { here.open = false; }
int allocation_window::allocations() const noexcept { return here.allocations; }
int allocation_window::live() const noexcept { return here.live; }
bool allocation_window::has_failed() const noexcept { return here.failed; }

}  // namespace support

// Replaces all forms: a sanitizer replaces the remaining ones and reports mismatched pairs.
void* operator new(std::size_t size) { return allocate_or_throw(size, normal); }
void* operator new[](std::size_t size) { return allocate_or_throw(size, normal); }
void* operator new(std::size_t size, std::align_val_t a) { return allocate_or_throw(size, number(a)); }
void* operator new[](std::size_t size, std::align_val_t a) { return allocate_or_throw(size, number(a)); }
void* operator new(std::size_t size, std::nothrow_t const&) noexcept { return allocate(size, normal); }
void* operator new[](std::size_t size, std::nothrow_t const&) noexcept { return allocate(size, normal); }
void* operator new(std::size_t size, std::align_val_t a, std::nothrow_t const&) noexcept {
    return allocate(size, number(a));
}
void* operator new[](std::size_t size, std::align_val_t a, std::nothrow_t const&) noexcept {
    return allocate(size, number(a));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::nothrow_t const&) noexcept { release(memory); }
void operator delete[](void* memory, std::nothrow_t const&) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t, std::nothrow_t const&) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t, std::nothrow_t const&) noexcept { release(memory); }
