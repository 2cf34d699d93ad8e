// ferry: columns in, by Arrow's PyCapsule interface.
#pragma once

#include <ferry/python/arrow_capsule.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/gil.hpp>
#include <ferry/python/import.hpp>
#include <ferry/python/object.hpp>

#include <ferry/arrow/device.hpp>
#include <ferry/arrow/events.hpp>
#include <ferry/arrow/from_arrow.hpp>
#include <ferry/arrow/from_stream.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/concat.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace ferry::inline v0::python {
namespace detail {

/// The method of an object; of its type, else of its own. A class has none in this sense: its methods are for its
/// instances.
[[nodiscard]] inline reference find_method(PyObject* x, char const* name) {
    reference const text{PyUnicode_InternFromString(name)};
    if (!text) throw error_is_set{};
    if (PyType_Check(x) != 0 && !find_attribute(reinterpret_cast<PyObject*>(Py_TYPE(x)), text.get())) return {};
    return find_attribute(x, text.get());
}

/// What the method returns. The producer's errors go through.
[[nodiscard]] inline reference call_method(reference const& method) {
    reference result{call_python([&] { return PyObject_CallNoArgs(method.get()); })};
    if (!result) throw error_is_set{};
    return result;
}

/// The two capsules that a method returned. Borrowed from the pair, which the caller keeps.
struct capsule_pair {
    reference schema, array;
};
[[nodiscard]] inline capsule_pair two_capsules(reference const& pair, char const* method) {
    PyObject* const p = pair.get();
    if ((PyTuple_Check(p) == 0 && PyList_Check(p) == 0) || PySequence_Fast_GET_SIZE(p) != 2) {
        PyErr_Format(PyExc_TypeError, "%s did not return a pair of capsules", method);
        throw error_is_set{};
    }
    PyObject *const schema = PySequence_Fast_GET_ITEM(p, 0), *const array = PySequence_Fast_GET_ITEM(p, 1);
    Py_INCREF(schema);
    Py_INCREF(array);
    return {reference{schema}, reference{array}};
}

/// A struct on its way out of a capsule: what is not taken goes back at the end, so that a refused import leaves the
/// capsule as it was. Meanwhile the capsule holds nothing, and other threads that import it too find it used.
template <arrow_struct T>
class borrowed_struct {
   public:
    explicit borrowed_struct(T* home) noexcept : home_{home}, value_{*home} { base_of(*home).release = nullptr; }
    borrowed_struct(borrowed_struct const&) = delete;
    borrowed_struct& operator=(borrowed_struct const&) = delete;
    ~borrowed_struct() {
        if (base_of(value_).release != nullptr) *home_ = value_;
    }
    [[nodiscard]] T* get() noexcept { return &value_; }

   private:
    T* home_;
    T value_;
};

/// Keeps what a foreign library releases, whose callback may run Python: an error in flight survives it, as when a
/// column dies because one was raised.
class quiet_owner {
   public:
    explicit quiet_owner(std::shared_ptr<void const> owner) noexcept : owner_{std::move(owner)} {}
    quiet_owner(quiet_owner const&) = delete;
    quiet_owner& operator=(quiet_owner const&) = delete;
    ~quiet_owner() {
        if (is_finalizing() || PyGILState_Check() == 0) return;
        PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
        PyErr_Fetch(&type, &value, &trace);
        owner_.reset();
        PyErr_Restore(type, value, trace);
    }

   private:
    std::shared_ptr<void const> owner_;
};
[[nodiscard]] inline column quiet(column const& c) {
    return ferry::detail::column_access::make(std::make_shared<quiet_owner const>(c.owner()), c.view());
}

[[nodiscard]] inline column import_array(reference const& method) {
    constexpr auto name = "__arrow_c_array__";
    reference const result = call_method(method);
    auto const [schema, array] = two_capsules(result, name);
    auto* const s = struct_in<ArrowSchema>(schema.get(), name);
    auto* const a = struct_in<ArrowArray>(array.get(), name);
    return quiet(from_arrow(a, s));  // neither runs Python nor gives the GIL away
}

template <class BackEnd>
[[nodiscard]] column import_device_array(reference const& method, [[maybe_unused]] BackEnd& b) {
    constexpr auto name = "__arrow_c_device_array__";
    reference const result = call_method(method);
    auto const [schema, array] = two_capsules(result, name);
    auto* const s = struct_in<ArrowSchema>(schema.get(), name);
    auto* const a = struct_in<ArrowDeviceArray>(array.get(), name);
    if constexpr (arrow_event_back_end<BackEnd>) {
        if (a->device_type != static_cast<std::int32_t>(device_type::cpu)) {
            borrowed_struct type{s};
            borrowed_struct data{a};
            without_gil const others_run;  // while this one waits for the device
            return quiet(from_arrow(data.get(), type.get(), b));
        }
    }
    return quiet(from_arrow(a, s));
}

/// Pulls a stream dry. Other threads run meanwhile: the producer's may be Python's.
/// \throws error_is_set  OSError with the stream's own text, but ValueError for EINVAL and MemoryError for ENOMEM
[[nodiscard]] inline column import_stream(reference const& method) {
    constexpr auto name = "__arrow_c_stream__";
    reference const capsule = call_method(method);
    borrowed_struct stream{struct_in<ArrowArrayStream>(capsule.get(), name)};
    try {
        without_gil const others_run;
        auto reader = from_arrow_stream(stream.get());
        auto const chunks = read_all(reader);
        return chunks.empty() ? reader.type() : chunks.size() == 1 ? quiet(chunks[0]) : concat(chunks);
    } catch (error const& e) {
        if (e.code() != errc::driver) throw;
        set_error(PyExc_OSError, e.what());
        throw error_is_set{};
    }
}

/// Lets the error of the host's array protocol through, unless it says that the data cannot go this way, as pyarrow's
/// and ours do for memory of a device, and there is another way: then it is gone.
/// \throws error_is_set  the error as it was
inline void pass_on_unless_device(PyObject* x) {
    if (PyErr_ExceptionMatches(PyExc_NotImplementedError) == 0 && PyErr_ExceptionMatches(PyExc_BufferError) == 0)
        throw error_is_set{};
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    bool const has_another = static_cast<bool>(find_method(x, "__arrow_c_device_array__"));
    if (!has_another) {
        PyErr_Restore(type, value, trace);
        throw error_is_set{};
    }
    reference const dropped[] = {reference{type}, reference{value}, reference{trace}};
}

}  // namespace detail

/// Imports a Python object as a column: by `__arrow_c_array__`, else `__arrow_c_device_array__`, else
/// `__arrow_c_stream__`. What an array protocol of the host refuses as not its own (NotImplementedError, BufferError)
/// is asked for by that of devices, if there is one. Arrays are shared; so is a stream of one chunk, and several are
/// joined by a copy.
///
/// The GIL must be held; waits for devices, and streams, give it away. The structure is checked, and no byte is read. A
/// refused import leaves the capsules of arrays as they were; a stream that has been read from is released.
///
/// \throws error_is_set  the producer's own errors; TypeError: no protocol, or other capsules than it names;  error  as
///                       from_arrow
template <class BackEnd = host_back_end const&>
[[nodiscard]] column column_from_python(PyObject* x, BackEnd&& b = host_only) {
    if (reference const method = detail::find_method(x, "__arrow_c_array__")) {
        try {
            return detail::import_array(method);
        } catch (error_is_set const&) {
            detail::pass_on_unless_device(x);
        }
    }
    if (reference const method = detail::find_method(x, "__arrow_c_device_array__"))
        return detail::import_device_array(method, b);
    if (reference const method = detail::find_method(x, "__arrow_c_stream__")) return detail::import_stream(method);
    PyErr_Format(
        PyExc_TypeError,
        "an object with __arrow_c_array__, __arrow_c_device_array__ or __arrow_c_stream__ is wanted, and %.200s has none of them",
        Py_TYPE(x)->tp_name);
    throw error_is_set{};
}

}  // namespace ferry::inline v0::python
