#include <ferry/python.hpp>

static PyModuleDef definition{
    PyModuleDef_HEAD_INIT, "python_part", nullptr, 0, nullptr, nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit_python_part() {
    PyObject* const module = PyModule_Create(&definition);
    if (module == nullptr || PyModule_AddIntConstant(module, "rank", ferry::tensor_view{}.rank()) != 0) return nullptr;
    return module;
}
