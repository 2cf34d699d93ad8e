import math

from dlpack_conformance.plugin import Library, numbers


class Minitensor(Library):
    name, module, call = "minitensor", "minitensor", "minitensor.from_dlpack"
    takes_capsules = True
    dtypes = [
        *Library.dtypes, "float16", "complex64", "complex128", "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz",
        "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn",
        "float4_e2m1fn",
    ]  # fmt: skip

    def make(self, dtype, shape):
        if dtype.startswith(("float8_", "float6_", "float4_")) or 0 in shape:
            return self.m.zeros(shape, dtype)
        if len(shape) == 1 and dtype != "bool":
            return self.m.arange(math.prod(shape), dtype)
        return self.m.asarray(numbers(dtype, shape), dtype)

    def as_broadcast(self, x):
        return x[:1].broadcast_to((3, x.shape[1]))

    def as_readonly(self, x):
        return x.as_readonly()

    def address(self, a):
        return a.data_ptr

    def writable(self, a):
        return not a.readonly
