import os
import pathlib
import subprocess
import sysconfig
import tempfile
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader

from dlpack_conformance.plugin import Library
from dlpack_conformance.plugins.numpy_arrays import NumPy

SOURCE = """
#include <nanobind/ndarray.h>
#include <vector>
namespace nb = nanobind;
template <class... Access>
nb::ndarray<nb::array_api, Access...> pass(nb::ndarray<Access...> a) {
    if (a.device_type() == 0) throw nb::type_error("no device");  // an export takes 0 for the CPU
    using imported = nb::ndarray<Access...>;
    nb::capsule owner(new imported(a), [](void* kept) noexcept { delete static_cast<imported*>(kept); });
    std::vector<size_t> shape(a.shape_ptr(), a.shape_ptr() + a.ndim());
    return {a.data(), a.ndim(), shape.data(), owner, a.stride_ptr(), a.dtype(), a.device_type(), a.device_id()};
}
NB_MODULE(through_nanobind, m) {
    m.def("from_dlpack", &pass<>);
    m.def("from_dlpack", &pass<nb::ro>);
}
"""


class Nanobind(Library):
    """nanobind::ndarray, the argument and the result of a function that a C++ compiler (CXX, otherwise c++) compiles here; made of NumPy's memory."""

    name, module, call = "nanobind", "nanobind", "from_dlpack"
    arguments = ()
    owns_memory = standard = False
    carries = takes_capsules = True

    def __init__(self):
        super().__init__()
        self.np = NumPy()
        self.folder = tempfile.TemporaryDirectory()
        root, target = pathlib.Path(self.m.include_dir()).parent, pathlib.Path(self.folder.name, "through_nanobind.so")
        source = target.with_suffix(".cpp")
        source.write_text(SOURCE, encoding="utf-8")
        include = [root / "include", root / "ext/robin_map/include", sysconfig.get_path("include")]
        subprocess.run(
            [os.environ.get("CXX", "c++"), "-std=c++17", "-O0", "-fPIC", "-shared", "-fvisibility=hidden", *(f"-I{folder}" for folder in include),
             source, root / "src/nb_combined.cpp", "-o", target], check=True, capture_output=True,
        )  # fmt: skip
        loader = ExtensionFileLoader("through_nanobind", str(target))
        self.own = module_from_spec(spec_from_loader(loader.name, loader))
        loader.exec_module(self.own)

    def make(self, dtype, shape):
        return self.take(self.np.make(dtype, shape))

    def array(self, dtype="int32", shape=(4, 6), layout="compact"):
        made = self.np.array(dtype, shape, layout)
        self.made = f"{self.np.made}, passed through a function of nanobind"
        return self.take(made)

    def take(self, x, **how):
        return self.own.from_dlpack(x, **how)

    def values(self, a):
        return self.np.m.asarray(memoryview(a)).tolist()

    def writable(self, a):
        return not memoryview(a).readonly

    def address(self, a):
        return self.np.address(self.np.m.asarray(memoryview(a)))
