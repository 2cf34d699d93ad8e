// The entry point of the Python module. It refuses sub-interpreters before nanobind is initialised: initialising a second
// module would replace the state that the first one, in the main interpreter, uses.
#include <Python.h>

#include <algorithm>
#include <array>
#include <cstddef>

extern "C" PyObject* PyInit__minitensor_of_main();  // nanobind's: NB_MODULE(_minitensor_of_main, m)

namespace {

int refuse_sub_interpreters(PyObject* = nullptr) {
    if (PyInterpreterState_Get() == PyInterpreterState_Main()) return 0;
    PyErr_SetString(PyExc_ImportError, "this module works in the main interpreter only");
    return -1;
}

// CPython 3.13 always calls the entry point in the main interpreter, and only the slots in the importing interpreter.
void refuse_in_slots(PyModuleDef& def) {
    static std::array<PyModuleDef_Slot, 16> slots;
    if (def.m_slots == slots.data()) return;
    std::size_t count = 0;
    while (def.m_slots[count].slot != 0) ++count;
    if (count + 2 > slots.size()) Py_FatalError("too many slots in nanobind's module");
    slots[0] = {Py_mod_exec, reinterpret_cast<void*>(+[](PyObject* m) { return refuse_sub_interpreters(m); })};
    std::copy_n(def.m_slots, count + 1, slots.begin() + 1);
    def.m_slots = slots.data();
}

}  // namespace

// [entry]
PyMODINIT_FUNC PyInit__minitensor() {
    if (refuse_sub_interpreters() != 0) return nullptr;
    PyObject* const module = PyInit__minitensor_of_main();
    if (module != nullptr && PyObject_TypeCheck(module, &PyModuleDef_Type)) {
        refuse_in_slots(*reinterpret_cast<PyModuleDef*>(module));
    }
    return module;
}
// [/entry]
