import importlib

from dlpack_conformance.plugin import Library
from dlpack_conformance.plugins.numpy_arrays import NumPy


class TvmFfi(Library):
    """The library allocates no memory: its tensors are imported from NumPy."""

    name, module, call = "tvm_ffi", "tvm_ffi", "tvm_ffi.from_dlpack"
    arguments = ()
    owns_memory, carries, standard = False, True, False

    def __init__(self):
        super().__init__()
        self.np = NumPy()
        self.numpy = importlib.import_module("numpy")

    def make(self, dtype, shape):
        return self.take(self.np.make(dtype, shape))

    def array(self, dtype="int32", shape=(4, 6), layout="compact"):
        made = self.np.array(dtype, shape, layout)
        if layout in ("readonly", "broadcast"):
            return super().as_readonly(made) if layout == "readonly" else super().as_broadcast(made)
        self.made = f"{self.np.made}, imported from NumPy"
        return self.take(made)

    def values(self, a):
        return self.numpy.from_dlpack(a).tolist()

    def address(self, a):
        return a.data_ptr()
