// ferry: exports and imports of at::Tensor, the tensor of PyTorch's C++ library.
#pragma once

#if !__has_include(<ATen/core/Tensor.h>)
#error "PyTorch not found: add the include directories of libtorch or, with CMake, link torch (find_package(Torch))"
#include <see_the_error_above>
#endif

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/exchange/array_traits.hpp>
#include <ferry/exchange/negotiate.hpp>

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_lazy_clone.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/COW.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstddef>
#include <cstdint>
#include <memory>  // from_blob copies its deleter; a managed_tensor is move-only
#include <source_location>
#include <utility>
#include <vector>  // strides for from_blob

namespace FERRY_NAMESPACE {
namespace detail {

/// A PyTorch scalar type and the corresponding DLPack data type.
struct torch_type {
    c10::ScalarType theirs;
    data_type ours;
};
inline constexpr torch_type torch_types[] = {{c10::ScalarType::Bool, {type_code::bool_, 8}},
                                             {c10::ScalarType::Byte, {type_code::uint, 8}},
                                             {c10::ScalarType::UInt16, {type_code::uint, 16}},
                                             {c10::ScalarType::UInt32, {type_code::uint, 32}},
                                             {c10::ScalarType::UInt64, {type_code::uint, 64}},
                                             {c10::ScalarType::Char, {type_code::int_, 8}},
                                             {c10::ScalarType::Short, {type_code::int_, 16}},
                                             {c10::ScalarType::Int, {type_code::int_, 32}},
                                             {c10::ScalarType::Long, {type_code::int_, 64}},
                                             {c10::ScalarType::Half, {type_code::float_, 16}},
                                             {c10::ScalarType::Float, {type_code::float_, 32}},
                                             {c10::ScalarType::Double, {type_code::float_, 64}},
                                             {c10::ScalarType::BFloat16, {type_code::bfloat, 16}},
                                             {c10::ScalarType::ComplexHalf, {type_code::complex, 32}},
                                             {c10::ScalarType::ComplexFloat, {type_code::complex, 64}},
                                             {c10::ScalarType::ComplexDouble, {type_code::complex, 128}},
                                             {c10::ScalarType::Float8_e4m3fn, {type_code::float8_e4m3fn, 8}},
                                             {c10::ScalarType::Float8_e4m3fnuz, {type_code::float8_e4m3fnuz, 8}},
                                             {c10::ScalarType::Float8_e5m2, {type_code::float8_e5m2, 8}},
                                             {c10::ScalarType::Float8_e5m2fnuz, {type_code::float8_e5m2fnuz, 8}},
                                             {c10::ScalarType::Float8_e8m0fnu, {type_code::float8_e8m0fnu, 8}}};

[[noreturn]] FERRY_COLD inline void fail_torch(errc code, char const* text) {
    fail(code, "ferry::to_dlpack", message{"the at::Tensor "} << text);
}

/// \throws error  errc::dtype when PyTorch has no such scalar type
[[nodiscard]] inline c10::ScalarType torch_type_of(data_type t) {
    for (auto const& row : torch_types)
        if (row.ours == t) return row.theirs;
    fail(errc::dtype, "ferry::from_dlpack",
         message{"PyTorch does not support the data type "} << t << " (R21): view the data as uint8 before the import");
}

/// \throws error  errc::device when this build of PyTorch does not support the device
[[nodiscard]] inline c10::Device torch_device(device d) {
    if (d.type == device_type::cpu) return c10::Device{c10::kCPU};
    for (auto const& [ours, theirs] :
         {std::pair{device_type::cuda, c10::kCUDA}, std::pair{device_type::rocm, c10::kHIP}})
        if (d.type == ours && c10::impl::hasDeviceGuardImpl(theirs))
            return {theirs, static_cast<c10::DeviceIndex>(d.id)};
    fail(errc::device, "ferry::from_dlpack",
         message{"this build of PyTorch does not support "} << name(d.type)
                                                            << " (R39): request {.device = ferry::cpu}");
}

/// \return  whether lazy clones may share the storage until it is written
[[nodiscard]] inline bool is_copy_on_write(at::Tensor const& t) {
    return t.has_storage() && c10::impl::cow::is_cow_data_ptr(t.storage().data_ptr());
}

/// \return  PyTorch's current stream on the device, for the calling thread; none for the host
[[nodiscard]] inline stream_token torch_stream(c10::Device d) {
    if (d.is_cpu()) return {};
    auto const handle =
        reinterpret_cast<std::uintptr_t>(c10::impl::VirtualGuardImpl{d.type()}.getStream(d).native_handle());
    if (d.type() == c10::kHIP)
        return handle == 0 ? stream_token::rocm_default(d.index()) : stream_token::rocm_handle(handle);
    // PyTorch's stream 0 is the legacy default stream (R44).
    return handle == 0 ? stream_token::cuda_legacy_default(d.index()) : stream_token::from_cuda_handle(handle);
}

}  // namespace detail

/// Exports and imports of at::Tensor. Copies of an at::Tensor share the elements.
///
/// DLPack cannot express gradients, lazy conjugation, lazy negation or sparse layouts (R41). Exports of such tensors
/// throw, and the message names the call to make first: detach, resolve_conj, resolve_neg or to_dense. PyTorch supports
/// neither read-only data (R11) nor negative strides (R28). Imports of such tensors throw; request a copy.
///
/// PyTorch may replace the memory of a storage when a tensor is resized (`resize_`), or when a tensor that has a lazy
/// clone (`at::_lazy_clone`) is written. An earlier export still refers to the old memory, which PyTorch may have
/// freed, so avoid both while exports exist. The same applies to exports by PyTorch itself.
template <>
struct array_traits<at::Tensor> {
    /// Returns the view of a strided const tensor. Does not synchronise.
    ///
    /// The view of copy-on-write storage is read-only (R11), so that the elements are not copied and remain shared by
    /// lazy clones. Other views are writable: `const` applies to the handle, not to the elements.
    ///
    /// \param t  tensor
    /// \return   view; valid while `t` exists; for copy-on-write storage, until `t` is written
    /// \throws error       errc::argument when the tensor is undefined or sparse, requires a gradient, or is a lazy
    ///                     conjugate or negation
    /// \throws error       errc::dtype when the scalar type has no DLPack data type
    /// \throws error       errc::device for a device other than CPU, CUDA and HIP
    /// \throws error       errc::null_data when the tensor has elements but no memory, or its storage is too small
    /// \throws c10::Error  errors of PyTorch
    static tensor_view view(at::Tensor const& t) {
        using detail::fail_torch;
        if (!t.defined()) fail_torch(errc::argument, "is undefined: assign a tensor before the export");
        if (t.layout() != c10::kStrided)
            fail_torch(errc::argument, "is sparse, expected a strided layout (R41): call to_dense()");
        if (t.requires_grad())
            fail_torch(errc::argument, "requires a gradient, which DLPack cannot express: call detach()");
        if (t.is_conj())
            fail_torch(errc::argument, "is a lazy conjugate, which DLPack cannot express: call resolve_conj()");
        if (t.is_neg())
            fail_torch(errc::argument, "is a lazy negation, which DLPack cannot express: call resolve_neg()");
        device d;
        if (t.device().is_cuda()) d = {device_type::cuda, t.device().index()};
        else if (t.device().type() == c10::kHIP) d = {device_type::rocm, t.device().index()};
        else if (!t.device().is_cpu())
            fail_torch(errc::device, "is on an unsupported device, expected CPU, CUDA or HIP: call cpu()");
        // The address of a tensor without memory is NULL plus the storage offset, which `validate` cannot detect.
        if (t.numel() != 0 && t.has_storage()) {
            if (t.storage().data() == nullptr)
                fail_torch(errc::null_data, "has elements but no memory: its storage was resized to 0, or it is a "
                                            "ZeroTensor: export a tensor with memory");
            if (at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize(),
                                                 static_cast<std::size_t>(t.storage_offset())) > t.storage().nbytes())
                fail_torch(errc::null_data, "has elements beyond the end of its storage, which was resized: export a "
                                            "tensor whose storage has all elements");
        }
        bool const read_only = detail::is_copy_on_write(t);
        for (auto const& row : detail::torch_types)
            if (row.theirs == t.scalar_type())
                return {read_only ? const_cast<void*>(t.const_data_ptr()) : t.mutable_data_ptr(),
                        row.ours,
                        {t.sizes().data(), static_cast<int>(t.dim())},
                        {t.strides().data(), static_cast<int>(t.dim())},
                        d,
                        read_only ? flags::read_only : flags::none};
        fail_torch(errc::dtype, "has a scalar type that DLPack does not define: call view(at::kByte)");
    }
    /// Returns the writable view of a strided tensor. Does not synchronise.
    ///
    /// Elements that lazy clones share are copied first, as in exports by PyTorch itself.
    ///
    /// \param t  tensor
    /// \return   view; valid while `t` exists
    /// \throws error       errors of the overload for a const tensor
    /// \throws c10::Error  errors of PyTorch
    static tensor_view view(at::Tensor& t) {
        tensor_view const v = view(std::as_const(t));
        if (!v.is_read_only()) return v;
        static_cast<void>(t.mutable_data_ptr());
        return view(std::as_const(t));
    }

    /// A handle to the elements of a const tensor.
    struct shared {
        at::Tensor tensor;
        /// \return  view; read-only for copy-on-write storage (R11); valid while this object exists
        [[nodiscard]] tensor_view ferry_view() const { return view(tensor); }
    };

    /// Returns another handle to the same elements.
    ///
    /// For copy-on-write storage the handle holds a lazy clone, which keeps the memory alive when `t` is written; that
    /// write does not change the elements of the handle.
    ///
    /// \param t  tensor
    /// \return   handle
    /// \throws c10::Error  errors of PyTorch
    static shared share(at::Tensor const& t) { return {detail::is_copy_on_write(t) ? at::_lazy_clone(t) : t}; }

    /// Imports a tensor without a copy. The at::Tensor owns the tensor on success; on failure the tensor has been
    /// released. An empty tensor is released immediately, and the result is a new empty at::Tensor.
    ///
    /// \param m  tensor
    /// \return   tensor that shares the elements
    /// \throws error           errc::dtype, device, read_only (R11) or strides (R28)
    /// \throws c10::Error      errors of PyTorch
    /// \throws std::bad_alloc  when an allocation fails
    static at::Tensor adopt(managed_tensor m) {
        constexpr auto api = "ferry::from_dlpack";
        auto const v = m.view();
        auto const options =
            at::TensorOptions{}.dtype(detail::torch_type_of(v.dtype())).device(detail::torch_device(v.device()));
        if (v.is_read_only())
            detail::fail(errc::read_only, api,
                         message{"the tensor is read-only, and an at::Tensor is always writable (R11): import with "
                                 "ferry::copy_policy::always"});
        std::vector<std::int64_t> strides;
        for (int i = 0; i < v.rank(); ++i) {
            strides.push_back(v.extent(i) > 1 && !v.is_empty() ? v.stride(i) : 1);
            if (strides.back() < 0)
                detail::fail(errc::strides, api,
                             message{"the stride of dimension "}
                                 << i << " is negative, which PyTorch does not support (R28): import with "
                                         "ferry::copy_policy::always");
        }
        at::IntArrayRef const sizes{v.shape().data(), v.shape().size()};
        if (v.is_empty()) return at::empty(sizes, options);  // from_blob does not keep the owner of an empty tensor
        auto owner = std::make_shared<managed_tensor>(std::move(m));
        return at::from_blob(
            detail::untyped_data(v), sizes, strides, [owner = std::move(owner)](void*) mutable { owner.reset(); },
            options, options.device());
    }
    /// Allocates a tensor.
    ///
    /// \param type   data type
    /// \param shape  extents
    /// \param d      device
    /// \return       tensor with uninitialised elements
    /// \throws error       errc::dtype or device
    /// \throws c10::Error  errors of PyTorch
    static at::Tensor allocate(data_type type, shape_view shape, device d) {
        return at::empty(at::IntArrayRef{shape.data(), shape.size()},
                         at::TensorOptions{}.dtype(detail::torch_type_of(type)).device(detail::torch_device(d)));
    }
    /// Returns the stream on which work on a tensor is pending, which is the current PyTorch stream of the calling
    /// thread.
    ///
    /// \param t  tensor
    /// \return   stream of the tensor's device; already_ready on the host
    static stream_token ready_on(at::Tensor const& t) {
        auto const on = detail::torch_stream(t.device());
        return on.names_stream() ? on : already_ready;
    }
    /// Returns the current PyTorch stream of the calling thread.
    ///
    /// \param d  device
    /// \return   stream of the device; none for devices other than CUDA and ROCm
    /// \throws error  errc::device when this build of PyTorch does not support the device
    static stream_token current_stream(device d) {
        if (d.type != device_type::cuda && d.type != device_type::rocm) return {};
        return detail::torch_stream(detail::torch_device(d));
    }
};

}  // namespace FERRY_NAMESPACE
