#if defined(WITH_PYTHON)
#include <ferry/python.hpp>
#include <ferry/python/arrow.hpp>
#endif
#if defined(WITH_CUDA)
#include <ferry/cuda.hpp>
#endif
#include "part.hpp"

#include <ferry/adapters/std.hpp>
#include <ferry/conformance.hpp>
#include <ferry/ipc.hpp>

#include <memory>

namespace PART {

ferry::managed_tensor make() { return ferry::to_dlpack(std::array<float, 3>{1, 2, 3}); }

float sum(ferry::managed_tensor const& m) {
    auto const values = m.as<float const, 1>();
    return values(0) + values(1) + values(2);
}

ferry::column make_column() { return ferry::make_column({.format = "n", .length = 3}, std::make_shared<int>()); }

std::int64_t length(ferry::column const& c) {
    ferry::validate(c, ferry::validation::full);
    return c.length();
}

}  // namespace PART
