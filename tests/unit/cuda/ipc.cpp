#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/ipc.hpp>
#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstring>

namespace cuda = ferry::cuda;

static_assert(ferry::ipc::handle_back_end<cuda::shareable<>>);
static_assert(ferry::ipc::handle_back_end<cuda::shareable<cuda::copier>>);
static_assert(ferry::back_end<cuda::shareable<>>);
static_assert(!ferry::ipc::handle_back_end<cuda::system_back_end const>, "sharing is asked for by name");

TEST_CASE("an allocation that does not end with a 2 MiB block may share it") {
    for (std::size_t const bytes : {std::size_t{1}, std::size_t{4096}, (std::size_t{2} << 20) + 1})
        CHECK(cuda::allocation{nullptr, bytes}.may_have_neighbours());
    for (std::size_t const bytes : {std::size_t{2} << 20, std::size_t{64} << 20})
        CHECK(!cuda::allocation{nullptr, bytes}.may_have_neighbours());
}

TEST_CASE("memory without a handle is refused with the reason: managed, of a pool, mapped by virtual memory calls") {
    cuda::allocation a;
    a.has_legacy_handle = true;
    CHECK(cuda::detail::why_not_exportable(a) == nullptr);
    a.has_legacy_handle = false;
    CHECK(std::strstr(cuda::detail::why_not_exportable(a), "virtual memory") != nullptr);
    a.is_of_pool = true;
    CHECK(std::strstr(cuda::detail::why_not_exportable(a), "sharing_options::pools") != nullptr);
    a.handle_types = cudaMemHandleTypePosixFileDescriptor | cudaMemHandleTypeFabric;
    CHECK(std::strstr(cuda::detail::why_not_exportable(a), "sharing_options::pools") != nullptr);
    a.handle_types = cudaMemHandleTypeFabric;
    CHECK(std::strstr(cuda::detail::why_not_exportable(a), "cudaMemHandleTypePosixFileDescriptor") != nullptr);
    a.is_managed = true;
    CHECK(std::strstr(cuda::detail::why_not_exportable(a), "managed") != nullptr);
    support::fails(ferry::errc::not_exportable, [&] { static_cast<void>(cuda::handle_of_allocation(a)); });
}

TEST_CASE("the mapped range is the driver's where it contains the address, else the fallback") {
    auto const* const p = reinterpret_cast<void const*>(std::uintptr_t{0x5000});
    auto const mapped = [&](bool found, CUdeviceptr base, std::size_t bytes) {
        return cuda::detail::mapped_bytes_from(p, 7, [=](CUdeviceptr at, CUdeviceptr& b, std::size_t& n) {
            CHECK(at == 0x5000);
            b = base;
            n = bytes;
            return found;
        });
    };
    CHECK(mapped(true, 0x5000, 0x100) == 0x100);
    CHECK(mapped(true, 0x4000, 0x1100) == 0x100);  // from there to the end
    CHECK(mapped(false, 0x5000, 0x100) == 7);
    CHECK(mapped(true, 0x4000, 0x1000) == 7);  // of its neighbour
    CHECK(mapped(true, 0x6000, 0x1000) == 7);
    CHECK(mapped(true, 0, 0) == 7);
}

TEST_CASE("a description that reaches beyond what is mapped is out of range") {
    constexpr auto most = ~std::uint64_t{0};
    struct {
        std::uint64_t offset, length, mapped;
        bool fits;
    } const all[] = {{0, 10, 10, true},    {4, 6, 10, true},      {10, 0, 10, true},  {0, 0, 0, true},
                     {0, 11, 10, false},   {4, 7, 10, false},     {11, 0, 10, false}, {most, 2, 10, false},
                     {2, most, 10, false}, {most, 1, most, false}};
    for (auto const& one : all) {
        ferry::wire::memory m;
        m.offset = one.offset;
        m.length = one.length;
        auto const check = [&] { cuda::detail::require_inside(m, one.mapped); };
        if (one.fits) CHECK_NOTHROW(check());
        else support::fails(ferry::errc::out_of_range, check);
    }
}

TEST_CASE("a shared mapping is visited like an owned one") {
    struct place {
        std::byte* at;
        [[nodiscard]] std::byte* data() const { return at; }
        [[nodiscard]] bool is_same(place const& other) const { return at == other.at; }
        void join(place&) noexcept {}
    };
    std::byte some{};
    cuda::detail::opened_once<place> all;
    auto const use = all.open([&] { return place{&some}; });
    CHECK((*use).data() == &some);
    CHECK(use->data() == &some);
}

TEST_CASE("a handle has 64 bytes; other sizes are a bad descriptor") {
    std::vector<std::byte> bytes(64, std::byte{7});
    CHECK(cuda::detail::to_handle(bytes, "handle")[63] == std::byte{7});
    for (std::size_t const n : {std::size_t{0}, std::size_t{63}, std::size_t{65}}) {
        bytes.resize(n);
        support::fails(ferry::errc::bad_descriptor,
                       [&] { static_cast<void>(cuda::detail::to_handle(bytes, "handle")); });
    }
}

TEST_CASE("errors of handles have error codes of their own, with a cure") {
    auto const check = [](cudaError_t e) { cuda::detail::check_ipc(e, "cudaIpcOpenMemHandle", {}); };
    CHECK_NOTHROW(check(cudaSuccess));
    for (auto const e : {cudaErrorMapBufferObjectFailed, cudaErrorInvalidResourceHandle, cudaErrorInvalidValue})
        support::fails(ferry::errc::stale_handle, [&] { check(e); }, {"cudaIpcOpenMemHandle", "new descriptor"});
    support::fails(ferry::errc::already_mapped, [&] { check(cudaErrorAlreadyMapped); }, {"another context"});
    support::fails(ferry::errc::same_process, [&] { check(cudaErrorDeviceUninitialized); }, {"session"});
    support::fails(ferry::errc::unsupported_platform, [&] { check(cudaErrorNotSupported); }, {"does not support CUDA IPC"});
    support::fails(ferry::errc::no_peer_access, [&] { check(cudaErrorPeerAccessUnsupported); });
    support::fails(ferry::errc::out_of_memory, [&] { check(cudaErrorMemoryAllocation); });
}
