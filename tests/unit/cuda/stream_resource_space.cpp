#include <ferry/cuda/stream_resource_space.hpp>
#include <ferry/space/buffer.hpp>

#include <doctest/doctest.h>

#include <cstddef>

namespace {

namespace cuda = ferry::cuda;

/// Stream type of a library, made from a CUDA stream.
struct stream_view {
    cudaStream_t handle;
    stream_view(cudaStream_t s) : handle{s} {}
};
struct counted {
    int taken = 0, given = 0;
    cudaStream_t on = nullptr;
    std::size_t bytes = 0;

    void* take(std::size_t n, stream_view s) {
        ++taken, bytes = n, on = s.handle;
        return ferry::host_space{}.allocate(n);
    }
    void give(void* p, std::size_t n, stream_view s) noexcept {
        given += n == bytes && s.handle == on;
        ferry::host_space{}.deallocate(p, n);
    }
};
struct stream_first : counted {
    void* allocate(stream_view s, std::size_t n, std::size_t) { return take(n, s); }
    void deallocate(stream_view s, void* p, std::size_t n, std::size_t) noexcept { give(p, n, s); }
};
struct async_by_name : counted {
    void* allocate(std::size_t, std::size_t) { return nullptr; }
    void deallocate(void*, std::size_t, std::size_t) {}
    void* allocate_async(std::size_t n, std::size_t, stream_view s) { return take(n, s); }
    void deallocate_async(void* p, std::size_t n, std::size_t, stream_view s) { give(p, n, s); }
};
struct stream_last : counted {
    void* allocate(std::size_t n, stream_view s) { return take(n, s); }
    void deallocate(void* p, std::size_t n, stream_view s) noexcept { give(p, n, s); }
};

/// Frees its memory and throws, as Thrust's resources do at the end of a program.
struct sour : counted {
    void* allocate(std::size_t n, stream_view s) { return take(n, s); }
    void deallocate(void* p, std::size_t n, stream_view s) {
        give(p, n, s);
        throw given;
    }
};

template <class Resource>
void is_a_space() {
    static_assert(cuda::stream_ordered_resource<Resource>);
    static_assert(ferry::memory_space<cuda::stream_resource_space<Resource>>);
    Resource resource;
    int place = 0;
    auto const s = reinterpret_cast<cudaStream_t>(&place);  // CUDA is not called with it
    {
        ferry::buffer<cuda::stream_resource_space<Resource>> const b{100, cuda::stream_resource_space{resource, s, 1}};
        CHECK(b.data() != nullptr);
        CHECK(b.device() == ferry::device{ferry::device_type::cuda, 1});
        CHECK(resource.taken == 1);
        CHECK(resource.bytes == 100);
        CHECK(resource.on == s);
    }
    CHECK(resource.given == 1);
}

}  // namespace

TEST_CASE("stream-ordered resources of every form are spaces, on the given stream") {
    is_a_space<stream_first>();
    is_a_space<async_by_name>();
    is_a_space<stream_last>();
    is_a_space<sour>();  // R66
    static_assert(!cuda::stream_ordered_resource<ferry::host_space>);
    static_assert(!cuda::stream_ordered_resource<counted>);
}
