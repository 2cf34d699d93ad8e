import math

from dlpack_conformance.plugin import Library
from dlpack_conformance.plugins.numpy_arrays import NumPy


class Mlx(Library):
    name, module, call = "mlx", "mlx.core", "mlx.core.from_dlpack"
    arguments = ("copy",)
    dtypes = [*Library.dtypes[:-1], "float16", "bfloat16", "complex64"]

    def __init__(self):
        super().__init__()
        self.m.set_default_device(self.m.cpu)
        self.np = NumPy()

    def make(self, dtype, shape):
        numbers = self.m.arange(math.prod(shape))
        made = (numbers % 2 == 1 if dtype == "bool" else numbers.astype(getattr(self.m, dtype))).reshape(shape)
        self.m.eval(made)
        return made

    def as_broadcast(self, x):
        return self.m.broadcast_to(x[:1], (3, x.shape[1]))

    def address(self, a):
        return self.np.address(self.np.m.asarray(memoryview(a)))
