"""How the command knows a library. A plug-in is one file with a class derived from Library.

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
    """The library has no such array; the text says why."""


class Library:
    """A library whose arrays are indexed as NumPy's are. What is different is overridden."""

    name = ""
    module = ""  # what is imported, and asked for __version__
    call = ""  # how an import is written
    device = (1, 0)
    arguments = ("copy", "device")  # those of its from_dlpack
    host_device = "cpu"  # what its from_dlpack calls the host
    produces = consumes = True
    host_cases = True  # whether its arrays are where the cases can read; else only what a struct says is looked at, and the handshake
    owns_memory = True  # whether it allocates what `make` returns
    without = ""  # why, where it has not both halves
    carries = False  # whether it passes on, uninterpreted, tensors of types and devices that it cannot work with
    takes_capsules = False  # whether its from_dlpack documents that it takes a raw capsule
    # (dtype, shape) of the array that a case gets when any will do. A library that can make one kind of array alone says which here;
    # every case that asks for another dtype, shape or layout then does not apply, and the others run.
    plain = ("int32", (4, 6))
    dtypes = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]
    said = offered = made = ""

    def __init__(self):
        self.m = importlib.import_module(self.module)

    def version(self):
        return str(getattr(self.m, "__version__", "unknown"))

    # Making arrays

    def make(self, dtype, shape):
        """A fresh, compact, writable array of 0, 1, 2, …; of False, True, False, … for bool."""
        raise Cannot("the plug-in makes no arrays")

    def array(self, dtype=None, shape=None, layout="compact"):
        """An array in one of LAYOUTS, a view where the library has views; the plain one where nothing is said."""
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
        """An array that cannot travel: byteswapped, odd-strides, sparse, sharded, gradient, conjugate, not-a-number-type."""
        raise Cannot(f"it has no {kind} arrays")

    # Importing and reading back

    def take(self, x, **how):
        return self.m.from_dlpack(x, **how)

    def values(self, a):
        return a.tolist()

    def address(self, a):
        """Where element 0 is, or None when the library does not say."""
        return None

    def writable(self, a):
        """Whether the library lets its user write; None when it has no read-only arrays."""
        return None

    def described(self, a):
        try:
            return f"{self.values(a)!r}"[:80]
        except Exception as error:
            return f"an array that raises {type(error).__name__} when it is read"


def numbers(dtype, shape):
    """0, 1, 2, … nested as the shape says."""

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
