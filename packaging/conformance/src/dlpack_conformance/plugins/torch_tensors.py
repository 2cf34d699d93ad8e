import math

from dlpack_conformance.plugin import Cannot, Library


class Torch(Library):
    name, module, call = "torch", "torch", "torch.from_dlpack"
    takes_capsules = True
    dtypes = [
        *Library.dtypes, "float16", "complex64", "complex128", "bfloat16", "float8_e5m2", "float8_e5m2fnuz", "float8_e4m3fn",
        "float8_e4m3fnuz", "float8_e8m0fnu",
    ]  # fmt: skip

    def make(self, dtype, shape):
        numbers = self.m.arange(math.prod(shape))
        return (numbers % 2 == 1 if dtype == "bool" else numbers.to(getattr(self.m, dtype))).reshape(shape)

    def as_reversed(self, x):
        raise Cannot("it has no negative strides")

    def as_broadcast(self, x):
        return x[:1].expand(3, x.shape[1])

    def special(self, kind):
        if kind == "sparse":
            return self.m.zeros((3, 3)).to_sparse()
        if kind == "gradient":
            return self.m.zeros(3, requires_grad=True)
        if kind == "conjugate":
            return self.m.tensor([1 + 2j, 3 + 4j], dtype=self.m.complex64).conj()
        if kind == "negated":
            return self.m.tensor([1 + 2j, 3 + 4j], dtype=self.m.complex64).conj().imag
        if kind == "meta":
            return self.m.zeros(3, device="meta")
        if kind == "quantized":
            return self.m.quantize_per_tensor(self.m.ones(3), 0.1, 0, self.m.quint8)
        return super().special(kind)

    def address(self, a):
        return a.data_ptr()
