// ferry: the engine of python/export.hpp.
#pragma once

#include <ferry/python/export.hpp>

#include <exception>
#include <new>
#include <stdexcept>

namespace FERRY_NAMESPACE::python {
namespace detail {

/// Sets the argument with a given name.
/// \throws error_is_set  TypeError for an unknown name
FERRY_NOINLINE inline void set_argument(export_arguments& given, PyObject* name, PyObject* value) {
    auto const& known = names();
    auto const set = [&](auto matches) {
        PyObject** const slot = matches(known.max_version) ? &given.max_version
                                : matches(known.dl_device) ? &given.dl_device
                                : matches(known.copy)      ? &given.copy
                                : matches(known.stream)    ? &given.stream
                                                           : nullptr;
        if (slot != nullptr) *slot = value;
        return slot != nullptr;
    };
    if (set([&](PyObject* interned) { return name == interned; })) return;
    if (set([&](PyObject* interned) { return is_named(name, interned); })) return;
    PyErr_Format(PyExc_TypeError, "__dlpack__() got an unexpected keyword argument '%U'", name);
    throw error_is_set{};
}

/// A reference to an argument; none to None, the usual argument.
class held_argument {
   public:
    explicit held_argument(PyObject* object) noexcept : object_{object != Py_None ? object : nullptr} {
        Py_XINCREF(object_);
    }
    held_argument(held_argument const&) = delete;
    held_argument& operator=(held_argument const&) = delete;
    ~held_argument() { Py_XDECREF(object_); }

   private:
    PyObject* object_;
};

/// Requires that a call has no positional arguments.
inline void require_keywords(Py_ssize_t positional) {
    if (positional != 0)
        raise(PyExc_TypeError, "__dlpack__()",
              " does not accept positional arguments: pass stream, max_version, dl_device and copy by name");
}

/// Converts the arguments of `__dlpack__`, of which at least one is present.
FERRY_NOINLINE inline void convert_present(export_arguments const& given, converted_arguments& asked) {
    asked.req.copy = copy_from(given.copy);
    // Reading max_version may run Python code that removes the other objects from the dict that holds them.
    held_argument const device_held{given.dl_device}, stream_held{given.stream};
    asked.req.max_version = version_from(given.max_version);
    if (given.dl_device != Py_None)
        asked.req.device =
            device_from_pair(given.dl_device, "dl_device", " must be None or a pair of integers (type, id)");
    asked.stream = stream_number(given.stream);
}

[[noreturn]] FERRY_PYTHON_INLINE void fail_uncopied(request const& req, device from, device to) {
    message text;
    if (!ferry::detail::is_reachable_as(from, to))
        text << "the data is on " << name(from.type) << ":" << from.id << ", and this object cannot copy it to "
             << name(to.type) << ":" << to.id << ": omit dl_device";
    else if (req.copy == copy_policy::always) text << "this object cannot copy: omit copy=True";
    else text << "the array is read-only or has padded elements: pass max_version=(1, 0) (R13, R15)";
    ferry::detail::fail(errc::copy_needed, "__dlpack__", text, in_python);
}

FERRY_PYTHON_INLINE tensor_view read_prototype(DLTensor const* prototype, void const* out) {
    if (prototype == nullptr || out == nullptr)
        ferry::detail::fail(errc::null_struct, allocator_name,
                            message{"the prototype or the output is NULL: pass both"}, in_python);
    DLTensor described = *prototype;
    int probe = 0;
    described.data = &probe;  // the pointer of the prototype is not read
    described.strides = nullptr;
    described.byte_offset = 0;
    ferry::validate(described, flags::none, allocator_name, in_python);
    described.data = nullptr;
    return {described, flags::none};
}

FERRY_PYTHON_INLINE void pass_error(void* context, void (*set_error)(void*, char const*, char const*)) noexcept {
    try {
        throw;
    } catch (std::bad_alloc const&) {
        set_error(context, "MemoryError", "managed_tensor_allocator: out of memory");
    } catch (error const& e) {
        set_error(context, e.code() == errc::out_of_memory ? "MemoryError" : "BufferError", python_text{e}.c_str());
    } catch (std::logic_error const& e) {
        set_error(context, "ValueError", e.what());
    } catch (std::runtime_error const& e) {
        set_error(context, "BufferError", e.what());  // as in translate_exception
    } catch (std::exception const& e) {
        set_error(context, "RuntimeError", e.what());
    } catch (...) {
        set_error(context, "RuntimeError", "managed_tensor_allocator: an exception of unknown type");
    }
}

FERRY_PYTHON_INLINE DLTensor borrowed(tensor_view const& v) {
    constexpr auto api = "dltensor_from_py_object_no_sync";
    static_cast<void>(ferry::detail::check_view(v, {api, in_python}));
    if (v.is_read_only() || v.is_padded())
        ferry::detail::fail(
            errc::read_only, api,
            message{"a borrowed DLTensor has no flags for read-only or padded elements: use __dlpack__"}, in_python);
    if (v.strides().is_implicit() && v.rank() != 0)
        ferry::detail::fail(errc::strides, api,
                            message{"the array stores no strides that can be borrowed: use __dlpack__"}, in_python);
    bool const empty = v.is_empty();
    DLTensor out{empty ? nullptr : ferry::detail::untyped_data(v),
                 v.device().to_abi(),
                 v.rank(),
                 v.dtype().to_abi(),
                 const_cast<std::int64_t*>(v.shape().data()),
                 const_cast<std::int64_t*>(v.strides().data()),
                 empty ? 0 : v.byte_offset()};
    if (ignores_id(v.device().type)) out.device.device_id = 0;
    return out;
}

template <class BackEnd>
managed_tensor exports_through<BackEnd>::copy(BackEnd const& b, decision const& d, tensor_view const& v,
                                              stream_token ready, managed_tensor* source) {
    return copy_export<managed_tensor>(b, d, v, ready, source);
}

#if defined(FERRY_SEPARATE_COMPILATION)
template struct exports_through<host_back_end>;
template struct exports_through<share_only_back_end>;
template struct exports_through<back_end_ref>;
#endif

FERRY_PYTHON_INLINE PyObject* copied_capsule(managed_tensor&& copied, bool is_legacy) {
    return is_legacy ? make_capsule(copied.release_legacy(in_python)) : make_capsule(copied.release());
}

}  // namespace detail

FERRY_PYTHON_INLINE export_arguments parse_export_arguments(PyObject* const* args, Py_ssize_t positional,
                                                            PyObject* keywords) {
    detail::require_keywords(positional);
    export_arguments given;
    Py_ssize_t const count = keywords != nullptr ? detail::tuple_size(keywords) : 0;
    for (Py_ssize_t i = 0; i < count; ++i) detail::set_argument(given, detail::tuple_item(keywords, i), args[i]);
    return given;
}

FERRY_PYTHON_INLINE export_arguments parse_export_arguments(PyObject* args, PyObject* keywords) {
    detail::require_keywords(args != nullptr ? detail::tuple_size(args) : 0);
    export_arguments given;
    PyObject *name = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
#if defined(Py_GIL_DISABLED)
    if (keywords == nullptr) return given;
    detail::critical_section const alone{keywords};
#endif
    while (keywords != nullptr && PyDict_Next(keywords, &position, &name, &value) != 0)
        detail::set_argument(given, name, value);
    return given;
}

FERRY_PYTHON_INLINE converted_arguments convert_arguments(export_arguments const& given) {
    converted_arguments asked;
    asked.req.max_version = version::legacy;
    bool const has_arguments =
        given.stream != Py_None || given.max_version != Py_None || given.dl_device != Py_None || given.copy != Py_None;
    if (has_arguments) detail::convert_present(given, asked);
    return asked;
}

FERRY_PYTHON_INLINE request to_request(converted_arguments const& asked, device dev) {
    request req = asked.req;
    req.stream = detail::stream_from(asked.stream, req.device.value_or(dev).type);
    return req;
}

FERRY_PYTHON_INLINE PyObject* to_device_pair(device dev) noexcept {
    return Py_BuildValue("(ii)", static_cast<int>(dev.type), ignores_id(dev.type) ? 0 : static_cast<int>(dev.id));
}

}  // namespace FERRY_NAMESPACE::python
