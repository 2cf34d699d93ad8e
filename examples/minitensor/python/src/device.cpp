#include "convert.hpp"

#include <ferry/python.hpp>

namespace mt::python {

mt::device to_device(nb::handle o) {
    auto const d = ferry::python::as_device(o.ptr());
    if (!d) throw nb::python_error{};
    return {static_cast<std::int32_t>(d->type), d->id};
}

}  // namespace mt::python
