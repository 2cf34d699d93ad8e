// The Python module.
#include "package.hpp"

#include <exception>

NB_MODULE(_ferry_of_main, m) {
    m.doc() = "The compiled part of ferry.";
    nanobind::set_leak_warnings(false);  // objects in global variables at exit are not leaks
    nanobind::register_exception_translator([](std::exception_ptr const& thrown, void*) {
        try {
            std::rethrow_exception(thrown);
        } catch (ferry::error const&) {
            ferry::python::translate_exception();
        } catch (ferry::python::error_is_set const&) {
            ferry::python::translate_exception();
        }
    });
    package::define_tensor(m);
    package::define_column(m);
    package::define_ipc(m);
}
