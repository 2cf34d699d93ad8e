// Sharing with other processes, on systems other than Linux: the functions raise NotImplementedError.
#include "convert.hpp"

namespace mt::python {
namespace {

struct shared {};

[[noreturn]] void refuse(nb::args) {
    PyErr_SetString(PyExc_NotImplementedError, "sharing with other processes requires Linux");
    throw nb::python_error{};
}

}  // namespace

bool is_sealed(tensor const&) { return false; }
bool is_sealed(ferry::column const&) { return false; }

void define_ipc(nb::module_& m) {
    nb::class_<shared>(m, "Shared", "Not available on this system.");
    m.def("ipc_share", &refuse, "Not available on this system: raises NotImplementedError.");
    m.def("ipc_attach", &refuse, "Not available on this system: raises NotImplementedError.");
}

}  // namespace mt::python
