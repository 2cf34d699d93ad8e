from dlpack_conformance.plugin import Cannot, Library
from dlpack_conformance.plugins.numpy_arrays import NumPy


class PyArrow(Library):
    """pyarrow.Tensor, which has dimensions and strides; made of NumPy's memory."""

    name, module, call = "pyarrow", "pyarrow", "pyarrow.Tensor.from_dlpack"
    dtypes = [d for d in Library.dtypes if d != "bool"]
    host_device = (1, 0)
    owns_memory = standard = False

    def __init__(self):
        super().__init__()
        self.np = NumPy()

    def make(self, dtype, shape):
        return self.m.Tensor.from_numpy(self.np.make(dtype, shape))

    def array(self, dtype="int32", shape=(4, 6), layout="compact"):
        if layout == "reversed":
            raise Cannot("it has no negative strides")
        made = self.np.array(dtype, shape, layout)
        self.made = f"{self.np.made}, by Tensor.from_numpy"
        return self.m.Tensor.from_numpy(made)

    def take(self, x, **how):
        return self.m.Tensor.from_dlpack(x, **how)

    def values(self, a):
        return a.to_numpy().tolist()

    def address(self, a):
        return a.to_numpy().__array_interface__["data"][0]

    def writable(self, a):
        return a.is_mutable
