// ferry: imports columns through Arrow's PyCapsule interface.
#pragma once

#include <ferry/python/detail/arrow_capsule.hpp>
#include <ferry/python/detail/published.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/gil.hpp>
#include <ferry/python/import.hpp>
#include <ferry/python/object.hpp>

#include <ferry/arrow/chunked.hpp>
#include <ferry/arrow/concat.hpp>
#include <ferry/arrow/device.hpp>
#include <ferry/arrow/events.hpp>
#include <ferry/arrow/from_arrow.hpp>
#include <ferry/column/column.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>  // the chunks

namespace FERRY_NAMESPACE::python {
namespace detail {

/// Returns a method of an object, or null. For a class, searches only the metaclass, because the class defines methods
/// for its instances.
[[nodiscard]] inline reference find_method(PyObject* x, char const* name) {
    if (PyType_Check(x) != 0 && !find_attribute(reinterpret_cast<PyObject*>(Py_TYPE(x)), name)) return {};
    return find_attribute(x, name);
}

/// Calls a method of the producer without arguments.
[[nodiscard]] inline reference call_method(reference const& method) {
    reference result{call_python([&] { return PyObject_CallNoArgs(method.get()); })};
    if (!result) throw error_is_set{};
    return result;
}

/// The two objects that a method returned.
struct capsule_pair {
    reference schema, array;
};
/// Returns the items of a pair.
/// \throws error_is_set  TypeError: not a tuple or list of two items
[[nodiscard]] inline capsule_pair two_capsules(reference const& pair, char const* method) {
    PyObject* const p = pair.get();
    if ((PyTuple_Check(p) == 0 && PyList_Check(p) == 0) || size_of(p) != 2) {
        PyErr_Format(PyExc_TypeError, "%s returned %.100s: expected a pair of capsules", method,
                     type_name{Py_TYPE(p)}.text());
        throw error_is_set{};
    }
    capsule_pair items{reference{item_of(p, 0)}, reference{item_of(p, 1)}};
#if defined(Py_GIL_DISABLED)
    if (!items.schema || !items.array) raise(PyExc_TypeError, "another thread changed the list of capsules");
#endif
    return items;
}

/// Moves a struct out of its capsule for the duration of an import, so that other threads find the capsule consumed.
/// The destructor moves the struct back unless the import has consumed it, so a refused import does not change the
/// capsule.
template <arrow_struct T>
class borrowed_struct {
   public:
    borrowed_struct(reference const& capsule, T* source) noexcept : capsule_{capsule.get()}, source_{source} {
        critical_section const alone{capsule_};
        value_ = *source;
        ferry::detail::releasable(*source).release = nullptr;
    }
    borrowed_struct(borrowed_struct const&) = delete;
    borrowed_struct& operator=(borrowed_struct const&) = delete;
    ~borrowed_struct() {
        if (ferry::detail::releasable(value_).release == nullptr) return;
        critical_section const alone{capsule_};
        *source_ = value_;
    }
    [[nodiscard]] T* get() noexcept { return &value_; }

   private:
    PyObject* capsule_;
    T* source_;
    T value_;
};

/// Owns memory whose release callback may run Python code, and preserves the current Python error when it releases the
/// memory, because a column may be destroyed while a Python exception propagates.
class error_preserving_owner {
   public:
    explicit error_preserving_owner(std::shared_ptr<void const> owner) noexcept : owner_{std::move(owner)} {}
    error_preserving_owner(error_preserving_owner const&) = delete;
    error_preserving_owner& operator=(error_preserving_owner const&) = delete;
    ~error_preserving_owner() {
        if (is_finalizing() || !holds_gil()) return;
        kept_error const kept;
        owner_.reset();
    }

   private:
    std::shared_ptr<void const> owner_;
};
/// Returns the column with an error_preserving_owner.
[[nodiscard]] inline column preserve_errors(column const& c) {
    return ferry::detail::column_access::make(std::make_shared<error_preserving_owner const>(c.owner()), c.view());
}

[[nodiscard]] inline column import_array(reference const& method) {
    constexpr auto name = "__arrow_c_array__";
    reference const result = call_method(method);
    auto const [schema, array] = two_capsules(result, name);
    auto* const s = struct_in<ArrowSchema>(schema.get(), name);
    auto* const a = struct_in<ArrowArray>(array.get(), name);
    critical_section const alone{schema.get(), array.get()};
    return preserve_errors(from_arrow(a, s));  // neither runs Python code nor releases the GIL
}

/// `events`: of the back end; null if it has none.
[[nodiscard]] inline column import_device_array(reference const& method, arrow_events_ref const* events) {
    constexpr auto name = "__arrow_c_device_array__";
    reference const result = call_method(method);
    auto const [schema, array] = two_capsules(result, name);
    auto* const s = struct_in<ArrowSchema>(schema.get(), name);
    auto* const a = struct_in<ArrowDeviceArray>(array.get(), name);
    if (events != nullptr && a->device_type != static_cast<std::int32_t>(device_type::cpu)) {
        borrowed_struct type{schema, s};
        borrowed_struct data{array, a};
        without_gil const released;  // from_arrow waits for the device
        return preserve_errors(from_arrow(data.get(), type.get(), *events));
    }
    critical_section const alone{schema.get(), array.get()};
    return preserve_errors(from_arrow(a, s));
}

/// Reads all chunks of a stream, without the GIL, because the producer may need it on another thread. `read` returns
/// them.
/// \throws error_is_set  OSError with the error message of the stream
/// \throws error         errc::argument if the stream reports EINVAL;  out_of_memory if it reports ENOMEM;  errors of
///                       from_arrow
template <class Stream, class Read>
[[nodiscard]] chunked import_stream(reference const& method, char const* name, Read read) {
    reference const capsule = call_method(method);
    borrowed_struct stream{capsule, struct_in<Stream>(capsule.get(), name)};
    try {
        without_gil const released;
        auto const got = read(stream.get());
        std::vector<column> chunks;
        for (auto const& c : got.chunks()) chunks.push_back(preserve_errors(c));
        return {std::move(chunks), got.type()};
    } catch (error const& e) {
        if (e.code() != errc::driver) throw;
        set_error(PyExc_OSError, e.what());
        throw error_is_set{};
    }
}

/// Imports an object by a method for host memory, or by one for devices; returns nothing if it has neither. If the
/// former raises a NotImplementedError or BufferError, as pyarrow and ferry do for device memory, the latter is called.
template <class Host, class Device>
[[nodiscard]] auto import_by(PyObject* x, char const* host_method, Host from_host, char const* device_method,
                             Device from_device) -> std::optional<decltype(from_host(reference{}))> {
    std::optional<removed_error> refusal;
    if (reference const method = find_method(x, host_method)) {
        try {
            return from_host(method);
        } catch (error_is_set const&) {
            if (PyErr_ExceptionMatches(PyExc_NotImplementedError) == 0 &&
                PyErr_ExceptionMatches(PyExc_BufferError) == 0)
                throw;
            refusal.emplace();
        }
    }
    if (reference const method = find_method(x, device_method)) {
        refusal.reset();
        return from_device(method);
    }
    if (!refusal) return std::nullopt;
    refusal->restore();
    throw error_is_set{};
}
[[nodiscard]] inline std::optional<column> find_column(PyObject* x, arrow_events_ref const* events) {
    return import_by(x, "__arrow_c_array__", import_array, "__arrow_c_device_array__",
                     [&](reference const& method) { return import_device_array(method, events); });
}
[[nodiscard]] inline std::optional<chunked> find_chunks(PyObject* x, arrow_events_ref const* events) {
    constexpr auto host_method = "__arrow_c_stream__", device_method = "__arrow_c_device_stream__";
    return import_by(
        x, host_method,
        [](reference const& method) {
            return import_stream<ArrowArrayStream>(method, host_method, [](auto* s) { return from_arrow(s); });
        },
        device_method,
        [&](reference const& method) {
            return import_stream<ArrowDeviceArrayStream>(method, device_method, [&](auto* s) {
                return events != nullptr ? from_arrow(s, *events) : from_arrow(s);
            });
        });
}

[[noreturn]] inline void raise_no_protocol(PyObject* x) {
    PyErr_Format(PyExc_TypeError,
                 "expected an object with __arrow_c_array__, __arrow_c_device_array__, __arrow_c_stream__ or "
                 "__arrow_c_device_stream__, got %.200s",
                 type_name{Py_TYPE(x)}.text());
    throw error_is_set{};
}

/// See column_from_python.
[[nodiscard]] inline column import_column(PyObject* x, arrow_events_ref const* events) {
    require_main_interpreter();
    if (auto one = find_column(x, events)) return *std::move(one);
    auto const all = find_chunks(x, events);
    if (!all) raise_no_protocol(x);
    without_gil const released;
    return concat(*all);
}

/// See chunked_from_python.
[[nodiscard]] inline chunked import_chunked(PyObject* x, arrow_events_ref const* events) {
    require_main_interpreter();
    if (auto all = find_chunks(x, events)) return *std::move(all);
    if (auto const one = find_column(x, events)) return chunked{*one};
    raise_no_protocol(x);
}

/// Calls `import(events)` with the events of a back end, or null if it has none.
template <class BackEnd, class Import>
[[nodiscard]] auto with_events([[maybe_unused]] BackEnd& b, Import import) {
    if constexpr (ferry::detail::reaches_arrow_events<BackEnd>) {
        arrow_events_ref const events{b};
        return import(&events);
    } else {
        return import(nullptr);
    }
}

}  // namespace detail

/// Imports a Python object as a column, through the first of the methods `__arrow_c_array__`,
/// `__arrow_c_device_array__`, `__arrow_c_stream__` and `__arrow_c_device_stream__` that the object has. If a method
/// for host memory raises a NotImplementedError or BufferError, that for devices is called if there is one. An array,
/// or the single chunk of a stream, is shared; several chunks are concatenated into a copy. An import without a copy
/// validates the structure and does not read the data.
///
/// Requires the GIL, and releases it while it waits for a device or reads a stream. If the import of an array fails in
/// from_arrow, the capsules are unchanged. A stream that has been read from is released.
///
/// \param x  Python object; borrowed
/// \param b  back end that waits for the event of a device array; not needed for host memory
/// \return   the column, which owns the imported memory
/// \throws error_is_set    an exception of the producer;  TypeError: no protocol, or a wrong capsule;  OSError: an
///                         error of the stream other than EINVAL and ENOMEM
/// \throws error           errors of from_arrow and concat;  errc::argument or out_of_memory: the
///                         error EINVAL or ENOMEM of the stream
/// \throws std::bad_alloc  when an allocation fails
template <class BackEnd = host_back_end>
[[nodiscard]] column column_from_python(PyObject* x, BackEnd&& b = {}) {
    return detail::with_events(b, [x](arrow_events_ref const* events) { return detail::import_column(x, events); });
}

/// Imports a Python object as chunks, which are shared and not joined, through `__arrow_c_stream__` or
/// `__arrow_c_device_stream__`; an object that has neither is imported as one chunk. See column_from_python.
///
/// \param x  Python object; borrowed
/// \param b  back end that waits for the events of device arrays; not needed for host memory
/// \return   the chunks, which own the imported memory
/// \throws error_is_set, error, std::bad_alloc  as column_from_python
template <class BackEnd = host_back_end>
[[nodiscard]] chunked chunked_from_python(PyObject* x, BackEnd&& b = {}) {
    return detail::with_events(b, [x](arrow_events_ref const* events) { return detail::import_chunked(x, events); });
}

}  // namespace FERRY_NAMESPACE::python
