// ferry: failures of CUDA, by what can be done about them.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/cuda/api.hpp>

#include <source_location>

namespace ferry::inline v0::cuda {
namespace detail {

/// Errors after which nothing works any more in this process: the context is corrupt or gone.
[[nodiscard]] constexpr bool is_sticky(cudaError_t e) noexcept {
    switch (e) {
        case cudaErrorIllegalAddress:
        case cudaErrorLaunchFailure:
        case cudaErrorLaunchTimeout:
        case cudaErrorHardwareStackError:
        case cudaErrorIllegalInstruction:
        case cudaErrorMisalignedAddress:
        case cudaErrorInvalidAddressSpace:
        case cudaErrorInvalidPc:
        case cudaErrorAssert:
        case cudaErrorECCUncorrectable:
        case cudaErrorNvlinkUncorrectable:
        case cudaErrorMpsClientTerminated:
        case cudaErrorContextIsDestroyed:
        case cudaErrorExternalDevice:
        case cudaErrorTensorMemoryLeak:
        case cudaErrorContained:
        case cudaErrorCudartUnloading: return true;
        default: return false;
    }
}

/// The code that a CUDA error has in ferry.
[[nodiscard]] constexpr errc code_of(cudaError_t e) noexcept {
    if (is_sticky(e)) return errc::context_lost;
    switch (e) {
        case cudaErrorMemoryAllocation: return errc::out_of_memory;
        case cudaErrorNoDevice:
        case cudaErrorInsufficientDriver:
        case cudaErrorStubLibrary:
        case cudaErrorCallRequiresNewerDriver:
        case cudaErrorSystemDriverMismatch:
        case cudaErrorSystemNotReady:
        case cudaErrorDevicesUnavailable: return errc::no_driver;
        case cudaErrorInvalidDevice: return errc::device;
        case cudaErrorPeerAccessUnsupported:
        case cudaErrorTooManyPeers: return errc::no_peer_access;
        case cudaErrorDeviceUninitialized: return errc::no_context;
        case cudaErrorInvalidResourceHandle: return errc::stream;
        case cudaErrorStreamCaptureUnsupported:
        case cudaErrorStreamCaptureInvalidated:
        case cudaErrorStreamCaptureMerge:
        case cudaErrorStreamCaptureUnmatched:
        case cudaErrorStreamCaptureUnjoined:
        case cudaErrorStreamCaptureIsolation:
        case cudaErrorStreamCaptureImplicit:
        case cudaErrorCapturedEvent:
        case cudaErrorStreamCaptureWrongThread: return errc::capturing;
        default: return errc::driver;
    }
}

/// What would do about it.
[[nodiscard]] constexpr char const* cure_of(errc code) noexcept {
    switch (code) {
        case errc::context_lost: return ": the context of this process is lost; start the process again";
        case errc::out_of_memory: return ": free memory, or take it from another space";
        case errc::no_driver:
            return ": there is no CUDA driver or device here that this program can use; stay on the CPU";
        case errc::device: return ": there is no such CUDA device in this process";
        case errc::no_peer_access: return ": copy through the host";
        case errc::no_context: return ": initialise the device before";
        case errc::stream: return ": the stream or event is destroyed, or of another device";
        case errc::capturing: return ": a stream is being captured; exchange before or after the capture";
        default: return "";
    }
}

/// Reports a failed call. What is not sticky is cleared, so that the next call does not find it.
[[noreturn]] FERRY_COLD inline void fail(cudaError_t e, char const* call, std::source_location where) {
    if (!is_sticky(e)) static_cast<void>(cudaGetLastError());
    errc const code = code_of(e);
    ferry::detail::fail(code, call,
                        message{cudaGetErrorName(e)} << " (" << cudaGetErrorString(e) << ")" << cure_of(code), where);
}

}  // namespace detail

/// Throws unless a CUDA call succeeded.
///
/// \throws error  errc::driver, out_of_memory, no_driver, device, no_peer_access, no_context, stream, capturing, or
///                context_lost, after which nothing works any more
inline void check(cudaError_t e, char const* call, std::source_location where = std::source_location::current()) {
    if (e != cudaSuccess) [[unlikely]]
        detail::fail(e, call, where);
}

}  // namespace ferry::inline v0::cuda
