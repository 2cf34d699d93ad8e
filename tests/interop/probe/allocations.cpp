// Fails the n-th allocation, of C++ or of Python, that a call makes; counts deleters without Python. Preloaded into a
// child.
#include <cstddef>
#include <cstdlib>
#include <new>

extern "C" {
struct allocator {
    void* context;
    void* (*malloc)(void*, std::size_t);
    void* (*calloc)(void*, std::size_t, std::size_t);
    void* (*realloc)(void*, void*, std::size_t);
    void (*free)(void*, void*);
};
[[gnu::weak]] void PyMem_GetAllocator(int domain, allocator*);
[[gnu::weak]] void PyMem_SetAllocator(int domain, allocator*);
[[gnu::weak]] void* PyObject_CallNoArgs(void*);
}

namespace {

enum kind { of_cxx = 1, of_python = 2 };
thread_local int armed = 0;
thread_local long countdown = 0;
int deletions = 0;
allocator original[3];

bool fails(kind k) { return (armed & k) != 0 && --countdown == 0; }

allocator& of(void* context) { return *static_cast<allocator*>(context); }
void* hooked_malloc(void* c, std::size_t n) { return fails(of_python) ? nullptr : of(c).malloc(of(c).context, n); }
void* hooked_calloc(void* c, std::size_t n, std::size_t m) {
    return fails(of_python) ? nullptr : of(c).calloc(of(c).context, n, m);
}
void* hooked_realloc(void* c, void* p, std::size_t n) {
    return fails(of_python) ? nullptr : of(c).realloc(of(c).context, p, n);
}
void hooked_free(void* c, void* p) { of(c).free(of(c).context, p); }

void* allocate(std::size_t n) {
    void* const p = fails(of_cxx) ? nullptr : std::malloc(n != 0 ? n : 1);
    if (p == nullptr) throw std::bad_alloc{};
    return p;
}
void* allocate(std::size_t n, std::align_val_t a) {
    auto const alignment = static_cast<std::size_t>(a);
    void* const p =
        fails(of_cxx) ? nullptr : std::aligned_alloc(alignment, (n + alignment - 1) / alignment * alignment);
    if (p == nullptr) throw std::bad_alloc{};
    return p;
}

}  // namespace

void* operator new(std::size_t n) { return allocate(n); }
void* operator new[](std::size_t n) { return allocate(n); }
void* operator new(std::size_t n, std::align_val_t a) { return allocate(n, a); }
void* operator new[](std::size_t n, std::align_val_t a) { return allocate(n, a); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

extern "C" {
void probe_install() {
    for (int domain = 0; domain < 3; ++domain) {
        PyMem_GetAllocator(domain, &original[domain]);
        allocator hooked{&original[domain], hooked_malloc, hooked_calloc, hooked_realloc, hooked_free};
        PyMem_SetAllocator(domain, &hooked);
    }
}
/// Calls `callable` with the n-th allocation of those kinds failing; its result, or null with a Python error.
void* probe_call(void* callable, int kinds, long n) {
    countdown = n;
    armed = kinds;
    void* const result = PyObject_CallNoArgs(callable);
    armed = 0;
    return result;
}
/// Whether the call got as far as the failing allocation.
int probe_has_failed() { return countdown <= 0; }
void probe_delete(void*) { ++deletions; }
/// What ArrowSchema::release and ArrowArray::release are to do: the callback is the eighth pointer of one, the ninth of
/// the other.
void probe_release_schema(void* schema) { static_cast<void**>(schema)[7] = nullptr, ++deletions; }
void probe_release_array(void* array) { static_cast<void**>(array)[8] = nullptr, ++deletions; }
int probe_deletions() { return deletions; }
}
