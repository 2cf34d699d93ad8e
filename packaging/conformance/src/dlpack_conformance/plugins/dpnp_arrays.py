import glob
import math
import os
import sys

from dlpack_conformance.plugin import Library


class Dpnp(Library):
    """Its arrays are in USM memory of a SYCL device (kDLOneAPI), here that of intel-opencl-rt where there is no other."""

    name, module, call = "dpnp", "dpnp", "dpnp.from_dlpack"
    device = (14, 0)
    host_cases = False
    dtypes = [*Library.dtypes, "complex64", "complex128"]

    def __init__(self):
        if drivers := glob.glob(os.path.join(sys.prefix, "lib", "libintelocl.so")):
            os.environ.setdefault("OCL_ICD_FILENAMES", drivers[0])
        super().__init__()

    def make(self, dtype, shape):
        return self.m.arange(math.prod(shape)).astype(dtype).reshape(shape)
