"""A correct library, and libraries with one fault each: minitensor, with modified capsules.

The docstring of a wrong one begins with the rule that must catch it, and says `departs` where no text demands the rule.
"""

import ctypes
import os
import threading

from dlpack_conformance.dlpack import (
    COUNTING_DELETER, IS_COPIED, KEPT, LEGACY, PADDED, READ_ONLY, USED_VERSIONED, VERSIONED, Offer, Versioned, capsule_new, capsule_pointer,
    capsule_rename, delete, name_of, static_name, struct_of, take,
)  # fmt: skip
from dlpack_conformance.plugin import Cannot
from dlpack_conformance.plugins.minitensor_tensors import Minitensor
from dlpack_conformance.table import TABLE_NAME, Table


class Box:
    """An array of the library under test: a Tensor that is exported by `send`."""

    def __init__(self, tensor, library):
        self.tensor, self.library = tensor, library

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        return self.library.send(self.tensor, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self):
        return self.library.device_of(self.tensor)


class Relay:
    """A producer between the real one and minitensor: `receive` sees each capsule."""

    def __init__(self, producer, library):
        self.producer, self.library = producer, library

    def __dlpack__(self, **arguments):
        return self.library.receive(self.library.ask(self.producer, arguments))

    def __dlpack_device__(self):
        return self.producer.__dlpack_device__()


class Right(Minitensor):
    """A correct library."""

    name = "right"
    takes_capsules = False
    box = Box

    def __init__(self):
        super().__init__()
        Offer.waits = 0.0  # minitensor lets go at once

    def array(self, *arguments, **named):
        return self.box(super().array(*arguments, **named), self)

    def send(self, tensor, **arguments):
        return self.tamper(tensor.__dlpack__(**arguments), arguments)

    def tamper(self, capsule, arguments):
        if name_of(capsule) == VERSIONED:
            self.change(struct_of(capsule), arguments)
        return capsule

    def change(self, raw, arguments):
        pass

    def device_of(self, tensor):
        return tensor.__dlpack_device__()

    def take(self, x, **how):
        if not hasattr(x, "__dlpack__"):
            return self.m.from_dlpack(x, **how)
        return self.m.from_dlpack(Relay(x, self), **how)

    def ask(self, producer, arguments):
        return producer.__dlpack__(**arguments)

    def receive(self, capsule):
        if type(capsule).__name__ == "PyCapsule" and name_of(capsule) in (VERSIONED, LEGACY):
            self.see(struct_of(capsule))
        return capsule

    def see(self, raw):
        pass

    def address(self, a):
        return super().address(getattr(a, "tensor", a))

    def writable(self, a):
        return super().writable(getattr(a, "tensor", a))


# Faulty producers


class CopyNotFlagged(Right):
    """R12: a copy does not say so."""

    def change(self, raw, arguments):
        raw.flags &= ~IS_COPIED


class SharedFlaggedAsCopied(Right):
    """R12: what is shared says that it is a copy."""

    def change(self, raw, arguments):
        raw.flags |= IS_COPIED


class ForgetsReadOnly(Right):
    """R11: read-only goes out writable."""

    def change(self, raw, arguments):
        raw.flags &= ~READ_ONLY


class EverythingReadOnly(Right):
    """R11: writable goes out read-only."""

    def change(self, raw, arguments):
        raw.flags |= READ_ONLY


class UnknownFlag(Right):
    """R14 departs: a bit that has no meaning."""

    def change(self, raw, arguments):
        raw.flags |= 1 << 20


class MajorTwo(Right):
    """R4: a major version that does not exist."""

    def change(self, raw, arguments):
        raw.major = 2


class NullStrides(Right):
    """R24: no strides, in a struct of version 1.3."""

    def change(self, raw, arguments):
        raw.minor, raw.tensor.strides = 3, None


class LosesTransposition(Right):
    """R24: strides of the compact array."""

    def change(self, raw, arguments):
        raw.tensor.strides = None


class NotTheFirstElement(Right):
    """R23: data is one element too far."""

    def change(self, raw, arguments):
        raw.tensor.data = (raw.tensor.data or 0) + 4


class BoolAsByte(Right):
    """R16: bool goes out as uint8."""

    def change(self, raw, arguments):
        if raw.tensor.dtype.code == 6:
            raw.tensor.dtype.code = 1


class ScalarOfOneDimension(Right):
    """R25: no dimensions become one."""

    def change(self, raw, arguments):
        if raw.tensor.ndim == 0:
            KEPT.append((ctypes.c_int64 * 1)(1))
            raw.tensor.ndim, raw.tensor.shape = 1, KEPT[-1]
            raw.tensor.strides = KEPT[-1]


class EmptyPointsSomewhere(Right):
    """R26 departs: data of no elements is not NULL."""

    def change(self, raw, arguments):
        raw.tensor.data = raw.tensor.data or 0x1000


class SecondCpu(Right):
    """R35 departs: CPU number 1."""

    def change(self, raw, arguments):
        raw.tensor.device.id = 1


class WrongName(Right):
    """R60: a capsule of another name."""

    def tamper(self, capsule, arguments):
        capsule_rename(capsule, static_name(b"DLTensor"))
        return capsule


class VersionedUnasked(Right):
    """R8 departs: the versioned struct for a consumer that asked for none."""

    def send(self, tensor, **arguments):
        return tensor.__dlpack__(**{**arguments, "max_version": (1, 0)})


class LegacyOnly(Right):
    """R57 departs: the legacy struct for a consumer that asked for a version."""

    def send(self, tensor, **arguments):
        return tensor.__dlpack__(**{**arguments, "max_version": None})


class RejectsTheFuture(Right):
    """R57 departs: a version above its own is an error."""

    def send(self, tensor, **arguments):
        if arguments["max_version"] and arguments["max_version"] > (1, 3):
            raise BufferError("too new")
        return super().send(tensor, **arguments)


class TrueShares(Right):
    """R53: copy=True shares."""

    def send(self, tensor, **arguments):
        return tensor.__dlpack__(**{**arguments, "copy": None})


class FalseCopies(Right):
    """R53: copy=False copies."""

    def send(self, tensor, **arguments):
        return tensor.__dlpack__(**{**arguments, "copy": True if arguments["copy"] is False else arguments["copy"]})


class UnknownDeviceIsAValueError(Right):
    """R40: the wrong class of error."""

    def send(self, tensor, **arguments):
        if arguments["dl_device"] not in (None, (1, 0)):
            raise ValueError("no such device")
        return super().send(tensor, **arguments)


class AnyStream(Right):
    """R46 departs: the CPU takes a stream."""

    def send(self, tensor, **arguments):
        return super().send(tensor, **{**arguments, "stream": None})


class NoStreamIsAnError(Right):
    """R46: the CPU refuses None."""

    def send(self, tensor, **arguments):
        if arguments["stream"] is None:
            raise ValueError("say which stream")
        return super().send(tensor, **arguments)


class DeviceDisagrees(Right):
    """R37: another device than the capsule's."""

    def device_of(self, tensor):
        return (2, 0)


class SharesReadOnlyAsLegacy(Right):
    """R15 departs: the legacy struct of read-only data shares."""

    def send(self, tensor, **arguments):
        if arguments["max_version"] is None and tensor.readonly:
            capsule = self.m.zeros(tensor.shape, "int32").__dlpack__()
            struct_of(capsule).tensor.data = tensor.data_ptr
            return capsule
        return super().send(tensor, **arguments)


class Leaks(Right):
    """R61: capsules are never released."""

    def tamper(self, capsule, arguments):
        KEPT.append(capsule)
        return capsule


class LeaksStructs(Right):
    """R6: the deleter releases nothing."""

    def change(self, raw, arguments):
        KEPT.append(self.m.from_dlpack(raw.capsule))
        self.replacement = self.m.from_dlpack(KEPT[-1]).__dlpack__(max_version=(1, 0))

    def tamper(self, capsule, arguments):
        super().tamper(capsule, arguments)
        return self.replacement if name_of(capsule) == USED_VERSIONED else capsule


class CountsItsReaders(Right):
    """R59: every request leaves a reference to the array."""

    class box(Box):
        def __dlpack__(self, **arguments):
            KEPT.append(self)
            return super().__dlpack__(**arguments)


class Scribbles(Right):
    """R7: the memory goes with the array."""

    class box(Box):
        def __del__(self):
            if self.tensor.nbytes:
                ctypes.memset(self.tensor.data_ptr, 0xFF, self.tensor.nbytes)


class TakesPositions(Right):
    """R52: arguments by position."""

    class box(Box):
        def __dlpack__(self, stream=None, max_version=None, dl_device=None, copy=None):
            return super().__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)


class TakesAnyKeyword(Right):
    """R52 departs: an unknown keyword is no error."""

    class box(Box):
        def __dlpack__(self, *, bogus_keyword=None, **arguments):
            return super().__dlpack__(**arguments)


class KnowsNoVersions(Right):
    """R52: the signature of before 2023.12."""

    class box(Box):
        def __dlpack__(self, *, stream=None):
            return super().__dlpack__(stream=stream)


class NoDestructor(Right):
    """R61: a capsule without destructor."""

    def tamper(self, capsule, arguments):
        raw = take(capsule)
        name = VERSIONED if isinstance(raw, Versioned) else LEGACY
        return capsule_new(ctypes.addressof(raw), static_name(name), None)


class DeletesWhatWasConsumed(Right):
    """R61: the destructor calls the deleter under any name."""

    def tamper(self, capsule, arguments):
        raw = take(capsule)
        name = VERSIONED if isinstance(raw, Versioned) else LEGACY
        return capsule_new(ctypes.addressof(raw), static_name(name), ctypes.cast(DELETE_ALWAYS, ctypes.c_void_p))


def delete_always(capsule):
    address = capsule_pointer(capsule, ctypes.pythonapi.PyCapsule_GetName(ctypes.c_void_p(capsule)) or None)
    if address:
        delete(Versioned.from_address(address))


ctypes.pythonapi.PyCapsule_GetName.restype = ctypes.c_void_p
DELETE_ALWAYS = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(delete_always)


class OtherTable(Right):
    """A table on the type, a copy of minitensor's."""

    changes = {}
    label = TABLE_NAME

    def __init__(self):
        super().__init__()
        own = capsule_pointer(id(self.m.Tensor.__dlpack_c_exchange_api__), static_name(TABLE_NAME))
        table = Table.from_buffer_copy(Table.from_address(own))
        for member, value in self.changes.items():
            setattr(table, member, value)
        KEPT.append(table)
        capsule = capsule_new(ctypes.addressof(table), static_name(self.label), None)
        self.box = type("BoxWithTable", (Box,), {"__dlpack_c_exchange_api__": capsule})


class TableOfAnotherName(OtherTable):
    """R69: the capsule of the table has another name."""

    label = b"exchange_api"


class TableOfAnotherVersion(OtherTable):
    """R70: the table says version 2."""

    changes = {"major": 2}


class TableWithoutAllocator(OtherTable):
    """R71: a member is NULL."""

    changes = {"allocator": None}


class TableOfConstants(OtherTable):
    """R77: an object of another type is no error."""

    SUCCEEDS = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda *_: 0)
    changes = {"from_object": ctypes.cast(SUCCEEDS, ctypes.c_void_p).value}


# Faulty consumers


class IgnoresMajor(Right):
    """R2: another major version is read as its own."""

    def see(self, raw):
        if isinstance(raw, Versioned):
            raw.major = 1


class RejectsMinor(Right):
    """R3: a newer minor version is an error."""

    def see(self, raw):
        if isinstance(raw, Versioned) and raw.minor > 3:
            raise BufferError("too new")


class NeedsADeleter(Right):
    """R5: a NULL deleter is an error."""

    def see(self, raw):
        if not raw.deleter:
            raise BufferError("no deleter")


class NeedsAContext(Right):
    """R5: a NULL manager_ctx is an error."""

    def see(self, raw):
        if not raw.ctx:
            raise BufferError("no context")


class DeletesAtOnce(Right):
    """R7: the deleter runs while the array is in use."""

    def see(self, raw):
        KEPT.append(raw)

    def take(self, x, **how):
        array = super().take(x, **how)
        delete(KEPT[-1])
        return array


class NeverDeletes(Right):
    """R68: the deleter is never called."""

    def see(self, raw):
        raw.deleter = None


class DeletesTwice(Right):
    """R68: the deleter is called once more when the tensor goes."""

    def see(self, raw):
        def twice(address):
            for _ in range(2):
                ctypes.CFUNCTYPE(None, ctypes.c_void_p)(COUNTING_DELETER)(address)

        KEPT.append(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(twice))
        if raw.deleter:
            raw.deleter = ctypes.cast(KEPT[-1], ctypes.c_void_p).value


class AnyCode(Right):
    """R9: a code that does not exist is an integer."""

    def see(self, raw):
        if raw.tensor.dtype.code > 17:
            raw.tensor.dtype.code = 0


class FloatsAsIntegers(Right):
    """R16: the code is not looked at."""

    def see(self, raw):
        if raw.tensor.dtype.code == 2:
            raw.tensor.dtype.code = 0


class ReadOnlyBecomesWritable(Right):
    """R11: read-only comes in writable."""

    def see(self, raw):
        if isinstance(raw, Versioned):
            raw.flags &= ~READ_ONLY


class UnknownFlagsAreErrors(Right):
    """R14 departs: flags of the future are refused."""

    def see(self, raw):
        if isinstance(raw, Versioned) and raw.flags > 7:
            raise BufferError("unknown flags")


class PaddedReadAsPacked(Right):
    """R13: the padding is not looked at."""

    def see(self, raw):
        if isinstance(raw, Versioned):
            raw.flags &= ~PADDED


class AnyLanes(Right):
    """R21: a vector is read as one number."""

    def see(self, raw):
        raw.tensor.dtype.lanes = 1


class IgnoresByteOffset(Right):
    """R23: byte_offset is not added."""

    def see(self, raw):
        raw.tensor.byte_offset = 0


class NeedsStrides(Right):
    """R24: NULL strides are an error."""

    def see(self, raw):
        if raw.tensor.ndim and not raw.tensor.strides:
            raise BufferError("no strides")


class IgnoresStrides(Right):
    """R24: everything is compact."""

    def see(self, raw):
        raw.tensor.strides = None


class NeedsData(Right):
    """R26: NULL data is an error."""

    def see(self, raw):
        if not raw.tensor.data:
            raise BufferError("no data")


class OneHasAStride(Right):
    """R27 departs: the stride of a size-1 dimension is checked."""

    def see(self, raw):
        t = raw.tensor
        if any(t.shape[i] == 1 and t.strides and not 0 < t.strides[i] < 1000 for i in range(t.ndim)):
            raise BufferError("not contiguous")


class WrongWayRound(Right):
    """R28: the sign of a stride is lost."""

    def see(self, raw):
        t = raw.tensor
        if t.ndim == 2 and t.strides and t.strides[0] < 0:
            t.strides[0], t.strides[1] = -t.strides[0], -t.strides[1]


class NegativeIsEmpty(Right):
    """R32 departs: a negative extent is no error."""

    def see(self, raw):
        for i in range(raw.tensor.ndim if raw.tensor.shape else 0):
            raw.tensor.shape[i] = max(0, raw.tensor.shape[i])


class KeepsNotes(Right):
    """R33 departs: it writes into the struct."""

    def see(self, raw):
        raw.ctx = 0xBEEF


class AnyDevice(Right):
    """R34: every device is the CPU."""

    def see(self, raw):
        raw.tensor.device.type = 1


class PassesAStream(Right):
    """R46: a stream for the CPU."""

    def ask(self, producer, arguments):
        return producer.__dlpack__(**{**arguments, "stream": 1})


class PassesItsOwnKeyword(Right):
    """R52: an unknown keyword."""

    def ask(self, producer, arguments):
        try:
            return producer.__dlpack__(**arguments, order="C")
        except TypeError:
            return producer.__dlpack__(**arguments)


class ImportsTrueByShare(Right):
    """R53: from_dlpack(copy=True) shares."""

    def take(self, x, **how):
        return super().take(x, **{**how, "copy": None})


class TrustsTheProducer(Right):
    """R53 departs: copy=True of a producer that ignores it shares."""

    def ask(self, producer, arguments):
        self.wanted = arguments.get("copy")
        return super().ask(producer, arguments)

    def see(self, raw):
        if self.wanted and isinstance(raw, Versioned):
            raw.flags |= IS_COPIED


class WritesReadOnly(Right):
    """R11 departs: read-only data is imported as writable, without a warning."""

    def see(self, raw):
        if isinstance(raw, Versioned):
            raw.flags &= ~READ_ONLY

    def writable(self, a):
        return None

    def write(self, a, value):
        ctypes.c_int32.from_address(self.address(a)).value = value


class LongName(Right):
    """A correct library."""

    name = "an_array_library_of_a_long_name"


class KeepsTheSign(Right):
    """R41: the memory of a negated array is exported with the other sign."""

    def special(self, kind):
        if kind != "negated":
            raise Cannot("no such array")
        return self.box(self.m.asarray([2, 4], "float32"), self)

    def resolved(self, x):
        return [-2.0, -4.0]


class SparseAsDense(Right):
    """R41: a sparse array is exported as if it were dense."""

    def special(self, kind):
        if kind != "sparse":
            raise Cannot("no such array")
        return self.array()


class ImportsAlwaysByCopy(Right):
    """R53: from_dlpack always copies."""

    def take(self, x, **how):
        return super().take(x, **{**how, "copy": True})


class KeepsCopyToItself(Right):
    """R56 departs: copy=False is not passed on."""

    def ask(self, producer, arguments):
        return producer.__dlpack__(**{**arguments, "copy": None})


class AsksOnce(Right):
    """R58 departs: a producer of the old signature is an error."""

    def ask(self, producer, arguments):
        try:
            return producer.__dlpack__(**{"max_version": (1, 0), **arguments})
        except TypeError as error:
            raise RuntimeError(str(error)) from error


class LeavesTheName(Right):
    """R60: the capsule keeps its name."""

    def receive(self, capsule):
        self.last = capsule
        return capsule

    def take(self, x, **how):
        array = super().take(x, **how)
        capsule_rename(self.last, static_name(VERSIONED))
        return array


class AnyName(Right):
    """R60: the name of a capsule is not looked at."""

    def receive(self, capsule):
        if type(capsule).__name__ == "PyCapsule" and name_of(capsule) not in (VERSIONED, LEGACY):
            capsule_rename(capsule, static_name(VERSIONED))
        return capsule


class DeletesAndLeavesTheName(Right):
    """R62: a refusal calls the deleter, and the capsule will, too."""

    def see(self, raw):
        if raw.tensor.dtype.code > 17:
            delete(raw)
            raise BufferError("no such type")


class TakesUsedCapsules(Right):
    """R63 departs: a capsule can be consumed again."""

    def receive(self, capsule):
        if name_of(capsule) == USED_VERSIONED:
            capsule_rename(capsule, static_name(VERSIONED))
        return capsule


class TranslatesErrors(Right):
    """R81: the producer's error becomes another."""

    def ask(self, producer, arguments):
        try:
            return producer.__dlpack__(**arguments)
        except TypeError:
            raise
        except Exception as error:
            raise RuntimeError("the producer failed") from error


# Libraries that make one kind of array, or no exchange at all


class OneKind(Right):
    """A correct library whose only arrays are rows of 24 bytes."""

    name = "one-kind"
    plain, dtypes = ("uint8", (24,)), ["uint8"]

    def make(self, dtype, shape):
        if (dtype, shape) != self.plain:
            raise Cannot("it has rows of 24 bytes alone")
        return super().make(dtype, shape)


class OneKindCopyNotFlagged(OneKind):
    """R12: a copy of its only kind of array does not say so."""

    def change(self, raw, arguments):
        raw.flags &= ~IS_COPIED


class OneKindCopiedWrong(OneKind):
    """R53: what it copies is not its only kind of array."""

    def change(self, raw, arguments):
        if arguments["copy"]:
            ctypes.memset(raw.tensor.data, 9, 24)


class NoExchange(Right):
    """A library to which no rule applies."""

    name, without = "no-exchange", "its arrays have no __dlpack__"
    produces = consumes = False


# What ends or stops the process


class Crashes(Right):
    """R23: an import with an offset ends the process."""

    def see(self, raw):
        if raw.tensor.byte_offset:
            os.abort()


class Hangs(Right):
    """R23: an import with an offset never returns."""

    def see(self, raw):
        if raw.tensor.byte_offset:
            threading.Event().wait()


class HangingDeleter(Right):
    """R65: the deleter never returns."""

    WAITS = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: threading.Event().wait())

    def change(self, raw, arguments):
        raw.deleter = ctypes.cast(self.WAITS, ctypes.c_void_p).value


class DoesNotLoad(Right):
    """A library that is not installed."""

    def __init__(self):
        raise ImportError("no library of this name")


class BadPlugin(Right):
    """R16: a plug-in that raises an error."""

    def array(self, *arguments, **named):
        raise ZeroDivisionError("in the plug-in")
