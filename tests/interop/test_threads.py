"""Threads, the end of the interpreter, forks and sub-interpreters. Tests that may crash run in a child process."""

import ctypes
import itertools
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest
import without_gil
from forge import Forged, delete, on_foreign_threads, take
from in_threads import in_threads

import minitensor as mt

HERE = pathlib.Path(__file__).parent
VALUES = [[0, 1, 2], [3, 4, 5]]
# Of functions that CPython 3.13 without the GIL never frees, because a thread has been started.
NUMBERS = [mt.asarray([n], "int32") for n in range(2)]


def child(code, python_malloc="", **how):
    """A program of its own that must end well and say nothing on stderr. `python_malloc`: see PYTHONMALLOC."""
    without_gil.need_for(code)
    path = os.pathsep.join(filter(None, [str(HERE), str(HERE.parent / "support"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": path, "PYTHONMALLOC": python_malloc}, **how,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), (done.returncode, done.stdout, done.stderr[-3000:])
    return done.stdout


def test_R65_one_tensor_is_exported_and_imported_by_many_threads():
    t = mt.asarray(VALUES, "int32")

    def work(i):
        for n in range(500):
            u = mt.from_dlpack(t.__dlpack__(max_version=None if n % 2 else (1, 3)))
            assert u.data_ptr == t.data_ptr and mt.from_dlpack(u, copy=True).tolist() == VALUES
            assert mt.from_dlpack(t, device="cpu")[1].tolist() == [3, 4, 5]

    in_threads(work)


def test_R65_large_copies_release_the_gil():
    t = mt.zeros((1024, 1024), "int32")
    t.fill(7)

    def work(i):
        for _ in range(3):
            assert mt.from_dlpack(t.T, copy=True)[5, 5].item() == 7

    in_threads(work, 4)


def test_R65_a_tensor_may_be_released_on_another_thread():
    made = [take(mt.arange(100).__dlpack__(max_version=(1, 3))) for _ in range(800)]

    def work(i):
        for raw in made[i::8]:
            delete(raw)

    in_threads(work)


def test_R65_releases_on_threads_without_a_python_state():
    raws = [take(mt.arange(100).__dlpack__()) for _ in range(50)]
    on_foreign_threads([(raw.deleter, ctypes.addressof(raw)) for raw in raws], gil=False)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_R65_the_array_of_another_library_is_released_on_such_a_thread(library):
    import weakref

    import numpy as np

    a = np.arange(10)
    dies = weakref.ref(a)
    if library == "torch":
        import torch

        a = torch.from_numpy(a)
    t = mt.from_dlpack(a)
    raw = take(t.__dlpack__())
    del a, t
    assert dies() is not None
    on_foreign_threads([(raw.deleter, ctypes.addressof(raw))], gil=False)
    assert dies() is None


def test_R63_one_of_many_threads_imports_the_capsule():
    for _ in range(50):
        tensor = Forged()
        capsule = tensor.capsule()
        got = []

        def work(i, capsule=capsule, got=got):
            try:
                got.append(mt.from_dlpack(capsule))
            except ValueError:
                pass

        in_threads(work)
        assert len(got) == 1 and tensor.deletions == 0
        got.clear()
        del work
        assert tensor.deletions == 1


def test_R63_many_threads_import_the_same_capsules_in_the_same_order():
    t = mt.arange(4)
    capsules = [t.__dlpack__(max_version=None if n % 2 else (1, 3)) for n in range(2000)]
    got = [[] for _ in range(8)]

    def work(i):
        for capsule in capsules:
            try:
                got[i].append(mt.from_dlpack(capsule))
            except ValueError:
                pass

    in_threads(work)
    assert sum(map(len, got)) == len(capsules)
    assert all(u.data_ptr == t.data_ptr for u in itertools.chain(*got))


def test_R65_many_threads_exchange_their_own_objects():
    import numpy as np

    def work(i):
        a = np.full(6, i)
        for _ in range(500):
            t = mt.from_dlpack(a)
            b = np.from_dlpack(t)
            assert t.data_ptr == b.ctypes.data == a.ctypes.data and b[5] == i
            with pytest.raises(ValueError):
                mt.from_dlpack(t.T, device="cuda:0", copy=False)

    in_threads(work)


def test_R65_many_threads_import_the_same_columns():
    import nanoarrow

    class Same:
        """Returns the same capsules again and again: only one import may move the structs out of them."""

        def __init__(self, column):
            self.capsules = column.__arrow_c_array__()

        def __arrow_c_array__(self):
            return self.capsules

    column = mt.Column.from_arrow(nanoarrow.c_array([1, 2, 3], nanoarrow.int32()))
    objects = [Same(column) for _ in range(500)]
    got = [[] for _ in range(8)]

    def work(i):
        for x in objects:
            try:
                got[i].append(mt.Column.from_arrow(x))
            except ValueError:
                pass

    in_threads(work)
    assert sum(map(len, got)) == len(objects)


def test_types_are_published_and_changed_while_other_threads_import():
    def returning(n):
        return lambda self, **keywords: NUMBERS[n].__dlpack__(**keywords)

    shared = type("Shared", (), {"__dlpack__": returning(0)})
    types = [[type("Own", (), {"__dlpack__": returning(1)}) for _ in range(100)] for _ in range(8)]
    others = [[type("Empty", (), {}) for _ in range(100)] for _ in range(8)]

    def work(i):
        for n, (own, other) in enumerate(zip(types[i], others[i])):
            if i % 4 == 0:  # frees the previous function, which other threads may be about to call
                shared.__dlpack__ = returning(n % 2)
            for _ in range(3):
                assert mt.from_dlpack(shared()).item() in (0, 1)
                assert mt.from_dlpack(own()).item() == 1
                with pytest.raises(TypeError, match="got Empty"):
                    mt.from_dlpack(other())
            own.__dlpack__ = returning(0)
            other.__dlpack__ = returning(1)
            assert (mt.from_dlpack(own()).item(), mt.from_dlpack(other()).item()) == (0, 1)

    in_threads(work)
    shared.__dlpack__ = returning(1)
    assert mt.from_dlpack(shared()).item() == 1


def test_the_first_calls_of_a_process_come_from_many_threads():
    """They create the names, the exception class and the types that all later calls use."""
    for _ in range(5):
        child("""
import threading
import minitensor as mt
t, start, classes = mt.arange(4), threading.Barrier(8), set()
def work():
    start.wait()
    mt.from_dlpack(t.__dlpack__(max_version=(1, 3)))
    mt.from_dlpack(t, copy=True)
    try: t.__dlpack__(copy=False, dl_device=(2, 0))
    except Exception as e: classes.add(type(e))
    try: mt.from_dlpack(Copies(), copy=False)
    except Exception as e: classes.add(type(e))
class Copies:
    def __dlpack__(self, **keywords): return t.__dlpack__(max_version=(1, 3), copy=True)
threads = [threading.Thread(target=work) for _ in range(8)]
for th in threads: th.start()
for th in threads: th.join()
assert [c.__name__ for c in classes] == ["CopyNeededError"], classes
""")


def test_the_module_does_not_need_the_gil():
    """Without the GIL, the import of another module would enable it, with a warning."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    subprocess.run([sys.executable, "-W", "error", "-c", "import minitensor"], env=kept, check=True)


def test_R68_the_last_of_many_threads_releases_the_tensor():
    tensor = Forged()
    shared = [mt.from_dlpack(tensor.capsule())]
    shared += [mt.from_dlpack(shared[0]) for _ in range(799)]

    def work(i):
        for k in range(i, 800, 8):
            shared[k] = None

    in_threads(work)
    assert tensor.deletions == 1


# The end of the interpreter (R66)

PROLOGUE = """
import atexit, ctypes, gc, sys, threading
import numpy as np
import forge
import minitensor as mt
t = mt.arange(1000)
"""

EXITS = {
    "tensors": "u = t.T; v = mt.from_dlpack(t, copy=True)",
    "capsules": "a = t.__dlpack__(); b = t.__dlpack__(max_version=(1, 3)); c = t.__dlpack__(copy=True)",
    "a used capsule": "a = t.__dlpack__(); b = mt.from_dlpack(a)",
    "imports": "u = mt.from_dlpack(np.arange(10)); v = u.__dlpack__()",
    "exports": "u = np.from_dlpack(t); v = np.from_dlpack(t.as_readonly())",
    "a cycle": "x = [t, t.__dlpack__(), mt.from_dlpack(np.arange(3))]; x.append(x); gc.disable()",
    "builtins": "sys.kept = (t, t.__dlpack__(), np.from_dlpack(t), mt.from_dlpack(np.arange(3)))",
    "an object with __del__": """
        class Last:
            def __init__(self): self.t, self.mt = t, mt
            def __del__(self): self.mt.from_dlpack(self.t.__dlpack__()).tolist()
        sys.last = Last(); sys.other = [Last()]; sys.other.append(sys.other)
    """,
    "atexit": "atexit.register(lambda: mt.from_dlpack(t.__dlpack__(), copy=True).tolist())",
    "a daemon thread": """
        at_work = threading.Barrier(4)
        def forever():
            mt.from_dlpack(t.__dlpack__(), copy=True)
            at_work.wait()
            while True: mt.from_dlpack(t.__dlpack__(), copy=True)
        for _ in range(3): threading.Thread(target=forever, daemon=True).start()
        at_work.wait()
    """,
    "thread locals": """
        local = threading.local(); local.t = mt.from_dlpack(np.arange(4)); local.c = t.__dlpack__()
    """,
    "sys.exit": "x = t.__dlpack__(); sys.exit(0)",
    "never deleted": "raw = forge.take(t.__dlpack__())",
}


@pytest.mark.parametrize("what", EXITS)
def test_R66_the_interpreter_ends_without_error_with(what):
    child(PROLOGUE + textwrap.dedent(EXITS[what]))


def test_R66_the_interpreter_ends_without_error_with_tensors_in_torch():
    child("""
        import torch, minitensor as mt
        t = mt.arange(10); x = torch.from_dlpack(t); u = mt.from_dlpack(torch.arange(5)); c = u.__dlpack__()
        torch.kept = (x, u, c, mt.from_dlpack(x))
    """)


@pytest.mark.skipif(sys.platform == "win32", reason="the C library of Windows has no __cxa_atexit")
@pytest.mark.parametrize("make", ["t", "mt.from_dlpack(np.arange(10))", "mt.from_dlpack(mt.from_dlpack(np.arange(10)).__dlpack__())"])
@pytest.mark.parametrize("version", ["None", "(1, 3)"])
def test_R66_a_deleter_runs_after_the_interpreter_has_ended(make, version):
    """__cxa_atexit calls it when Python has finalized and the process ends."""
    out = child(PROLOGUE + f"""
raw = forge.take(({make}).__dlpack__(max_version={version}))
libc = ctypes.CDLL(None)
libc.__cxa_atexit.argtypes = (ctypes.c_void_p,) * 3
text = ctypes.create_string_buffer(b"after the deleter")
forge._everything.append(text)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(text))
ctypes.pythonapi.Py_IncRef(ctypes.py_object(raw))
assert libc.__cxa_atexit(ctypes.cast(libc.puts, ctypes.c_void_p), ctypes.addressof(text), None) == 0
assert libc.__cxa_atexit(raw.deleter, ctypes.addressof(raw), None) == 0
atexit.register(lambda: print("Python ends", flush=True))
""")
    assert out.split("\n")[:2] == ["Python ends", "after the deleter"]


# Forks


forks = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")


@forks
def test_a_forked_child_uses_and_releases_its_tensors():
    child(PROLOGUE + """
import os
a = np.arange(10)
u, c, n = mt.from_dlpack(a), t.__dlpack__(), np.from_dlpack(t)
pid = os.fork()
if pid == 0:
    assert mt.from_dlpack(c).tolist() == list(range(1000)) and u.tolist() == list(range(10))
    t.fill(7)
    del t, u, c, n, a
    gc.collect()
    assert mt.live_bytes() == 0
    sys.exit(0)
_, status = os.waitpid(pid, 0)
assert status == 0, status
assert t[999].item() == 999 and mt.from_dlpack(c).data_ptr == t.data_ptr
""")


@forks
def test_a_fork_while_other_threads_export():
    child(PROLOGUE + """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # CPython 3.12 warns of a fork beside threads
stop, at_work = threading.Event(), threading.Barrier(4)
def work():
    at_work.wait()
    while not stop.is_set(): mt.from_dlpack(t.__dlpack__(), copy=True)
threads = [threading.Thread(target=work) for _ in range(3)]
for th in threads: th.start()
at_work.wait()
for _ in range(10):
    pid = os.fork()
    if pid == 0:
        mt.from_dlpack(t.__dlpack__(max_version=(1, 3))).tolist()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
for th in threads: th.join()
""")


# Sub-interpreters


IMPORTS = """
import sys
sys.path[:] = {path}
for _ in range(2):
    try:
        import minitensor
        print("imported", flush=True)
    except ImportError as e:
        print("refused:", e, flush=True)
"""

SUB_INTERPRETERS = """
import sys
try:
    import _interpreters as interpreters  # CPython 3.13
    create, run = lambda: interpreters.create("legacy"), interpreters.exec
except ImportError:
    import _xxsubinterpreters as interpreters
    create, run = interpreters.create, interpreters.run_string

def main_works():
    import minitensor
    a = minitensor.arange(3)
    assert minitensor.from_dlpack(a.__dlpack__()).tolist() == [0, 1, 2]
    try:
        minitensor.asarray([[1], [2, 3]])
    except ValueError:
        return
    raise AssertionError("errors are translated no more")

if {main_first}:
    main_works()
for _ in range(2):
    i = create()
    run(i, {imports}.format(path=sys.path))
    interpreters.destroy(i)
    main_works()
"""


@pytest.mark.parametrize("main_first", [False, True])
def test_sub_interpreters_are_refused_and_the_main_one_continues(main_first):
    out = child(SUB_INTERPRETERS.format(main_first=main_first, imports=repr(IMPORTS)))
    lines = out.splitlines()
    assert len(lines) == 4 and all(line.startswith("refused:") and re.search("main interpreter|subinterpreters", line) for line in lines), out
