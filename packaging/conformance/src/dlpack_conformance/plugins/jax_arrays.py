import math

from dlpack_conformance.plugin import Cannot, Library


class Jax(Library):
    name, module, call = "jax", "jax", "jax.dlpack.from_dlpack"

    def __init__(self):
        super().__init__()
        self.m.config.update("jax_platforms", "cpu")
        self.m.config.update("jax_enable_x64", True)  # otherwise int64 and float64 have 32 bits
        self.m.config.update("jax_num_cpu_devices", 2)  # for arrays on two devices
        more = ("float16", "complex64", "complex128", "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz")
        more += ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
        self.dtypes = [*Library.dtypes, *(d for d in more if hasattr(self.m.numpy, d))]
        self.host_device = self.m.devices("cpu")[0]

    def make(self, dtype, shape):
        numbers = self.m.numpy.arange(math.prod(shape))
        return (numbers % 2 == 1 if dtype == "bool" else numbers.astype(dtype)).reshape(shape)

    def as_reversed(self, x):
        raise Cannot("its slices are copies")

    def as_readonly(self, x):
        return x  # all arrays are read-only

    def special(self, kind):
        if kind == "sharded":
            sharding = self.m.sharding
            mesh = sharding.Mesh(self.m.devices("cpu")[:2], "x")
            return self.m.device_put(self.make("int32", (4,)), sharding.NamedSharding(mesh, sharding.PartitionSpec("x")))
        return super().special(kind)

    def take(self, x, **how):
        return self.m.dlpack.from_dlpack(x, **how)

    def address(self, a):
        return a.unsafe_buffer_pointer()

    def writable(self, a):
        return False
