#include "convert.hpp"

#if __has_include(<ferry/python.hpp>)
#include <ferry/python.hpp>
namespace mt::python {
mt::device to_device(nb::handle o) {
    try {
        auto const d = ferry::python::as_device(o.ptr());
        return {static_cast<std::int32_t>(d.type), d.id};
    } catch (...) {
        if (PyErr_Occurred() != nullptr) throw nb::python_error{};
        throw;
    }
}
}  // namespace mt::python
#else  // stands in until the header is there
#include <nanobind/stl/string_view.h>

#include <charconv>
#include <stdexcept>
#include <string>
namespace mt::python {
mt::device to_device(nb::handle o) {
    if (PyUnicode_Check(o.ptr())) {
        auto const s = nb::cast<std::string_view>(o);
        if (s == "cpu") return {};
        if (s == "cuda_host") return {mt::device::cuda_host, 0};
        if (s == "cuda_managed") return {mt::device::cuda_managed, 0};
        if (s == "cuda") return {mt::device::cuda, 0};
        if (s.substr(0, 5) == "cuda:") {
            int id = 0;
            auto const [end, error] = std::from_chars(s.data() + 5, s.data() + s.size(), id);
            if (error == std::errc{} && end == s.data() + s.size() && id >= 0) {
                return {mt::device::cuda, id};
            }
        }
        throw std::invalid_argument{"unknown device '" + std::string{s} + "'"};
    }
    if (PyTuple_Check(o.ptr()) && nb::len(o) == 2) {
        return {nb::cast<std::int32_t>(o[0]), nb::cast<std::int32_t>(o[1])};
    }
    throw std::invalid_argument{"a device is a name or a (type, id) pair"};
}
}  // namespace mt::python
#endif
