from dlpack_conformance.plugin import Library
from dlpack_conformance.plugins.numpy_arrays import NumPy


class Strict(Library):
    name, module, call = "array_api_strict", "array_api_strict", "array_api_strict.from_dlpack"
    owns_memory, by = False, "numpy"
    dtypes = [*Library.dtypes, "complex64", "complex128"]

    def __init__(self):
        super().__init__()
        self.np = NumPy()
        self.host_device = self.m.Device("CPU_DEVICE")

    def make(self, dtype, shape):
        return self.m.asarray(self.np.make(dtype, shape))

    def as_broadcast(self, x):
        return self.m.broadcast_to(x[:1, :], (3, x.shape[1]))

    def values(self, a):
        return a._array.tolist()

    def address(self, a):
        return self.np.address(a._array)

    def writable(self, a):
        return a._array.flags.writeable
