import math

from dlpack_conformance.plugin import Cannot, Library


class Paddle(Library):
    name, module, call = "paddle", "paddle", "paddle.from_dlpack"
    takes_capsules = True
    standard = False
    dtypes = [d for d in Library.dtypes if d not in ("uint16", "uint32", "uint64")] + ["float16", "bfloat16", "complex64", "complex128"]

    def make(self, dtype, shape):
        numbers = self.m.arange(math.prod(shape))
        return (numbers % 2 == 1 if dtype == "bool" else numbers.astype(dtype)).reshape(shape)

    def as_reversed(self, x):
        raise Cannot("its slices with negative steps are copies")

    def as_broadcast(self, x):
        return x[:1].expand([3, x.shape[1]])

    def special(self, kind):
        if kind == "sparse":
            return self.m.to_tensor([[0.0, 1.0], [2.0, 0.0]]).to_sparse_coo(2)
        if kind == "gradient":
            return self.m.to_tensor([1.0], stop_gradient=False)
        return super().special(kind)

    def address(self, a):
        return a.data_ptr()
