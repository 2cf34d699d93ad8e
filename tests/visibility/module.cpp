// An extension module with default visibility, as a build without -fvisibility=hidden makes it.
#include <ferry/python.hpp>
#include <ferry/python/arrow.hpp>
#include <ferry/python/caster.hpp>
#ifdef FERRY_TEST_CUDA
#include <ferry/cuda.hpp>
#include <ferry/python/cuda_array_interface.hpp>
#include <ferry/python/cuda_back_end.hpp>
#include <ferry/python/cuda_column_interface.hpp>

#include <optional>
using back_end = ferry::python::cuda_back_end<>;
#else
using back_end = ferry::host_back_end;
#endif

// In a named namespace, because names in an anonymous one are hidden anyway.
struct shown {
    float value = 1;
    ferry::tensor_view ferry_view() const { return {&value, {}}; }
};

template <>
struct ferry::array_traits<shown> {
    static shown share(shown const& a) { return a; }
    static shown adopt(managed_tensor) { return {}; }
};

struct unwrap {
    shown* operator()(PyObject*) const { return nullptr; }
};
struct wrap {
    PyObject* operator()(shown&&) const { return nullptr; }
};

struct unwrap_column {
    ferry::column const* operator()(PyObject*) const { return nullptr; }
};
struct wrap_column {
    PyObject* operator()(ferry::column&&) const { return nullptr; }
};

struct unwrap_value {
    std::optional<shown> operator()(PyObject*) const { return {}; }
};
struct unwrap_column_reference {
    ferry::column& operator()(PyObject*) const { throw ferry::python::error_is_set{}; }
};
struct ready {
    ferry::stream_token operator()(ferry::column const&) const { return {}; }
};

extern "C" PyObject* pass(PyObject* tensor) {
    ferry::python::detail::loader<ferry::managed_tensor, ferry::python::detail::options<>> argument;
    if (!argument.load(tensor, true)) return nullptr;
    return ferry::python::to_python(std::move(*argument.value));
}

extern "C" bool install(PyTypeObject* type) {
#ifdef FERRY_TEST_CUDA
    if (!ferry::python::install_cuda_array_interface<shown>(type, unwrap_value{})) return false;
    if (!ferry::python::install_column_cuda_array_interface(type, unwrap_column_reference{}, ready{})) return false;
#endif
    if (!ferry::python::install_arrow(type, unwrap_column{}, wrap_column{}, ferry::host_back_end{})) return false;
    return ferry::python::install_dlpack<shown>(type, unwrap{}, wrap{}, back_end{});
}
