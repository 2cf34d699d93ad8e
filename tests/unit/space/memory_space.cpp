#include <ferry/space/buffer.hpp>
#include <ferry/space/memory_space.hpp>
#include <support/allocation_failure.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <new>

TEST_CASE("R31: host memory has the alignment that the DLPack header requires") {
    ferry::host_space const space;
    for (auto const bytes : {std::size_t{1}, std::size_t{3}, std::size_t{4096}}) {
        auto* const p = space.allocate(bytes);
        CHECK(reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
        std::memset(p, 1, bytes);
        space.deallocate(p, bytes);
    }
    CHECK(space.device() == ferry::cpu);
}

TEST_CASE("R59: a failed allocation of host memory throws std::bad_alloc") {
    support::allocation_window const window{1};
    bool thrown = false;
    try {
        (void)ferry::host_space{}.allocate(16);
    } catch (std::bad_alloc const&) {
        thrown = true;
    }
    CHECK(thrown);
}

TEST_CASE("D9: resource_space reports the device that was passed for its resource") {
    alignas(256) std::byte storage[1024];
    std::pmr::monotonic_buffer_resource resource{storage, sizeof storage, std::pmr::null_memory_resource()};
    ferry::resource_space space{resource, ferry::device{ferry::device_type::cuda_host}};
    auto* const p = static_cast<std::byte*>(space.allocate(100));
    CHECK(p >= storage);
    CHECK(p < storage + sizeof storage);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
    CHECK(space.device() == ferry::device{ferry::device_type::cuda_host});
    space.deallocate(p, 100);
    CHECK(ferry::resource_space{resource}.device() == ferry::cpu);
}

namespace {

/// Pointers as Thrust's resources return them.
struct fancy_pointer {
    explicit fancy_pointer(void* at = nullptr) : at_{at} {}
    [[nodiscard]] void* get() const { return at_; }

   private:
    void* at_;
};
struct counted {
    int taken = 0, given = 0;
    std::size_t bytes = 0, alignment = 0;

    void* take(std::size_t n, std::size_t a) {
        ++taken, bytes = n, alignment = a;
        return ferry::host_space{}.allocate(n, a);
    }
    void give(void* p, std::size_t n, std::size_t a) noexcept {
        given += n == bytes && a == alignment;
        ferry::host_space{}.deallocate(p, n, a);
    }
};
struct of_fancy_pointers : counted {
    fancy_pointer allocate(std::size_t n, std::size_t a) { return fancy_pointer{take(n, a)}; }
    void deallocate(fancy_pointer p, std::size_t n, std::size_t a) { give(p.get(), n, a); }
};
/// `allocate` has a stream as its first parameter.
struct of_two_names : counted {
    void* allocate_sync(std::size_t n, std::size_t a) { return take(n, a); }
    void deallocate_sync(void* p, std::size_t n, std::size_t a) noexcept { give(p, n, a); }
    void* allocate(fancy_pointer, std::size_t, std::size_t) { return nullptr; }
    void deallocate(fancy_pointer, void*, std::size_t, std::size_t) {}
};

/// Frees its memory and throws, as Thrust's resources do at the end of a program.
struct sour {
    int taken = 0, given = 0;
    std::size_t bytes = 0;
    void* allocate(std::size_t n, std::size_t alignment) {
        ++taken, bytes = n;
        return ferry::host_space{}.allocate(n, alignment);
    }
    void deallocate(void* p, std::size_t n, std::size_t alignment) {
        ++given;
        ferry::host_space{}.deallocate(p, n, alignment);
        throw given;
    }
};

template <class Resource>
void lends_and_takes_back() {
    static_assert(ferry::memory_resource_like<Resource>);
    Resource resource;
    ferry::device const managed{ferry::device_type::cuda_managed};
    {
        ferry::buffer<ferry::resource_space<Resource>> const b{100, ferry::resource_space{resource, managed}};
        CHECK(b.data() != nullptr);
        CHECK(resource.taken == 1);
        CHECK(resource.bytes == 100);
    }
    CHECK(resource.given == 1);
    CHECK(ferry::resource_space{resource, managed}.device() == managed);
}

}  // namespace

TEST_CASE("D9: resource_space supports pointer classes and resources whose allocate is stream-ordered") {
    lends_and_takes_back<of_fancy_pointers>();
    lends_and_takes_back<of_two_names>();
}

TEST_CASE("R66: an exception of a resource's deallocate does not leave the deleter") {
    lends_and_takes_back<sour>();
}
