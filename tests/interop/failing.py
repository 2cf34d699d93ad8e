"""Runs one path with its n-th allocation failing, for n = 1, 2, 3, … until it succeeds. In a child of test_failures.py.

usage: failing.py PATH KINDS     (1: C++, 2: Python)     prints the number of failures
"""

import ctypes
import os
import sys

import forge
from forge import LEGACY, VERSIONED, Forged, name_of

import minitensor as mt

sys.path.insert(0, os.environ["FERRY_CASTERS"])
import racing  # noqa: E402: the extension module, not the script in this folder

probe = ctypes.PyDLL(os.environ["LD_PRELOAD"])
call = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_int, ctypes.c_long)(("probe_call", probe))
VALUES = [[0, 1, 2], [3, 4, 5]]


def forged(**fields):
    tensor = Forged(**fields)
    tensor.raw.deleter = ctypes.cast(probe.probe_delete, ctypes.c_void_p).value
    return tensor


class Answers:
    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule


class Old(Answers):
    def __dlpack__(self):
        return self.capsule


def import_by(make, **how):
    def path(n):
        tensor = forged(versioned=how.get("versioned", True), flags=how.get("flags", 0), dtype=how.get("dtype", forge.INT32))
        capsule = tensor.capsule()
        x = make(capsule)
        arguments = {k: v for k, v in how.items() if k in ("copy", "device")}
        return (lambda: mt.from_dlpack(x, **arguments)), capsule

    return path


def result_by(like):
    def path(n):
        capsule = forged().capsule()
        return (lambda: racing.like(capsule, like)), capsule

    return path


def export_by(**how):
    def path(n):
        t = mt.from_dlpack(forged().capsule())
        if how.get("readonly"):
            t = t.as_readonly()
        arguments = {k: v for k, v in how.items() if k != "readonly"}
        return (lambda: t.__dlpack__(**arguments)), None

    return path


PATHS = {
    "import": import_by(lambda c: c),
    "import_legacy": import_by(lambda c: c, versioned=False),
    "import_copy": import_by(lambda c: c, copy=True),
    "import_legacy_copy": import_by(lambda c: c, versioned=False, copy=True),
    "import_padded": import_by(lambda c: c, dtype=(1, 4, 1), flags=forge.PADDED),
    "import_from_producer": import_by(Answers, device="cpu"),
    "import_from_old_producer": import_by(Old, copy=True, device=(1, 0)),
    "result": result_by(mt.Tensor),
    "result_refused": result_by(3),
    "export": export_by(max_version=(1, 3)),
    "export_legacy": export_by(),
    "export_copy": export_by(max_version=(1, 3), copy=True),
    "export_legacy_copy": export_by(readonly=True),
    "export_refused": export_by(readonly=True, copy=False),
    "export_bad_argument": export_by(max_version=(1, "x")),
}


def main():
    path, kinds = PATHS[sys.argv[1]], int(sys.argv[2])
    expected_error = (BufferError, ValueError, TypeError) if "refused" in sys.argv[1] or "bad" in sys.argv[1] else ()
    for _ in range(3):  # what is made once is made now
        work, _ = path(0)
        try:
            work()
        except expected_error:
            pass
        del work
    probe.probe_install()
    live = mt.live_bytes()
    failures = 0
    for n in range(1, 500):
        deleted = probe.probe_deletions()
        work, capsule = path(n)
        outcome = None
        try:
            result = call(work, kinds, n)
        except MemoryError:
            outcome, result = MemoryError, None
        except expected_error:
            outcome, result = "refused", None
        failed = probe.probe_has_failed()
        assert failed or outcome is not MemoryError, (n, outcome)
        assert not forge.error_is_set(), n
        if outcome is None and isinstance(result, mt.Tensor):
            assert result.tolist() == (VALUES if result.dtype == "int32" else [[0, 0, 0], [0, 1, 0]])
        consumed = capsule is None or name_of(capsule) not in (VERSIONED, LEGACY)
        assert consumed or result is None, (n, outcome)
        del result, work, capsule
        assert mt.live_bytes() == live, (n, outcome, mt.live_bytes() - live)
        assert probe.probe_deletions() - deleted == int(consumed), (n, outcome, consumed, probe.probe_deletions() - deleted)
        if not failed:
            print(failures)
            return
        failures += 1
    raise AssertionError("it never gets by")


main()
