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

TEST_CASE("an allocation that does not end with a block of 2 MiB may have neighbours in it") {
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
    CHECK(std::strstr(cuda::detail::why_not_exportable(a), "pool") != nullptr);
    a.is_managed = true;
    CHECK(std::strstr(cuda::detail::why_not_exportable(a), "managed") != nullptr);
    support::fails(ferry::errc::not_exportable, [&] { static_cast<void>(cuda::handle_of_allocation(a)); });
}

TEST_CASE("a handle has 64 bytes; anything else is a bad descriptor") {
    std::vector<std::byte> bytes(64, std::byte{7});
    CHECK(cuda::detail::to_handle(bytes, "handle")[63] == std::byte{7});
    for (std::size_t const n : {std::size_t{0}, std::size_t{63}, std::size_t{65}}) {
        bytes.resize(n);
        support::fails(ferry::errc::bad_descriptor,
                       [&] { static_cast<void>(cuda::detail::to_handle(bytes, "handle")); });
    }
}

TEST_CASE("what CUDA says of another process's handle is an error of its own kind, with a cure") {
    auto const check = [](cudaError_t e) { cuda::detail::check_ipc(e, "cudaIpcOpenMemHandle", {}); };
    CHECK_NOTHROW(check(cudaSuccess));
    for (auto const e : {cudaErrorMapBufferObjectFailed, cudaErrorInvalidResourceHandle, cudaErrorInvalidValue})
        support::fails(ferry::errc::stale_handle, [&] { check(e); }, {"cudaIpcOpenMemHandle", "new descriptor"});
    support::fails(ferry::errc::already_mapped, [&] { check(cudaErrorAlreadyMapped); }, {"another context"});
    support::fails(ferry::errc::same_process, [&] { check(cudaErrorDeviceUninitialized); }, {"session"});
    support::fails(ferry::errc::unsupported_platform, [&] { check(cudaErrorNotSupported); }, {"no CUDA IPC"});
    support::fails(ferry::errc::no_peer_access, [&] { check(cudaErrorPeerAccessUnsupported); });
    support::fails(ferry::errc::out_of_memory, [&] { check(cudaErrorMemoryAllocation); });
}
