// ferry: the buffer protocol (PEP 3118), in both directions.
#pragma once

#include <ferry/python/api.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/object.hpp>

#include <ferry/base/detail/checked.hpp>
#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/dtype.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/flags.hpp>
#include <ferry/tensor/detail/make_raw.hpp>
#include <ferry/tensor/layout.hpp>
#include <ferry/tensor/managed.hpp>
#include <ferry/tensor/validate.hpp>
#include <ferry/tensor/view.hpp>

#include <cstdint>
#include <cstring>
#include <utility>

namespace FERRY_NAMESPACE::python {
namespace detail {

/// A format of one element, without the character for the byte order, and its data type. `l` and `L` are the platform's
/// long for native elements, and have 4 bytes with one of the characters `=<>!`.
struct buffer_format {
    char text[3];
    data_type type;
};
inline constexpr std::uint8_t bits_of_long = 8 * sizeof(long);
/// The first format of a data type is the one that exports use.
inline constexpr buffer_format buffer_formats[] = {
    {"?", {type_code::bool_, 8}},
    {"b", {type_code::int_, 8}},
    {"h", {type_code::int_, 16}},
    {"i", {type_code::int_, 32}},
    {"q", {type_code::int_, 64}},
    {"B", {type_code::uint, 8}},
    {"H", {type_code::uint, 16}},
    {"I", {type_code::uint, 32}},
    {"Q", {type_code::uint, 64}},
    {"e", {type_code::float_, 16}},
    {"f", {type_code::float_, 32}},
    {"d", {type_code::float_, 64}},
    {"Zf", {type_code::complex, 64}},
    {"Zd", {type_code::complex, 128}},
    {"F", {type_code::complex, 64}},
    {"D", {type_code::complex, 128}},
    {"l", {type_code::int_, bits_of_long}},
    {"L", {type_code::uint, bits_of_long}},
    {"n", {type_code::int_, 64}},
    {"N", {type_code::uint, 64}},
    {"c", {type_code::uint, 8}},
};

/// Returns the data type of the elements of a buffer.
/// \throws error_is_set  BufferError: a structure or another format without a DLPack data type (R16), or elements in
///                       another byte order (R20)
[[nodiscard]] FERRY_NOINLINE inline data_type type_from_format(char const* format, Py_ssize_t size) {
    char const* text = format != nullptr ? format : "B";
    bool const has_order = *text == '@' || *text == '=' || *text == '<' || *text == '>' || *text == '!';
    char const order = has_order ? *text++ : '@';
    for (auto const& known : buffer_formats) {
        if (known.text[0] != text[0] || known.text[1] != text[1] || (text[1] != '\0' && text[2] != '\0')) continue;
        data_type type = known.type;
        if ((*text == 'l' || *text == 'L') && order != '@') type.bits = 32;
        if (type.bits / 8 != size) break;
        if ((order == '>' || order == '!') && size > 1)
            raise(PyExc_BufferError, "from_buffer",
                  ": the elements are big-endian: convert the array to the native byte order");
        return type;
    }
    PyErr_Format(PyExc_BufferError,
                 "from_buffer: the format '%.50s' with elements of %zd bytes has no DLPack data type: convert the "
                 "elements to a boolean, integer, real or complex type",
                 format != nullptr ? format : "B", size);
    throw error_is_set{};
}

/// Returns the format of a data type; null if there is none.
[[nodiscard]] constexpr char const* format_of(data_type type) noexcept {
    for (auto const& known : buffer_formats)
        if (known.type == type) return known.text;
    return nullptr;
}

/// Sets a BufferError; returns -1.
FERRY_COLD inline int refuse_buffer(char const* begin, ferry::detail::sentence rest = "") noexcept {
    PyErr_Format(PyExc_BufferError, "%s%s", begin, static_cast<char const*>(rest));
    return -1;
}
FERRY_COLD inline int refuse_buffer(device dev) noexcept {
    message text{"the memory is on "};
    text << name(dev.type) << ":" << dev.id
         << ", and the buffer protocol describes host memory only: use __dlpack__, or copy the tensor to the CPU";
    return refuse_buffer(error{errc::device, "", text, in_python}.text());
}
FERRY_COLD inline int refuse_buffer(data_type type) noexcept {
    message text{"the buffer protocol has no format for dtype "};
    return refuse_buffer(
        error{errc::dtype, "", text << type << ": use __dlpack__, or convert the elements", in_python}.text());
}

/// Returns whether a view has the order that a consumer requests.
[[nodiscard]] FERRY_NOINLINE inline bool has_order(tensor_view const& v, contiguity order) noexcept {
    return v.is_contiguous(order);
}

/// Owner of a Py_buffer, which has an address of its own because an exporter may store pointers into it. The buffer is
/// released once, on any thread, with the GIL; after the finalisation of the interpreter it is leaked (R65–R67).
class owned_buffer {
   public:
    owned_buffer() : buffer_{new Py_buffer{}} {}
    owned_buffer(owned_buffer&& other) noexcept : buffer_{std::exchange(other.buffer_, nullptr)} {}
    owned_buffer& operator=(owned_buffer&&) = delete;
    ~owned_buffer() {
        if (buffer_ == nullptr) return;
        if (buffer_->obj != nullptr && !with_gil([this] { PyBuffer_Release(buffer_); })) return;
        delete buffer_;
    }
    [[nodiscard]] Py_buffer* get() const noexcept { return buffer_; }

   private:
    Py_buffer* buffer_;
};

}  // namespace detail

/// Imports an object that supports the buffer protocol, such as bytes, bytearray, memoryview or array.array. The tensor
/// shares the memory, and is read-only if the buffer is (R11). Its destructor, which may run on any thread, releases
/// the buffer. Requires the GIL.
///
/// \param x  object
/// \return   tensor on the CPU
/// \throws error_is_set    TypeError: no buffer protocol; BufferError: a format without a DLPack data type (R16),
///                         big-endian elements (R20), a stride that is not a multiple of the element size (R30),
///                         pointers to the elements (suboffsets), no shape, or more than 64 dimensions; an exception
///                         of the exporter
/// \throws error           errors of make_managed
/// \throws std::bad_alloc  when an allocation fails
[[nodiscard]] inline managed_tensor from_buffer(PyObject* x) {
    detail::require_main_interpreter();
    detail::owned_buffer owner;
    Py_buffer const& buffer = *owner.get();
    if (detail::call_python([&] { return PyObject_GetBuffer(x, owner.get(), PyBUF_FULL_RO); }) != 0)
        throw error_is_set{};
    auto const type = detail::type_from_format(buffer.format, buffer.itemsize);
    if (buffer.ndim < 0 || buffer.ndim > PyBUF_MAX_NDIM || (buffer.ndim > 0 && buffer.shape == nullptr))
        raise(PyExc_BufferError, "from_buffer", ": the exporter must provide a shape of at most 64 dimensions");
    std::int64_t shape[PyBUF_MAX_NDIM], strides[PyBUF_MAX_NDIM];
    bool is_empty = false;
    for (int i = 0; i < buffer.ndim; ++i) is_empty = is_empty || buffer.shape[i] == 0;
    for (int i = 0; i < buffer.ndim; ++i) {
        if (buffer.suboffsets != nullptr && buffer.suboffsets[i] >= 0)
            raise(PyExc_BufferError, "from_buffer",
                  ": the elements are accessed through pointers (suboffsets): copy them to a contiguous "
                  "array");
        shape[i] = buffer.shape[i];
        if (buffer.strides == nullptr) continue;
        bool const is_used = !is_empty && shape[i] != 1;  // R26, R27
        if (is_used && buffer.strides[i] % buffer.itemsize != 0)
            raise(PyExc_BufferError, "from_buffer", ": a stride is not a multiple of the element size: copy the array");
        strides[i] = is_used ? buffer.strides[i] / buffer.itemsize : 1;
    }
    tensor_view const v{buffer.buf,
                        type,
                        {shape, buffer.ndim},
                        buffer.strides != nullptr ? strides_view{strides, buffer.ndim} : strides_view{},
                        cpu,
                        buffer.readonly != 0 ? flags::read_only : flags::none};
    ferry::detail::reporter const r{"ferry::make_managed", detail::in_python};
    static_cast<void>(ferry::detail::check_view_by_call(v, r));
    return ferry::detail::trusted::adopt(ferry::detail::make_valid_raw<DLManagedTensorVersioned, true>(
        std::move(owner), ferry::detail::fixed_view{v}, v, cpu, v.flags(), version::current, r));
}

/// Implements `bf_getbuffer`: fills a buffer that describes a tensor. The buffer is read-only if the tensor is (R11),
/// or if a stride of 0 repeats elements (R29). Pass the arguments of `bf_getbuffer`, and call release_buffer in
/// `bf_releasebuffer`. Requires the GIL; does not synchronise.
///
/// \param v         view of the array in `exporter`; the memory must remain valid until the buffer is released. The
///                  extents and strides are copied
/// \param exporter  object; the buffer holds a reference to it
/// \param out       buffer
/// \param flags     request of the consumer, a combination of PyBUF_ flags
/// \return          0; on failure -1 with a Python error set: MemoryError, or BufferError for memory that the host
///                  cannot access, a data type without a format (such as bfloat16), an invalid view, a request for a
///                  writable buffer of read-only (R11) or repeated elements (R29), a request for a layout that the
///                  tensor does not have, or a request for a format without a shape
[[nodiscard]] inline int get_buffer(tensor_view const& v, PyObject* exporter, Py_buffer* out, int flags) noexcept {
    *out = {};
    if (!detail::check_interpreter()) return -1;
    ferry::detail::record checked{"get_buffer", detail::in_python};
    using detail::refuse_buffer;
    auto const has = [flags](int wanted) { return (flags & wanted) == wanted; };
    if (!ferry::detail::check_view_by_call(v, checked))
        return refuse_buffer(detail::python_text{checked.outcome.error()}.c_str());
    if (!is_host_accessible(v.device())) return refuse_buffer(v.device());
    char const* const format = v.is_padded() ? nullptr : detail::format_of(v.dtype());
    if (format == nullptr) return refuse_buffer(v.dtype());
    if (has(PyBUF_WRITABLE) && !v.is_writable())
        return refuse_buffer("a writable buffer was requested",
                             v.is_read_only() ? ", but the tensor is read-only: copy the tensor"
                                              : ", but a stride of 0 repeats elements of the tensor: copy the tensor");
    auto const is = [&v](bool is_required, contiguity order) { return !is_required || detail::has_order(v, order); };
    bool const fits = is(has(PyBUF_C_CONTIGUOUS) || !has(PyBUF_STRIDES), contiguity::row_major) &&
                      is(has(PyBUF_F_CONTIGUOUS), contiguity::column_major) &&
                      is(has(PyBUF_ANY_CONTIGUOUS), contiguity::either);
    if (!fits)
        return refuse_buffer("the tensor does not have the requested order", ": request strides, or copy the tensor");
    if (has(PyBUF_FORMAT) && !has(PyBUF_ND))
        return refuse_buffer("a format was requested without a shape",
                             ", but a buffer without a shape consists of unsigned bytes: request PyBUF_ND as well");
    auto const rank = static_cast<std::size_t>(v.rank());
    Py_ssize_t const item = v.dtype().bits / 8;
    auto* const layout = static_cast<Py_ssize_t*>(PyMem_Malloc(2 * sizeof(Py_ssize_t) * (rank != 0 ? rank : 1)));
    if (layout == nullptr) return PyErr_NoMemory(), -1;
    bool const is_empty = v.is_empty();
    for (int i = 0; i < v.rank(); ++i) {
        layout[i] = v.extent(i);
        std::int64_t step = 0;
        bool const is_used = !is_empty && v.extent(i) != 1;
        if (!ferry::detail::checked_multiply(is_used ? v.stride(i) : 1, item, step)) step = item;
        layout[rank + static_cast<std::size_t>(i)] = step;
    }
    out->buf = is_empty ? const_cast<char*>("") : ferry::detail::untyped_data(v);
    out->len = v.nbytes();
    out->readonly = v.is_writable() ? 0 : 1;  // R29
    out->itemsize = item;
    out->format = has(PyBUF_FORMAT) ? const_cast<char*>(format) : nullptr;
    out->ndim = has(PyBUF_ND) ? v.rank() : 1;
    out->shape = has(PyBUF_ND) && rank != 0 ? layout : nullptr;
    out->strides = has(PyBUF_STRIDES) && rank != 0 ? layout + rank : nullptr;
    out->internal = layout;
    Py_INCREF(exporter);
    out->obj = exporter;
    return 0;
}

/// Implements `bf_releasebuffer`: frees the memory that get_buffer allocated. Requires the GIL.
///
/// \param buffer  buffer that get_buffer filled
inline void release_buffer(Py_buffer* buffer) noexcept { PyMem_Free(std::exchange(buffer->internal, nullptr)); }

}  // namespace FERRY_NAMESPACE::python
