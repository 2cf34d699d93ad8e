"""DLPack through ctypes: the structs of the header, a look into capsules, and tensors that say what a case wants them to say.

The reproductions that the command prints are cut out of this file, so no name here may be defined in another file too.
"""

import ctypes
import gc
import mmap
import platform
import sys
import time
from ctypes import POINTER, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object, pythonapi

VERSIONED, LEGACY = b"dltensor_versioned", b"dltensor"
USED_VERSIONED, USED_LEGACY = b"used_dltensor_versioned", b"used_dltensor"
READ_ONLY, IS_COPIED, PADDED = 1, 2, 4

# Code, bits and lanes of each type, and its format for the module struct, if there is one.
DTYPES = {
    "bool": (6, 8, 1), "int8": (0, 8, 1), "int16": (0, 16, 1), "int32": (0, 32, 1), "int64": (0, 64, 1),
    "uint8": (1, 8, 1), "uint16": (1, 16, 1), "uint32": (1, 32, 1), "uint64": (1, 64, 1),
    "float16": (2, 16, 1), "float32": (2, 32, 1), "float64": (2, 64, 1), "complex64": (5, 64, 1), "complex128": (5, 128, 1),
    "bfloat16": (4, 16, 1), "float8_e3m4": (7, 8, 1), "float8_e4m3": (8, 8, 1), "float8_e4m3b11fnuz": (9, 8, 1),
    "float8_e4m3fn": (10, 8, 1), "float8_e4m3fnuz": (11, 8, 1), "float8_e5m2": (12, 8, 1), "float8_e5m2fnuz": (13, 8, 1),
    "float8_e8m0fnu": (14, 8, 1), "float6_e2m3fn": (15, 6, 1), "float6_e3m2fn": (16, 6, 1), "float4_e2m1fn": (17, 4, 1),
}  # fmt: skip
FORMATS = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
    "float16": "e", "float32": "f", "float64": "d",
}  # fmt: skip


class Device(ctypes.Structure):
    _fields_ = [("type", c_int32), ("id", c_int32)]


class DType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p), ("device", Device), ("ndim", c_int32), ("dtype", DType),
        ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64),
    ]  # fmt: skip


class Legacy(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("ctx", c_void_p), ("deleter", c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", c_uint32), ("minor", c_uint32), ("ctx", c_void_p), ("deleter", c_void_p),
        ("flags", c_uint64), ("tensor", Tensor),
    ]  # fmt: skip


DELETER = ctypes.CFUNCTYPE(None, c_void_p)  # releases the GIL during a call, acquires it in a callback

capsule_new = ctypes.PYFUNCTYPE(py_object, c_void_p, c_void_p, c_void_p)(("PyCapsule_New", pythonapi))
capsule_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_void_p)(("PyCapsule_GetPointer", pythonapi))
capsule_name = ctypes.PYFUNCTYPE(c_void_p, c_void_p)(("PyCapsule_GetName", pythonapi))
capsule_destructor = ctypes.PYFUNCTYPE(c_void_p, py_object)(("PyCapsule_GetDestructor", pythonapi))
capsule_rename = ctypes.PYFUNCTYPE(ctypes.c_int, py_object, c_void_p)(("PyCapsule_SetName", pythonapi))
error_occurred = ctypes.PYFUNCTYPE(c_void_p)(("PyErr_Occurred", pythonapi))

NAMES = {}
KEPT = []  # objects that a late deleter may use: never freed


def static_name(name):
    """Returns the address of a name that is never freed, as capsules require."""
    if name is None:
        return None
    if name not in NAMES:
        NAMES[name] = ctypes.create_string_buffer(name)
    return ctypes.addressof(NAMES[name])


def is_capsule(x):
    return type(x).__name__ == "PyCapsule"


def name_of(capsule):
    address = capsule_name(id(capsule))
    return ctypes.string_at(address) if address else None


def struct_of(capsule):
    """The struct in a capsule, consumed or not. Keeps the capsule alive."""
    kind = Versioned if name_of(capsule) in (VERSIONED, USED_VERSIONED) else Legacy
    raw = kind.from_address(capsule_pointer(id(capsule), capsule_name(id(capsule))))
    raw.capsule = capsule
    return raw


def take(capsule):
    """Consumes a capsule; the caller must then call the deleter once."""
    raw = struct_of(capsule)
    del raw.capsule
    capsule_rename(capsule, static_name(USED_VERSIONED if isinstance(raw, Versioned) else USED_LEGACY))
    return raw


def delete(raw):
    if raw.deleter:
        DELETER(raw.deleter)(ctypes.addressof(raw))


def dtype_of(tensor):
    return tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes


def device_of(tensor):
    return tensor.device.type, tensor.device.id


def shape_of(tensor):
    return tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()


def strides_of(tensor):
    """Returns the strides in elements; the compact ones for NULL."""
    if tensor.strides:
        return tuple(tensor.strides[: tensor.ndim])
    strides, step = [], 1
    for extent in reversed(shape_of(tensor)):
        strides.insert(0, step)
        step *= extent
    return tuple(strides)


def elements_of(tensor, dtype):
    """Returns the elements of a host tensor as nested lists."""
    import struct

    size = tensor.dtype.bits // 8
    first = (tensor.data or 0) + tensor.byte_offset

    def at(address, shape, strides):
        if not shape:
            return struct.unpack(FORMATS[dtype], ctypes.string_at(address, size))[0]
        return [at(address + i * strides[0] * size, shape[1:], strides[1:]) for i in range(shape[0])]

    return at(first, shape_of(tensor), strides_of(tensor))


def host_memory():
    """A page that starts with the int32 numbers from 0 to 63."""
    memory = mmap.mmap(-1, 1 << 16)
    KEPT.append(memory)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    (c_int32 * 64).from_address(address)[:] = range(64)
    return address


DATA = host_memory()
VALUES = [[0, 1, 2], [3, 4, 5]]


def before_a_closed_page(size):
    """Returns the address of `size` bytes before an inaccessible page: a read out of bounds is a crash."""
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    KEPT.append(pages)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    closed = c_void_p(start + mmap.PAGESIZE)
    if sys.platform == "win32":
        no_access = 1
        assert ctypes.windll.kernel32.VirtualProtect(closed, ctypes.c_size_t(mmap.PAGESIZE), no_access, ctypes.byref(c_uint32()))
    else:
        assert ctypes.CDLL(None).mprotect(closed, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    return closed.value - size


def executable(code):
    """Returns the address of a copy of machine code."""
    if sys.platform == "win32":
        commit_and_reserve, execute_read_write = 0x3000, 0x40
        allocate = ctypes.windll.kernel32.VirtualAlloc
        allocate.restype = c_void_p
        address = allocate(None, ctypes.c_size_t(len(code)), commit_and_reserve, execute_read_write)
        ctypes.memmove(address, code, len(code))
        return address
    pages = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    pages.write(code)
    pythonapi.Py_IncRef(py_object(pages))  # also at exit, when capsules and arrays are destroyed after KEPT
    return ctypes.addressof(ctypes.c_char.from_buffer(pages))


def counting_deleter():
    """A deleter in machine code: adds 1 to the 32 bits that lie 8 bytes before the struct.

    A consumer may call it while an exception is set, without the GIL, on any thread: nothing written in Python would stand that.
    """
    code = {
        "x86_64": bytes.fromhex("f0 ff 47 f8 c3"),  # lock inc dword [rdi - 8]; ret
        "AMD64": bytes.fromhex("f0 ff 41 f8 c3"),  # Windows: lock inc dword [rcx - 8]; ret
        "aarch64": bytes.fromhex("01 80 5f b8 21 04 00 11 01 80 1f b8 c0 03 5f d6"),  # ldur w1, [x0, -8]; add; stur; ret
    }.get(platform.machine())
    if code is None:
        raise OSError(f"there is no deleter for {platform.machine()} here")
    return executable(code)


COUNTING_DELETER = counting_deleter()
# The destructor of a forged capsule, which does nothing: Offer.settled does what it would do, unless a consumer has removed it.
DESTRUCTOR = executable(bytes.fromhex("c0 03 5f d6" if platform.machine() == "aarch64" else "c3"))  # ret


class Forged:
    """A managed tensor that owns nothing, whose fields a case sets; counts the calls of its deleter.

    By default a well-formed int32 tensor of shape (2, 3) with the values 0 to 5.
    """

    def __init__(
        self, versioned=True, data=DATA, shape=(2, 3), strides=(), ndim=None, dtype="int32", device=(1, 0), byte_offset=0,
        flags=0, version=(1, 0), has_deleter=True, ctx=0xFE44, only_header=False,
    ):  # fmt: skip
        self.has_deleter = has_deleter
        kind = Versioned if versioned else Legacy
        only_header = only_header and versioned  # the memory ends after the header of the versioned struct
        self.memory = None if only_header else ctypes.create_string_buffer(16 + ctypes.sizeof(kind))
        address = before_a_closed_page(24) if only_header else ctypes.addressof(self.memory) + 16
        self.raw, self.counter = kind.from_address(address), ctypes.c_uint32.from_address(address - 8)
        if strides == () and shape:
            strides, step = [], 1
            for extent in reversed(shape):
                strides.insert(0, step)
                step = max(-(2**63), min(step * extent, 2**63 - 1))
        self.shape = (c_int64 * len(shape))(*shape) if shape is not None else None
        self.strides = (c_int64 * len(strides))(*strides) if strides is not None else None
        if versioned:
            self.raw.major, self.raw.minor = version
        self.raw.ctx = ctx
        self.raw.deleter = COUNTING_DELETER if has_deleter else None
        KEPT.append(self)
        if only_header:
            return
        if versioned:
            self.raw.flags = flags
        tensor = self.raw.tensor
        tensor.data, tensor.byte_offset = data, byte_offset
        tensor.device = Device(*device)
        tensor.dtype = DType(*(DTYPES[dtype] if isinstance(dtype, str) else dtype))
        tensor.ndim = ndim if ndim is not None else len(shape or ())
        tensor.shape = ctypes.cast(self.shape, POINTER(c_int64)) if self.shape is not None else POINTER(c_int64)()
        tensor.strides = ctypes.cast(self.strides, POINTER(c_int64)) if self.strides is not None else POINTER(c_int64)()

    @property
    def deletions(self):
        return self.counter.value

    def capsule(self, name=...):
        """Makes a capsule; Offer.settled releases what its destructor would."""
        if name is ...:
            name = VERSIONED if isinstance(self.raw, Versioned) else LEGACY
        return capsule_new(ctypes.addressof(self.raw), static_name(name), DESTRUCTOR)


def is_unused(capsule):
    """Whether the destructor of a capsule would call the deleter."""
    return name_of(capsule) in (VERSIONED, LEGACY) and bool(capsule_destructor(capsule))


class Offer:
    """A correct producer of one constructed tensor: legacy if no version is requested. Records the requests."""

    waits = 60.0  # seconds; limit of the wait for a library that releases tensors on another thread

    def __init__(self, name=..., **fields):
        self.fields, self.name = fields, name
        self.asked, self.made, self.capsules = [], [], []

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.asked.append({"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy})
        versioned = max_version is not None and max_version[0] >= 1
        self.made.append(Forged(**{"versioned": versioned, **self.fields}))
        self.capsules.append(self.made[-1].capsule(self.name))
        return self.capsules[-1]

    def __dlpack_device__(self):
        return self.fields.get("device", (1, 0))

    def __repr__(self):
        fields = {"dtype": "int32", "shape": (2, 3), **self.fields}
        if self.name is not ...:
            fields["name"] = self.name
        if isinstance(fields.get("data"), int):
            offset = fields["data"] - DATA
            fields["data"] = ("DATA" if not offset else f"DATA + {offset}") if 0 <= offset < 1 << 16 else "…"
        return ", ".join(f"{k}={v}" for k, v in fields.items())

    @property
    def versioned(self):
        """Whether a versioned struct was exported; the legacy struct has no flags."""
        return any(isinstance(f.raw, Versioned) for f in self.made)

    @property
    def deletions(self):
        return sum(f.deletions for f in self.made)

    def settled(self, at_least=None):
        """Returns the number of deleter calls, when it is that of exported tensors or after the time limit."""
        expected = len(self.made) if at_least is None else at_least
        gc.collect()
        while self.capsules:  # releases unconsumed capsules, as their destructor would
            capsule = self.capsules.pop()
            if is_unused(capsule):
                delete(take(capsule))
        gc.collect()
        end = time.monotonic() + Offer.waits
        while self.deletions < expected:
            if time.monotonic() > end:
                Offer.waits = 0.0
                break
            time.sleep(0.01)
            gc.collect()
        return self.deletions


def on_a_foreign_thread(function, argument):
    """Calls a C function on a thread that is not Python's, without the GIL, and waits for it."""
    function, argument, thread = c_void_p(function), c_void_p(argument), c_void_p()
    if sys.platform == "win32":
        kernel = ctypes.windll.kernel32
        kernel.CreateThread.restype = c_void_p
        thread.value = kernel.CreateThread(None, ctypes.c_size_t(0), function, argument, 0, None)
        assert thread and kernel.WaitForSingleObject(thread, -1) == 0 and kernel.CloseHandle(thread)
    else:
        libc = ctypes.CDLL(None)
        assert libc.pthread_create(ctypes.byref(thread), None, function, argument) == 0
        assert libc.pthread_join(thread, None) == 0
