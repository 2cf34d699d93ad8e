"""Measures exchanges in Python, compared with exchanges between other libraries in the same run: ratios are their time over ours.

usage: python.py [--json] [--rounds N]

Needs minitensor and NumPy; rows of libraries that are missing are skipped. The sides of a row are timed in turns, in short blocks, so
that other load affects them equally; a row shows the medians, and the median of the ratios of consecutive blocks. The exit status is
1 if a budget does not hold.

torch.from_dlpack is a Python function that uses capsules and not the exchange API, so the exchange API is measured with torch's table.
The floor is the cost of that table without a producer: `managed_tensor_to_py_object_no_sync` with an existing struct whose deleter is
NULL, and the release of the tensor. It is compared with the same after an export by minitensor's table. Both loops are in C, because a
call from Python would cost more than the measured code.
"""

import argparse
import ctypes
import importlib
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import minitensor as mt
import numpy as np

BLOCK_NS = 200_000


class Version(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [
        ("version", Version),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", Tensor),
    ]


class Table(ctypes.Structure):
    _fields_ = [("version", Version), ("prev_api", ctypes.c_void_p)] + [
        (name, ctypes.c_void_p) for name in ("allocate", "from_object", "to_object", "borrow_object", "current_stream")
    ]


_SOURCE = """
#include <time.h>
typedef int (*step)(void*, void**);
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return 1e9 * t.tv_sec + t.tv_nsec; }
/* Each returns ns a turn, or -1. `make` may be null: then `from` is the struct itself. */
double hand_over(step make, void* from, step take, void (*drop)(void*), long turns) {
    double const begin = now();
    for (long i = 0; i < turns; ++i) {
        void *tensor = from, *object = 0;
        if (make && make(from, &tensor) != 0) return -1;
        if (take(tensor, &object) != 0) return -1;
        drop(object);
    }
    return (now() - begin) / turns;
}
/* Makes a struct and calls its deleter, which lies 16 bytes behind its beginning. */
double make_and_delete(step make, void* from, long turns) {
    double const begin = now();
    for (long i = 0; i < turns; ++i) {
        void* tensor = 0;
        if (make(from, &tensor) != 0) return -1;
        (*(void (**)(void*))((char*)tensor + 16))(tensor);
    }
    return (now() - begin) / turns;
}
"""


class Loop:
    """A function of _SOURCE with its arguments; `timed` runs it."""

    def __init__(self, function, *arguments, keep=()):
        function.restype = ctypes.c_double
        self.timed = lambda count: function(*map(ctypes.c_void_p, arguments), ctypes.c_long(count))
        self.keep = keep
        if self.timed(1) < 0:
            raise RuntimeError("an exchange table failed")


def loops():
    """The functions of _SOURCE, run with the GIL held; None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, library = pathlib.Path(folder) / "loops.c", pathlib.Path(folder) / "loops.so"
        source.write_text(_SOURCE)
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
        return ctypes.PyDLL(str(library))


def table_of(kind):
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return Table.from_address(pointer(kind.__dlpack_c_exchange_api__, b"dlpack_exchange_api"))


def ready_struct(array):
    """A struct without a deleter that lends the memory of a NumPy array; and what it needs alive."""
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    strides = (ctypes.c_int64 * array.ndim)(*(s // array.itemsize for s in array.strides))
    tensor = Tensor(array.ctypes.data, 1, 0, array.ndim, 2, 32, 1, shape, strides, 0)
    return Managed(Version(1, 3), None, None, 0, tensor), (array, shape, strides)


def block(call, count):
    if isinstance(call, Loop):
        return call.timed(count)
    begin = time.perf_counter_ns()
    for _ in range(count):
        call()
    return (time.perf_counter_ns() - begin) / count


def compare(ours, theirs, rounds):
    """Median times of both; of neighbouring blocks, the median of their time over ours and of the difference."""
    counts = [max(1, int(BLOCK_NS / max(block(call, 20), 1))) for call in (ours, theirs)]
    pairs = []
    for i in range(rounds):
        a, b = None, None
        if i % 2:
            a = block(ours, counts[0])
        b = block(theirs, counts[1])
        if a is None:
            a = block(ours, counts[0])
        pairs.append((a, b))
    return (
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(b / a for a, b in pairs),
        statistics.median(a - b for a, b in pairs),
    )


def optional(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def rows():
    """(what, ours, against, theirs, budget): a budget is ("time", limit relative to theirs), ("ns above", limit) or None."""
    array = np.zeros((2, 3, 4, 5), np.float32)
    ours = mt.from_dlpack(array)
    torch, jax, tvm, arrow = (optional(name) for name in ("torch", "jax", "tvm_ffi", "pyarrow"))

    yield (
        "np.from_dlpack(minitensor)",
        lambda: np.from_dlpack(ours),
        "np.from_dlpack(numpy)",
        lambda: np.from_dlpack(array),
        ("time", 1.1),
    )
    others = {"numpy": array}
    if torch is not None:
        tensor = torch.zeros(2, 3, 4, 5)
        others["torch"] = tensor
        if hasattr(torch.Tensor, "__dlpack_c_exchange_api__") and (c := loops()) is not None:
            mine, theirs = table_of(mt.Tensor), table_of(torch.Tensor)
            drop = ctypes.cast(ctypes.pythonapi.Py_DecRef, ctypes.c_void_p).value
            ready, kept = ready_struct(array)
            floor = Loop(c.hand_over, None, ctypes.addressof(ready), theirs.to_object, drop, keep=(ready, kept))
            yield (
                "minitensor to torch through the exchange tables",
                Loop(c.hand_over, mine.from_object, id(ours), theirs.to_object, drop),
                "an existing struct to torch",
                floor,
                ("ns above", 100),
            )
            yield (
                "minitensor.from_dlpack(torch)",
                lambda: mt.from_dlpack(tensor),
                "the export by torch's table",
                Loop(c.make_and_delete, theirs.from_object, id(tensor)),
                None,
            )
        yield (
            "torch.from_dlpack(minitensor)",
            lambda: torch.from_dlpack(ours),
            "torch.from_dlpack(numpy)",
            lambda: torch.from_dlpack(array),
            None,
        )
    if tvm is not None:
        others["tvm_ffi"] = tvm.from_dlpack(ours)
        if torch is not None:
            yield (
                "tvm_ffi.from_dlpack(minitensor)",
                lambda: tvm.from_dlpack(ours),
                "tvm_ffi.from_dlpack(torch)",
                lambda: tvm.from_dlpack(tensor),
                None,
            )
    if jax is not None:
        others["jax"] = jax.numpy.zeros((2, 3, 4, 5), np.float32)
    if arrow is not None:
        others["pyarrow"] = arrow.array(np.zeros(120, np.float32))
    for name, other in others.items():
        rivals = {"np.from_dlpack": np.from_dlpack}
        if torch is not None:
            rivals["torch.from_dlpack"] = torch.from_dlpack
        for rival, call in rivals.items():
            try:
                call(other)
            except Exception:
                continue  # it does not take this library's
            yield (
                f"minitensor.from_dlpack({name})",
                lambda other=other: mt.from_dlpack(other),
                f"{rival}({name})",
                lambda other=other, call=call: call(other),
                None,
            )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--rounds", type=int, default=101, help="blocks for each contestant")
    arguments = parser.parse_args()
    results, missed = [], 0
    if not arguments.json:
        print(f"{'what':<32} {'ns':>7}   {'against':<28} {'ns':>7} {'ratio':>7} {'above':>8}   {'budget':<26} holds")
    for what, ours, against, theirs, budget in rows():
        a, b, ratio, above = compare(ours, theirs, arguments.rounds)
        limit, holds = "", None
        if budget is not None:
            kind, bound = budget
            limit = f"time <= {bound} x the peer's" if kind == "time" else f"<= {bound} ns above"
            holds = (1 / ratio if kind == "time" else above) <= bound
            missed += not holds
        results.append(
            {"what": what, "ns": a, "against": against, "against_ns": b, "ratio": ratio, "above_ns": above, "budget": limit, "holds": holds}
        )
        if not arguments.json:
            verdict = {None: "", True: "yes", False: "NO"}[holds]
            print(f"{what:<32} {a:>7.0f}   {against:<28} {b:>7.0f} {ratio:>7.2f} {above:>+8.0f}   {limit:<26} {verdict}".rstrip(), flush=True)
    if arguments.json:
        print(json.dumps(results, indent=1))
    sys.exit(missed != 0)


if __name__ == "__main__":
    main()
