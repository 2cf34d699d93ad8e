// ferry: maps CUDA errors to ferry's error codes.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/cuda/api.hpp>

#include <source_location>

namespace FERRY_NAMESPACE::cuda {
namespace detail {

/// Returns whether the error is sticky: the context is corrupt or destroyed, and every later CUDA call in the process
/// fails.
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
        case cudaErrorCudartUnloading: return true;
        // cudaErrorContained and cudaErrorTensorMemoryLeak: before CUDA 12.8, the enumeration does not contain them.
        default: return static_cast<int>(e) == 226 || static_cast<int>(e) == 721;
    }
}

/// Returns the errc for a CUDA error.
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

/// Returns the end of the message, which states how to fix the error.
[[nodiscard]] constexpr char const* cure_of(errc code) noexcept {
    switch (code) {
        case errc::context_lost: return ": the CUDA context is corrupt or destroyed: restart the process";
        case errc::out_of_memory: return ": free memory, or allocate from another memory space";
        case errc::no_driver:
            return ": there is no CUDA driver or device that this process can use: install a driver, or use the CPU";
        case errc::device: return ": this process has no such device: check its id and CUDA_VISIBLE_DEVICES";
        case errc::no_peer_access: return ": copy through the host";
        case errc::no_context: return ": initialise the device first";
        case errc::stream: return ": the stream or event is destroyed or belongs to another device: pass a valid one";
        case errc::capturing: return ": a stream is being captured: call this before or after the capture";
        default: return "";
    }
}

/// Throws the error for a failed call. Clears non-sticky errors, so that the next call does not return them.
[[noreturn]] FERRY_COLD inline void fail(cudaError_t e, char const* call, std::source_location where) {
    if (!is_sticky(e)) static_cast<void>(cudaGetLastError());
    errc const code = code_of(e);
    ferry::detail::fail(code, call,
                        message{cudaGetErrorName(e)} << " (" << cudaGetErrorString(e) << ")" << cure_of(code), where);
}

}  // namespace detail

/// Throws unless a CUDA call succeeded. Clears the error, unless it is sticky.
///
/// \param e      result of the call
/// \param call   name of the function called
/// \throws error  errc::driver, out_of_memory, no_driver, device, no_peer_access, no_context, stream, capturing;
///                errc::context_lost for sticky errors, after which every CUDA call fails
inline void check(cudaError_t e, char const* call, std::source_location where = std::source_location::current()) {
    if (e != cudaSuccess) [[unlikely]]
        detail::fail(e, call, where);
}

}  // namespace FERRY_NAMESPACE::cuda
