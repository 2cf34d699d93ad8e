"""Repeats one call, and reports what every call leaks. In a child of test_protocol.py, where no other code allocates.

usage: leaking.py CALL     prints, for each call: bytes of minitensor's, of malloc's, blocks of Python's, references to what it was given
"""

import ctypes
import gc
import sys

from forge import Forged

import minitensor as mt

OURS = (1, 3)
OTHER = Forged().capsule(b"other")
CALLS = 20_000


class Old:
    def __init__(self, t):
        self.t = t

    def __dlpack__(self):
        return self.t.__dlpack__()


def refused(call):
    try:
        call()
    except (BufferError, ValueError, TypeError):
        return
    raise AssertionError("it was not refused")


LOOPS = {
    "legacy": lambda t: t.__dlpack__(),
    "versioned": lambda t: t.__dlpack__(max_version=OURS),
    "copied": lambda t: t.__dlpack__(max_version=OURS, copy=True),
    "read-only legacy": lambda t: t.as_readonly().__dlpack__(),
    "export refused": lambda t: refused(lambda: t.as_readonly().__dlpack__(copy=False)),
    "bad argument": lambda t: refused(lambda: t.__dlpack__(max_version=(1, "x"))),
    "unknown keyword": lambda t: refused(lambda: t.__dlpack__(unknown=1)),
    "device": lambda t: t.__dlpack_device__(),
    "import": lambda t: mt.from_dlpack(t),
    "import by call": lambda t: mt.from_dlpack(t, device="cpu"),
    "import of a copy": lambda t: mt.from_dlpack(t, copy=True),
    "import of a capsule": lambda t: mt.from_dlpack(t.__dlpack__()),
    "import refused": lambda t: refused(lambda: mt.from_dlpack(t, device="cuda")),
    "no protocol": lambda t: refused(lambda: mt.from_dlpack(None)),
    "unknown capsule": lambda t: refused(lambda: mt.from_dlpack(OTHER)),
    "old producer": lambda t: mt.from_dlpack(Old(t), copy=True),
}

NAMES = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()


class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in NAMES]


if sys.platform == "win32":
    mallinfo = Mallinfo  # what malloc gives is not counted there
else:
    mallinfo = ctypes.CDLL(None).mallinfo2  # what is allocated, and not what the process has in memory
    mallinfo.restype = Mallinfo


def left(t):
    watched = [None, True, False, mt.Tensor, BufferError, ValueError, t, OURS, 0, 1, 3, "copy", "max_version"]
    gc.collect()
    of_malloc = mallinfo()
    return mt.live_bytes(), of_malloc.uordblks + of_malloc.hblkhd, sys.getallocatedblocks(), *map(sys.getrefcount, watched)


def main():
    t, call = mt.asarray([[0, 1, 2], [3, 4, 5]], "int32"), LOOPS[sys.argv[1]]
    for _ in range(2000):
        call(t)
    left(t)  # what is made once is made now
    before = left(t)
    for _ in range(CALLS):
        call(t)
    print(*((now - then) / CALLS for now, then in zip(left(t), before, strict=True)))


if __name__ == "__main__":
    main()
