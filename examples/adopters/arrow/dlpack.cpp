// arrow/c/dlpack.cc on ferry: the functions that arrow/c/dlpack.h declares.
#include <arrow/api.h>
#include <arrow/c/dlpack.h>
#include <arrow/util/int_util_overflow.h>

#include <ferry/base/shape.hpp>
#include <ferry/base/version.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/tensor/make_managed.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace arrow::dlpack {

DLPackVersion const kVersion{ferry::version::current.major, ferry::version::current.minor};  // as in the structs

namespace {

Status to_status(ferry::error const& e) {
    std::string text = e.text();
    for (std::size_t at; (at = text.find(" (R")) != text.npos;)  // without the numbers of ferry's rules, as in " (R25, R32)"
        text.erase(at, text.find(')', at) + 1 - at);
    switch (e.code()) {
        case ferry::errc::out_of_memory: return Status::OutOfMemory(text);
        case ferry::errc::device:
        case ferry::errc::no_backend: return Status::NotImplemented(text);
        default: return Status::Invalid(text);
    }
}

Result<ferry::data_type> to_dlpack_type(DataType const& type) {
    switch (type.id()) {
        case Type::UINT8: return ferry::dtype_of<std::uint8_t>;
        case Type::UINT16: return ferry::dtype_of<std::uint16_t>;
        case Type::UINT32: return ferry::dtype_of<std::uint32_t>;
        case Type::UINT64: return ferry::dtype_of<std::uint64_t>;
        case Type::INT8: return ferry::dtype_of<std::int8_t>;
        case Type::INT16: return ferry::dtype_of<std::int16_t>;
        case Type::INT32: return ferry::dtype_of<std::int32_t>;
        case Type::INT64: return ferry::dtype_of<std::int64_t>;
        case Type::HALF_FLOAT: return ferry::data_type{ferry::type_code::float_, 16, 1};
        case Type::FLOAT: return ferry::dtype_of<float>;
        case Type::DOUBLE: return ferry::dtype_of<double>;
        case Type::BOOL: return Status::TypeError("Bit-packed boolean data type not supported by DLPack.");
        default:
            return Status::TypeError("DataType is not compatible with DLPack spec: ", type.ToString(),
                                     ", try converting to a Tensor for multi dimensional data support");
    }
}

Result<std::shared_ptr<DataType>> to_arrow_type(ferry::data_type type) {
    if (type.lanes != 1) return Status::TypeError("Only type with one lane are supported.");
    int const log_bytes = type.bits % 8 == 0 ? std::countr_zero(unsigned{type.bits}) - 3 : -1;
    if (log_bytes >= 0 && 8 << log_bytes == type.bits && log_bytes < 4) {
        using factory = std::shared_ptr<DataType> const& (*)();
        static factory const signed_types[] = {int8, int16, int32, int64}, unsigned_types[] = {uint8, uint16, uint32, uint64},
                             real_types[] = {nullptr, float16, float32, float64};
        if (type.code == ferry::type_code::int_) return signed_types[log_bytes]();
        if (type.code == ferry::type_code::uint) return unsigned_types[log_bytes]();
        if (type.code == ferry::type_code::float_ && log_bytes > 0) return real_types[log_bytes]();
    }
    return Status::Invalid("Only integers and floating-point types of 8 to 64 bits can be imported from DLPack.");
}

Status check_cpu(bool is_cpu) {
    return is_cpu ? Status::OK() : Status::NotImplemented("DLPack support is implemented only for buffers on CPU device.");
}

/// Calls `f` with the view of an array, or returns the reason why DLPack cannot describe it.
template <class F>
auto with_view(Array const& array, F f) -> decltype(f(ferry::tensor_view{})) {
    // The data of null elements may be undefined.
    if (array.null_count() > 0) return Status::TypeError("Can only use DLPack on arrays with no nulls.");
    ARROW_ASSIGN_OR_RAISE(auto const type, to_dlpack_type(*array.type()));
    ARROW_RETURN_NOT_OK(check_cpu(array.device_type() == DeviceAllocationType::kCPU));
    ArrayData const& data = *array.data();
    auto const* const first = data.GetValues<std::uint8_t>(1, data.offset * type.bits / 8);
    return f({first, type, ferry::shape_view{&data.length, 1}});  // of void const*: read-only, as all Arrow arrays are
}

/// Calls `f` with the view of a tensor, or returns the reason why DLPack cannot describe it.
template <class F>
auto with_view(Tensor const& tensor, F f) -> decltype(f(ferry::tensor_view{})) {
    ARROW_ASSIGN_OR_RAISE(auto const type, to_dlpack_type(*tensor.type()));
    ARROW_RETURN_NOT_OK(check_cpu(tensor.data()->is_cpu()));
    auto const& bytes = tensor.strides();
    std::int64_t few[64];
    std::vector<std::int64_t> many(bytes.size() > std::size(few) ? bytes.size() : 0);
    std::int64_t* const strides = many.empty() ? few : many.data();
    bool const is_empty = tensor.size() == 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bool const is_used = !is_empty && tensor.shape()[i] != 1;
        if (is_used && bytes[i] % (type.bits / 8) != 0)
            return Status::Invalid(
                "DLPack cannot describe strides that are not multiples of the element size. Try copying the tensor first.");
        strides[i] = bytes[i] / (type.bits / 8);
    }
    auto const bits = tensor.is_mutable() ? ferry::flags::none : ferry::flags::read_only;
    auto* const first = const_cast<std::uint8_t*>(tensor.raw_data());
    return f({static_cast<void*>(first), type, tensor.shape(), {strides, tensor.ndim()}, ferry::cpu, bits});
}

/// Copies the values of an array, or the memory of a tensor.
Result<std::shared_ptr<Buffer>> copy_of(Array const& array) {
    ArrayData const& data = *array.data();
    auto const width = array.type()->byte_width();
    return data.buffers[1]->CopySlice(data.offset * width, data.length * width);
}
Result<std::shared_ptr<Buffer>> copy_of(Tensor const& tensor) { return tensor.data()->CopySlice(0, tensor.data()->size()); }

template <class Owner>
Result<DLManagedTensorVersioned*> share(Owner owner, ferry::tensor_view const& v, ferry::flags bits) {
    auto tensor = ferry::try_make_managed(std::move(owner), v, bits);
    if (!tensor) return to_status(tensor.error());
    return tensor->release();
}

template <class T>
Result<DLManagedTensorVersioned*> export_versioned(std::shared_ptr<T> const& array, bool copy) {
    return with_view(*array, [&](ferry::tensor_view const& v) -> Result<DLManagedTensorVersioned*> {
        if (!copy) return share(array, v, ferry::flags::none);
        ARROW_ASSIGN_OR_RAISE(auto memory, copy_of(*array));
        void* const first = memory->mutable_data();
        return share(std::move(memory), {first, v.dtype(), v.shape(), v.strides()}, ferry::flags::is_copied);
    });
}

template <class T>
Result<DLManagedTensor*> export_legacy(std::shared_ptr<T> const& array) {
    return with_view(*array, [&](ferry::tensor_view const& v) -> Result<DLManagedTensor*> {
        if (std::same_as<T, Tensor> && v.is_read_only())
            return Status::NotImplemented(
                "Legacy DLPack support is not implemented for immutable tensors. Please move to the DLPack version >=1.0");
        // Arrow lends arrays, which are immutable, to consumers of the legacy struct, which has no flag for that.
        auto tensor = ferry::try_make_managed(std::shared_ptr<T>{array}, v.with_device(v.device(), ferry::flags::none));
        if (!tensor) return to_status(tensor.error());
        auto const raw = tensor->try_release_legacy();
        if (!raw) return to_status(raw.error());
        return *raw;
    });
}

/// Memory of an imported tensor.
class imported_buffer final : public MutableBuffer {
   public:
    imported_buffer(DLManagedTensorVersioned* tensor, ferry::tensor_view const& v, std::int64_t bytes)
        : MutableBuffer{const_cast<std::uint8_t*>(static_cast<std::uint8_t const*>(v.data())), bytes}, tensor_{tensor} {
        is_mutable_ = v.is_writable();
    }
    ~imported_buffer() override {
        if (tensor_->deleter != nullptr) tensor_->deleter(tensor_);
    }

   private:
    DLManagedTensorVersioned* tensor_;
};

/// Empty tensors are released at once.
std::shared_ptr<Buffer> to_buffer(ferry::managed_tensor& tensor, ferry::tensor_view const& v, std::int64_t bytes) {
    if (bytes == 0) return std::make_shared<Buffer>(nullptr, 0);
    return std::make_shared<imported_buffer>(tensor.release(), v, bytes);
}

}  // namespace

Result<DLManagedTensor*> ExportArray(std::shared_ptr<Array> const& array) { return export_legacy(array); }
Result<DLManagedTensor*> ExportTensor(std::shared_ptr<Tensor> const& tensor) { return export_legacy(tensor); }
Result<DLManagedTensorVersioned*> ExportArrayVersioned(std::shared_ptr<Array> const& array, bool copy) {
    return export_versioned(array, copy);
}
Result<DLManagedTensorVersioned*> ExportTensorVersioned(std::shared_ptr<Tensor> const& tensor, bool copy) {
    return export_versioned(tensor, copy);
}

Result<DLDevice> ExportDevice(std::shared_ptr<Array> const& array) {
    ARROW_RETURN_NOT_OK(check_cpu(array->device_type() == DeviceAllocationType::kCPU));
    return ferry::cpu.to_abi();
}
Result<DLDevice> ExportDevice(std::shared_ptr<Tensor> const& tensor) {
    ARROW_RETURN_NOT_OK(check_cpu(tensor->data()->is_cpu()));
    return ferry::cpu.to_abi();
}

Result<std::shared_ptr<Array>> ImportArrayVersioned(DLManagedTensorVersioned* raw) {
    auto tensor = ferry::try_from_dlpack(raw);
    if (!tensor) return to_status(tensor.error());
    auto const seen = tensor->try_view();
    ferry::tensor_view const& v = *seen;
    ARROW_RETURN_NOT_OK(check_cpu(v.device().type == ferry::device_type::cpu));
    if (v.rank() != 1 || !v.is_contiguous())
        return Status::Invalid("Only contiguous one dimensional tensor can be imported as arrays. Try importing to Tensor first.");
    ARROW_ASSIGN_OR_RAISE(auto type, to_arrow_type(v.dtype()));
    auto const length = v.extent(0);
    auto memory = to_buffer(*tensor, v, length * type->byte_width());
    return MakeArray(ArrayData::Make(std::move(type), length, {nullptr, std::move(memory)}, 0));
}

Result<std::shared_ptr<Tensor>> ImportTensorVersioned(DLManagedTensorVersioned* raw) {
    auto tensor = ferry::try_from_dlpack(raw);
    if (!tensor) return to_status(tensor.error());
    auto const seen = tensor->try_view();
    ferry::tensor_view const& v = *seen;
    ARROW_RETURN_NOT_OK(check_cpu(v.device().type == ferry::device_type::cpu));
    ARROW_ASSIGN_OR_RAISE(auto type, to_arrow_type(v.dtype()));
    std::vector<std::int64_t> shape(v.shape().begin(), v.shape().end()), strides(shape.size());
    for (int i = 0; i < v.rank(); ++i)  // ferry does not check strides that no element uses
        if (internal::MultiplyWithOverflow(v.stride(i), std::int64_t{v.dtype().bits / 8}, &strides[static_cast<std::size_t>(i)]))
            return Status::Invalid("Overflow computing DLPack tensor stride in bytes.");
    ARROW_ASSIGN_OR_RAISE(auto const bytes, internal::ComputeTensorSize(shape, strides, v.dtype().bits / 8));
    auto memory = to_buffer(*tensor, v, bytes);
    return Tensor::Make(std::move(type), std::move(memory), std::move(shape), std::move(strides));
}

}  // namespace arrow::dlpack
