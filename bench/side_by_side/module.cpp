// What peers.py puts side by side, in one process: each library's round trip as a loop in C++, and ferry's copy.
#include "turns.hpp"

#include <ferry/ferry.hpp>
#include <ferry/space/host_copy.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace nb = nanobind;

namespace {

float elements[2 * 3 * 4 * 5];
constexpr std::int64_t extents[] = {2, 3, 4, 5};

/// An array that shares its memory by a reference count that is atomic, as those of the peers are.
struct array {
    std::shared_ptr<float> memory{elements, [](float*) {}};
    [[nodiscard]] ferry::tensor_view ferry_view() const noexcept { return {memory.get(), {extents, 4}}; }
    [[nodiscard]] ferry::tensor_view ferry_view() noexcept { return {memory.get(), {extents, 4}}; }
};

double ferry_turns(long n) {
    array const kept;
    return bench::turns(n, [&] {
        auto* raw = ferry::to_dlpack(array{kept}).release();
        bench::keep(raw);
        auto const back = ferry::from_dlpack(raw);
        bench::keep(back.view().data());
    });
}

/// nanobind's arrays travel in Python's capsules only, so that one is in it.
double nanobind_turns(long n) {
    nb::ndarray<float, nb::ndim<4>> const kept{elements, {2, 3, 4, 5}, nb::capsule{elements, [](void*) noexcept {}}};
    return bench::turns(n, [&] {
        nb::object const capsule = nb::cast(kept);
        bench::keep(capsule.ptr());
        auto const back = nb::cast<nb::ndarray<float, nb::ndim<4>>>(capsule);
        bench::keep(back.data());
    });
}

/// Views of two pieces of memory that the caller keeps; strides in elements of `bits`.
void copy(std::uintptr_t to, std::vector<std::int64_t> const& to_strides, std::uintptr_t from,
          std::vector<std::int64_t> const& from_strides, std::vector<std::int64_t> const& shape, unsigned bits) {
    ferry::data_type const type{ferry::type_code::uint, static_cast<std::uint8_t>(bits)};
    ferry::tensor_view const dst{reinterpret_cast<void*>(to), type, shape, to_strides, ferry::cpu};
    ferry::tensor_view const src{reinterpret_cast<void*>(from), type, shape, from_strides, ferry::cpu};
    ferry::copy_on_host(ferry::make_copy_plan(dst, src), dst.writable_data(), src.data());
}

}  // namespace

NB_MODULE(side_by_side, m) {
    m.def("ferry", &ferry_turns);
    m.def("nanobind", &nanobind_turns);
#ifdef BENCH_TORCH
    m.def("ATen", &bench::aten_turns);
#endif
#ifdef BENCH_TVM_FFI
    m.def("tvm-ffi", &bench::tvm_ffi_turns);
#endif
    m.def("copy", &copy);
}
