import math

from dlpack_conformance.plugin import Library


class NumPy(Library):
    name, module, call = "numpy", "numpy", "numpy.from_dlpack"
    dtypes = [*Library.dtypes, "float16", "complex64", "complex128"]

    def make(self, dtype, shape):
        numbers = self.m.arange(math.prod(shape))
        return (numbers % 2 == 1 if dtype == "bool" else numbers.astype(dtype)).reshape(shape)

    def as_broadcast(self, x):
        return self.m.broadcast_to(x[:1], (3, x.shape[1]))

    def as_readonly(self, x):
        x.flags.writeable = False
        return x

    def special(self, kind):
        if kind == "byteswapped":
            return self.m.arange(3, dtype=">i4")
        if kind == "odd-strides":
            return self.m.zeros(10, dtype=[("a", "u1"), ("b", "<u4")])["b"]
        if kind == "not-a-number-type":
            return self.m.zeros(3, "M8[s]")
        return super().special(kind)

    def address(self, a):
        return a.__array_interface__["data"][0]

    def writable(self, a):
        return a.flags.writeable
