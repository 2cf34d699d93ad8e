"""DLPack through ctypes: the structs of the header, invalid tensors, and access to the structs of libraries."""

import ctypes
import itertools
import mmap
import sys
from ctypes import POINTER, Structure, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object, pythonapi
from types import SimpleNamespace

VERSIONED, LEGACY = b"dltensor_versioned", b"dltensor"
USED_VERSIONED, USED_LEGACY = b"used_dltensor_versioned", b"used_dltensor"
READ_ONLY, IS_COPIED, PADDED = 1, 2, 4
INT32, FLOAT32, UINT8 = (0, 32, 1), (2, 32, 1), (1, 8, 1)


class Device(Structure):
    _fields_ = [("type", c_int32), ("id", c_int32)]


class DType(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class Tensor(Structure):
    _fields_ = [
        ("data", c_void_p), ("device", Device), ("ndim", c_int32), ("dtype", DType),
        ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64),
    ]  # fmt: skip


class Legacy(Structure):
    _fields_ = [("tensor", Tensor), ("ctx", c_void_p), ("deleter", c_void_p)]


class Versioned(Structure):
    _fields_ = [
        ("major", c_uint32), ("minor", c_uint32), ("ctx", c_void_p), ("deleter", c_void_p),
        ("flags", c_uint64), ("tensor", Tensor),
    ]  # fmt: skip


DELETER = ctypes.CFUNCTYPE(None, c_void_p)  # gives the GIL away while it is called, takes it when it calls back
DELETER_WITH_GIL = ctypes.PYFUNCTYPE(None, c_void_p)


def _function(name, result, *arguments):
    prototype = ctypes.PYFUNCTYPE(result, *arguments)
    return prototype((name, pythonapi))


new_capsule = _function("PyCapsule_New", py_object, c_void_p, c_void_p, c_void_p)
_pointer_of = _function("PyCapsule_GetPointer", c_void_p, py_object, c_void_p)
_name_of = _function("PyCapsule_GetName", c_void_p, py_object)
_set_name = _function("PyCapsule_SetName", ctypes.c_int, py_object, c_void_p)
_set_destructor = _function("PyCapsule_SetDestructor", ctypes.c_int, py_object, c_void_p)
error_is_set = _function("PyErr_Occurred", c_void_p)

_names = {}


def static(name):
    """The address of a name that lives as long as the process, as capsules need it."""
    if name is None:
        return None
    if name not in _names:
        _names[name] = ctypes.create_string_buffer(name)
    return ctypes.addressof(_names[name])


def name_of(capsule):
    address = _name_of(capsule)
    return ctypes.string_at(address) if address else None


def pointer_of(capsule):
    return _pointer_of(capsule, _name_of(capsule))


def struct_of(capsule):
    """The struct in a capsule, used or not."""
    kind = Versioned if name_of(capsule) in (VERSIONED, USED_VERSIONED) else Legacy
    return kind.from_address(pointer_of(capsule))


def describe(tensor):
    n = tensor.ndim
    return SimpleNamespace(
        data=tensor.data or 0,
        device=(tensor.device.type, tensor.device.id),
        ndim=n,
        dtype=(tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes),
        shape=tuple(tensor.shape[:n]) if tensor.shape else None,
        strides=tuple(tensor.strides[:n]) if tensor.strides else None,
        byte_offset=tensor.byte_offset,
    )


def look(capsule):
    """All that a capsule says, without consuming it."""
    raw = struct_of(capsule)
    seen = describe(raw.tensor)
    seen.name = name_of(capsule)
    seen.version = (raw.major, raw.minor) if isinstance(raw, Versioned) else None
    seen.flags = raw.flags if isinstance(raw, Versioned) else None
    return seen


def take(capsule):
    """Takes the struct out as a consumer does: its address and kind; one deleter call is owed from then on."""
    raw = struct_of(capsule)
    assert name_of(capsule) in (VERSIONED, LEGACY)
    assert _set_name(capsule, static(USED_VERSIONED if isinstance(raw, Versioned) else USED_LEGACY)) == 0
    return raw


def delete(raw, prototype=DELETER):
    prototype(raw.deleter)(ctypes.addressof(raw))


_everything = []  # what a deleter may still be called on lives as long as the process
_memory = mmap.mmap(-1, 1 << 16)
DATA = ctypes.addressof(ctypes.c_char.from_buffer(_memory))
(ctypes.c_int32 * 64).from_address(DATA)[:] = range(64)


class Forged:
    """A tensor that owns nothing, says what a test wants it to say and counts the calls of its deleter.

    By default a well-formed int32 tensor of shape (2, 3) with the values 0 to 5.
    """

    def __init__(
        self, *, versioned=True, data=DATA, shape=(2, 3), strides=None, ndim=None, dtype=INT32, device=(1, 0),
        byte_offset=0, flags=0, version=(1, 3), has_deleter=True, ctx=0, at=None, on_delete=None,
    ):  # fmt: skip
        self.deletions = 0
        self.deleted_at = None
        self.on_delete = on_delete
        self.callback = DELETER(self._delete)
        kind = Versioned if versioned else Legacy
        self.raw = kind() if at is None else kind.from_address(at)
        self.shape = (c_int64 * len(shape))(*shape) if shape is not None else None
        self.strides = (c_int64 * len(strides))(*strides) if strides is not None else None
        if versioned:
            self.raw.major, self.raw.minor = version
        self.raw.ctx = ctx
        self.raw.deleter = ctypes.cast(self.callback, c_void_p).value if has_deleter else None
        _everything.append(self)
        if at is not None:
            return  # nothing behind the deleter may be touched
        if versioned:
            self.raw.flags = flags
        t = self.raw.tensor
        t.data, t.byte_offset = data, byte_offset
        t.device = Device(*device)
        t.dtype = DType(*dtype)
        t.ndim = ndim if ndim is not None else len(shape or ())
        for field, array in (("shape", self.shape), ("strides", self.strides)):
            setattr(t, field, ctypes.cast(array, POINTER(c_int64)) if array is not None else POINTER(c_int64)())

    def _delete(self, address):
        self.deletions += 1
        self.deleted_at = address
        if self.on_delete:
            self.on_delete()

    @property
    def address(self):
        return ctypes.addressof(self.raw)

    @property
    def is_versioned(self):
        return isinstance(self.raw, Versioned)

    def capsule(self, name=...):
        """A capsule without destructor: a capsule that is not consumed stays unchanged."""
        if name is ...:
            name = VERSIONED if self.is_versioned else LEGACY
        return new_capsule(self.address, static(name), None)


class Producer:
    """An object with the protocol: answers with what `answer(**keywords)` returns, and remembers what it was asked."""

    def __init__(self, answer, device=(1, 0)):
        self.answer, self.device = answer, device
        self.asked = []

    def __dlpack__(self, **keywords):
        self.asked.append(keywords)
        return self.answer(**keywords)

    def __dlpack_device__(self):
        return self.device


def before_a_closed_page(size):
    """The address of `size` bytes behind which nothing can be read."""
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    _everything.append(pages)
    closed = c_void_p(start + mmap.PAGESIZE)
    if sys.platform == "win32":
        no_access = 1
        assert ctypes.windll.kernel32.VirtualProtect(closed, ctypes.c_size_t(mmap.PAGESIZE), no_access, ctypes.byref(ctypes.c_ulong()))
    else:
        assert ctypes.CDLL(None).mprotect(closed, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    return closed.value - size


def on_foreign_threads(calls, gil):
    """Calls C functions on threads that Python knows nothing of, and waits for them: with the GIL held or given away."""
    library = (ctypes.PyDLL if gil else ctypes.CDLL)("kernel32" if sys.platform == "win32" else None)
    threads = []
    for function, argument in calls:
        function, argument, thread = c_void_p(function), c_void_p(argument), c_void_p()
        if sys.platform == "win32":
            library.CreateThread.restype = c_void_p
            thread.value = library.CreateThread(None, ctypes.c_size_t(0), function, argument, 0, None)
            assert thread
        else:
            assert library.pthread_create(ctypes.byref(thread), None, function, argument) == 0
        threads.append(thread)
    for thread in threads:
        if sys.platform == "win32":
            assert library.WaitForSingleObject(thread, -1) == 0 and library.CloseHandle(thread)
        else:
            assert library.pthread_join(thread, None) == 0


def products(**choices):
    """Dictionaries of all combinations, for parametrize."""
    return [dict(zip(choices, values)) for values in itertools.product(*choices.values())]
