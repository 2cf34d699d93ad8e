"""The interface of a plug-in, a file with a class derived from Library.

    from dlpack_conformance.plugin import Library

    class Mine(Library):
        name, module, call = "mine", "my.arrays", "my.arrays.from_dlpack"
        dtypes = ["int32", "float32"]

        def make(self, dtype, shape):
            return self.m.arange(math.prod(shape), dtype=dtype).reshape(shape)

`dlpack-conformance ./mine.py`; `./mine.py:Mine` where the file has several. What a library cannot do raises Cannot with the reason.
"""

import importlib
import math


class Cannot(Exception):
    """Raised when the library does not support such an array; the text is the reason."""


class Library:
    """A library whose arrays are indexed like NumPy's. Override what differs."""

    name = ""
    module = ""  # name of the module, which has __version__
    call = ""  # source text of an import
    device = (1, 0)
    arguments = ("copy", "device")  # keyword arguments of its from_dlpack
    host_device = "cpu"  # the host as an argument of its from_dlpack
    produces = consumes = True
    host_cases = True  # whether the host can read its arrays; otherwise only the cases of the struct and the handshake run
    owns_memory = True  # whether it allocates the arrays of `make`
    standard = True  # whether it follows the array API standard, whose sentences are recommendations for the others
    by = ""  # the library that exports and imports its arrays, if that is another one
    without = ""  # the reason, if it has only imports or only exports
    carries = False  # whether it accepts and passes on tensors of types and devices that it does not support
    takes_capsules = False  # whether its from_dlpack documents that it takes a raw capsule
    # (dtype, shape) of the default array. For a library that supports one kind of array only: cases that require another
    # dtype, shape or layout then do not apply.
    plain = ("int32", (4, 6))
    dtypes = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]
    said = offered = made = ""

    def __init__(self):
        self.m = importlib.import_module(self.module)

    def version(self):
        return str(getattr(self.m, "__version__", "unknown"))

    # Making arrays

    def make(self, dtype, shape):
        """Returns a new, compact, writable array of 0, 1, 2, …; of False, True, False, … for bool."""
        raise Cannot("the plug-in makes no arrays")

    def array(self, dtype=None, shape=None, layout="compact"):
        """Returns an array in one of LAYOUTS, a view if the library has views; by default the compact one."""
        dtype, shape = dtype or self.plain[0], self.plain[1] if shape is None else shape
        if self.plain != Library.plain and ((dtype, shape) != self.plain or layout != "compact"):
            raise Cannot(f"it makes arrays of {self.plain[0]} {self.plain[1]} alone")
        self.made = f"{dtype} {shape}{'' if layout == 'compact' else ', ' + layout}"
        return getattr(self, "as_" + layout)(self.make(dtype, shape))

    def as_compact(self, x):
        return x

    def as_transposed(self, x):
        return x.T

    def as_stepped(self, x):
        return x[::2, 1::2]

    def as_offset(self, x):
        return x[1:, 2:]

    def as_reversed(self, x):
        return x[::-1, ::-1]

    def as_broadcast(self, x):
        raise Cannot("it has no broadcast views")

    def as_readonly(self, x):
        raise Cannot("it has no read-only arrays")

    def special(self, kind):
        """An array that has no plain memory: byteswapped, odd-strides, gradient, not-a-number-type, sparse, sharded,
        meta (no memory), quantized; or conjugate (complex64) or negated (float32): its memory holds other numbers until it is resolved."""
        raise Cannot(f"it has no {kind} arrays")

    def resolved(self, x):
        """The elements of a conjugate or negated array."""
        return x.tolist()

    # Importing and reading back

    def take(self, x, **how):
        return self.m.from_dlpack(x, **how)

    def values(self, a):
        return a.tolist()

    def write(self, a, value):
        """Writes the first element of an array of two dimensions."""
        a[0, 0] = value

    def address(self, a):
        """Returns the address of element 0, or None if the library does not provide it."""
        return None

    def writable(self, a):
        """Returns whether the array is writable; None if the library has no read-only arrays."""
        return None

    def described(self, a):
        try:
            return f"{self.values(a)!r}"[:80]
        except Exception as error:
            return f"an array that raises {type(error).__name__} when it is read"


def numbers(dtype, shape):
    """Returns 0, 1, 2, … as nested lists of the shape."""

    def nested(start, extents):
        if not extents:
            return bool(start % 2) if dtype == "bool" else start
        step = math.prod(extents[1:])
        return [nested(start + i * step, extents[1:]) for i in range(extents[0])]

    return nested(0, tuple(shape))


LAYOUTS = {
    "compact": lambda rows: rows,
    "transposed": lambda rows: [list(column) for column in zip(*rows)],
    "stepped": lambda rows: [row[1::2] for row in rows[::2]],
    "offset": lambda rows: [row[2:] for row in rows[1:]],
    "reversed": lambda rows: [row[::-1] for row in rows[::-1]],
    "broadcast": lambda rows: [rows[0]] * 3,
    "readonly": lambda rows: rows,
}
