"""share, attach, Publisher, Subscriber, Registry and Column, between processes: each docstring or name states what the test checks."""

import array
import copy
import gc
import glob
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from in_threads import in_threads
from test_tensor import both, refusal

import ferry

HANGS = 120  # seconds; deadline for the answer of a process


@pytest.fixture(autouse=True)
def no_segment_is_left_behind():
    pattern = f"/dev/shm/ferry-{os.getuid()}-*-{os.getpid()}-*"
    before = set(glob.glob(pattern))
    yield
    gc.collect()
    assert set(glob.glob(pattern)) <= before


@pytest.fixture
def names(tmp_path):
    return str(tmp_path)


class Other:
    """Another process, which runs statements: `x` is what they print."""

    BEGIN = "import sys, ferry, numpy as np\nfor line in sys.stdin:\n    exec(line)\n    sys.stdout.flush()\n"

    def __init__(self):
        self.popen = subprocess.Popen([sys.executable, "-c", self.BEGIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, statement):
        self.popen.stdin.write(statement.replace("\n", ";") + "; print()\n")
        self.popen.stdin.flush()
        lines = []
        while (line := self.popen.stdout.readline()) != "\n":
            assert line, "the process has ended"
            lines.append(line.strip())
        return " ".join(lines)

    def kill(self):
        self.popen.kill()
        self.popen.wait(HANGS)


@pytest.fixture
def other():
    started = Other()
    yield started
    started.popen.stdin.close()
    started.popen.stdout.close()
    started.popen.wait(HANGS)


# share and attach


def test_an_array_is_shared_with_another_process(other):
    x = np.arange(6.0).reshape(2, 3)
    with ferry.share(x) as s:
        assert s.copied and s.tensor is s.tensor and s.tensor.shape == (2, 3) and type(s.descriptor) is bytes
        assert json.loads(s.json())["format"] == "ferry-descriptor"
        other(f"t = ferry.attach({s.descriptor!r})")
        assert other("print(np.asarray(t).tolist(), t.readonly)") == f"{x.tolist()} False"
        other("t[0].fill(7)")
        assert np.asarray(s.tensor).tolist() == [[7, 7, 7], [3, 4, 5]] and x[0, 0] == 0
        assert s.wait_for_readers(0.05) is False
        other("del t")
        assert s.wait_for_readers(HANGS) is True and s.wait_for_readers() is True
        again = ferry.share(s.tensor[1:])  # shared already
        assert not again.copied and memoryview(ferry.attach(again.descriptor)).tolist() == [[3, 4, 5]]
        again.close()
        descriptor, memory = s.descriptor, s.tensor
    refusal(OSError, ferry.attach, descriptor)
    s.close()
    assert memoryview(memory)[1, 2] == 5


def test_every_library_and_buffer_is_shared(other):
    torch, pa = pytest.importorskip("torch"), pytest.importorskip("pyarrow")
    for x in (torch.ones(3, dtype=torch.bfloat16), array.array("i", [1, 2]), b"abc", np.broadcast_to(np.float32(2), (3, 3)), np.zeros((0, 2))):
        with ferry.share(x) as s:
            t = ferry.from_dlpack(x)
            assert other(f"t = ferry.attach({s.descriptor!r}); print(t.shape, t.dtype)") == f"{t.shape} {t.dtype}"
            other("del t")
    with ferry.share(b"abc") as s:
        assert ferry.attach(s.descriptor).readonly
    table = pa.table({"price": [1.5, None], "city": ["Oslo", "Lima"]})
    with ferry.share(table) as s:
        assert type(s.tensor) is ferry.Column and pa.record_batch(s.tensor).to_pydict() == table.to_pydict()
        assert other(f"import pyarrow as pa; c = ferry.attach({s.descriptor!r}); print(pa.record_batch(c).to_pydict())") == str(table.to_pydict())
        other("del c")


def test_a_list_is_one_descriptor(other):
    pa = pytest.importorskip("pyarrow")
    weights = [np.full(n, n, d) for n in range(1, 50) for d in ("f4", "i1", "f8", "u2")]
    with ferry.share([*weights, pa.array(["x", None])]) as s:
        assert type(s.tensor) is list and len(s.tensor) == 197
        got = other(f"w = ferry.attach({s.descriptor!r}); print(all((np.asarray(t) == t.size).all() for t in w[:-1]), type(w[-1]).__name__, len(w))")
        assert got == "True Column 197"
        refusal(ValueError, ferry.attach, s.descriptor, device="cpu")


def test_copy():
    x = np.ones(3)
    with pytest.raises(BufferError) as caught:
        ferry.share(x, copy=False)
    assert both(caught.value) and "::" not in str(caught.value)
    with ferry.share(x) as s, ferry.share(s.tensor, copy=True) as fresh, ferry.share(s.tensor, copy=False) as same:
        assert fresh.copied and not same.copied and fresh.tensor.data_ptr != s.tensor.data_ptr == same.tensor.data_ptr
    refusal(ValueError, ferry.share, x, copy=1)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "bfloat16", "complex128", "float8_e4m3fn", "float4_e2m1fn"])
def test_empty(dtype):
    t = ferry.empty((3, 2), dtype)
    assert t.shape == (3, 2) and t.dtype == dtype and t.strides == (2, 1) and not t.readonly and not t.copied
    with ferry.share(ferry.empty([3, 2], dtype, device="cpu", shared=True)) as s:
        assert not s.copied and ferry.attach(s.descriptor).dtype == dtype
    with ferry.share(t) as s:
        assert s.copied


def test_empty_of_no_elements_or_no_dimensions():
    assert ferry.empty((), "int8").shape == () and ferry.empty(4, "int8").shape == (4,)
    with ferry.share(ferry.empty((0, 2), "int8", shared=True)) as s:
        assert ferry.attach(s.descriptor).shape == (0, 2)
    for shape in (-1, (1 << 62, 2), (1 << 40, 1 << 40)):
        refusal(ValueError, ferry.empty, shape, "float32")
    refusal(ValueError, ferry.empty, 1, "float33")
    refusal(TypeError, ferry.empty, "text", "int8")
    refusal(BufferError, ferry.empty, 1, "int8", device="cuda")
    refusal(ValueError, ferry.empty, 1, "int8", device="gpu")
    refusal(TypeError, ferry.empty, 1)


def test_what_cannot_be_shared_or_attached():
    for x in (None, 3, "text", [1], [np.ones(1), None]):
        refusal(TypeError, ferry.share, x)
    for x in (None, 3, "text"):
        refusal(TypeError, ferry.attach, x)
    with ferry.share(np.ones(3)) as s:
        for bad in (b"", b"abc", s.descriptor[:-1], s.descriptor[:-1] + b"\0", bytes(len(s.descriptor)), np.zeros((4, 4), "u1").T):
            refusal((ValueError, TypeError), ferry.attach, bad)
        refusal(BufferError, ferry.attach, s.descriptor, device="cuda")
        assert ferry.attach(memoryview(s.descriptor), device="cpu").size == 3


def test_a_share_says_what_to_send_in_place_of_a_pickle():
    with ferry.share(np.ones(3)) as s:
        for call in (pickle.dumps, copy.copy, copy.deepcopy):
            assert "descriptor" in refusal(TypeError, call, s)


def test_a_killed_exporter_is_an_os_error_and_its_readers_keep_the_memory():
    process = Other()
    descriptor = eval(process("s = ferry.share(np.arange(3)); print(s.descriptor)"))
    t = ferry.attach(descriptor)
    process.kill()
    assert memoryview(t).tolist() == [0, 1, 2]
    refusal(OSError, ferry.attach, descriptor)
    process.popen.stdin.close()
    process.popen.stdout.close()
    ferry.share(b"a").close()  # removes what the process left in /dev/shm


def test_send_and_receive():
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs, ferry.share(np.arange(3)) as s:
        ferry.send(ours, s)
        assert memoryview(ferry.receive(theirs)).tolist() == [0, 1, 2]
        theirs.settimeout(0.05)
        refusal(OSError, ferry.receive, theirs)
        refusal(TypeError, ferry.send, ours, s.descriptor)
    with socket.socket() as other_kind:
        refusal(ValueError, ferry.receive, other_kind)


# Topics


def slots(count=3, shape=4):
    return [ferry.share(np.zeros(shape, "i8")) for _ in range(count)]


def test_frames(names, other):
    other(f"sub = ferry.Subscriber('rig/left', directory={names!r})")
    camera = ferry.Publisher("rig/left", slots(), directory=names)
    assert camera.generation == 0
    for n in (1, 2):
        with camera.begin(timeout=HANGS) as slot:
            slot.tensor.fill(n)
        refusal(ValueError, lambda: slot.tensor)
    assert other(f"f = sub.next(timeout={HANGS}); print(np.asarray(f.value).tolist(), f.generation)") == "[2, 2, 2, 2] 2"
    before = time.monotonic()
    sub = ferry.Subscriber("rig/left", directory=names)
    assert next(iter(sub)).generation == 2
    refusal(TimeoutError, sub.next, 0.2)
    assert 0.2 <= time.monotonic() - before < HANGS
    with pytest.raises(ZeroDivisionError), camera.begin() as slot:
        slot.tensor.fill(3 // 0)
    assert camera.generation == 2
    refusal(TimeoutError, sub.next, 0)
    used = camera.begin()
    refusal(ValueError, lambda: used.tensor)
    with used:
        refusal(ValueError, used.__enter__)
    refusal(ValueError, used.__enter__)
    assert sub.next(HANGS).generation == 3
    del camera  # a slot of a block that has ended does not keep it
    gc.collect()
    camera = ferry.Publisher("rig/left", slots(), directory=names)  # continues the generations
    with camera.begin():
        pass
    assert sub.next(HANGS).generation == 4


def test_readers_that_have_all_slots_time_a_publisher_out(names):
    camera, sub = ferry.Publisher("a", slots(), directory=names), Other()
    sub(f"s = ferry.Subscriber('a', directory={names!r}); kept = []")
    for _ in range(3):
        with camera.begin(timeout=HANGS):
            pass
        sub(f"kept.append(s.next({HANGS}))")
    with pytest.raises(TimeoutError, match="slots"), camera.begin(timeout=0.2):
        pass
    sub.kill()  # frees its slots
    with camera.begin(timeout=HANGS) as slot:
        slot.tensor.fill(1)
    sub.popen.stdin.close()
    sub.popen.stdout.close()


def test_a_publisher_takes_its_shares_or_leaves_all_of_them(names):
    taken = slots()
    camera = ferry.Publisher("a", taken, directory=names)
    for s in taken:
        for use in (lambda s=s: s.descriptor, s.json, lambda s=s: s.tensor, s.wait_for_readers):
            assert "Publisher" in refusal(ValueError, use)
        s.close()
    kept = slots()
    for wrong, kind in ((kept[:1], ValueError), ([kept[0], kept[0]], ValueError), ([kept[0], taken[0]], ValueError), ([kept[0], 3], TypeError), (3, TypeError)):
        refusal(kind, ferry.Publisher, "b", wrong, directory=names)
    refusal(OSError, ferry.Publisher, "a", kept, directory=names)
    refusal(ValueError, ferry.Publisher, "a!b", kept, directory=names)
    assert all(s.descriptor for s in kept)
    with camera.begin() as slot:
        refusal(ValueError, camera.begin().__enter__)
        slot.tensor.fill(1)
    refusal(ValueError, slot.__exit__, None, None, None)
    camera.begin().__enter__()  # without an end: not published
    with camera.begin() as slot:
        slot.tensor.fill(2)
    assert camera.generation == 2


def test_tables_are_frames_as_well(names):
    pa = pytest.importorskip("pyarrow")
    camera = ferry.Publisher("t", [ferry.share(pa.array([n, None])) for n in range(3)], directory=names)
    sub = ferry.Subscriber("t", directory=names)
    with camera.begin():
        pass
    assert pa.array(sub.next(HANGS).value).null_count == 1
    del camera
    gc.collect()
    camera = ferry.Publisher("t", slots(), directory=names)
    with camera.begin() as slot:
        slot.tensor.fill(5)
    assert memoryview(sub.next(HANGS).value).tolist() == [5] * 4


def test_a_signal_interrupts_a_wait(names):
    program = f"import ferry; print(1, flush=True)\nfor f in ferry.Subscriber('none', directory={names!r}): pass"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.readline()
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.wait(HANGS) != 0
    process.stdout.close()


# Registry


def test_a_registry(names, other):
    pa = pytest.importorskip("pyarrow")
    r = ferry.Registry("results", most_bytes=1 << 20, directory=names)
    r.put("scores/1", pa.table({"a": [1, 2]}))
    r.put("x", np.arange(3))
    share = ferry.share(b"abc")
    r.put("y", share)
    refusal(ValueError, lambda: share.descriptor)
    assert list(r) == ["scores/1", "x", "y"] and len(r) == 3
    assert other(f"c = ferry.find('results', 'scores/1', directory={names!r}); print(type(c).__name__, len(c))") == "Column 2"
    assert other(f"print(np.asarray(ferry.find('results', 'x', directory={names!r})).tolist())") == "[0, 1, 2]"
    assert other(f"print(ferry.find('results', 'z', directory={names!r}))") == "None"
    r.put("x", np.arange(2))
    assert ferry.find("results", "x", directory=names).shape == (2,)
    assert r.drop("x") is True and r.drop("x") is False and ferry.find("results", "x", directory=names) is None
    large = ferry.share(np.zeros(1 << 20, "u1"))
    refusal(ValueError, r.put, "large", large)
    assert large.descriptor  # not taken
    refusal(ValueError, r.put, "a!", b"a")
    refusal(TypeError, r.put, "a", None)
    refusal(OSError, ferry.Registry, "results", directory=names)
    del r
    gc.collect()
    assert ferry.find("results", "y", directory=names) is None
    refusal(TypeError, ferry.Registry, "r", most_bytes=-1, directory=names)


# Column


def test_a_column():
    pa = pytest.importorskip("pyarrow")
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("d", pa.dictionary(pa.int8(), pa.string()))], metadata={"k": "v"})
    c = ferry.Column.from_arrow(pa.table([[1, 2, 3], ["x", None, "x"]], schema=schema))
    a, d = c.children
    assert (c.type, c.name, c.length, len(c), c.offset, c.null_count, c.device) == ("+s", "", 3, 3, 0, 0, (1, 0)) and c.metadata == {b"k": b"v"}
    assert (a.type, a.name, a.nullable, a.dictionary) == ("l", "a", False, None) and d.type == "c" and d.null_count == 1 and len(d.dictionary) == 1
    assert (c[1:].offset, c[1:].length, c[-1:].length, c[5:].length) == (1, 2, 1, 0)
    refusal(TypeError, c.__getitem__, 0)
    refusal(ValueError, c.__getitem__, slice(None, None, 2))
    assert c.validate() is None and c.validate(full=True) is None and c.to("cpu").length == 3
    refusal(BufferError, c.to, "cuda")
    refusal(TypeError, ferry.Column.from_arrow, 3)
    assert np.from_dlpack(a).tolist() == [1, 2, 3] and memoryview(ferry.from_dlpack(a)[::-1]).tolist() == [3, 2, 1]
    refusal(BufferError, d.__dlpack__)
    assert repr(a) == "<ferry.Column 'a' type='l' length=3 offset=0>"
    bad = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 9, 3], "i4")), pa.py_buffer(b"abc"))
    refusal(ValueError, ferry.Column.from_arrow(bad).validate, full=True)


def test_lists_are_no_frames_and_no_entries(names):
    shares = [ferry.share([np.zeros(3)]) for _ in range(2)]
    with pytest.raises(ValueError, match="share and publish each value by itself"):
        ferry.Publisher("p", shares, directory=names)
    r = ferry.Registry("r", directory=names)
    for x in (shares[0], [np.zeros(3), np.ones(2)]):
        with pytest.raises(ValueError, match="share and publish each value by itself"):
            r.put("l", x)
    assert len(r) == 0 and ferry.attach(shares[0].descriptor)[0].size == 3


def test_names_that_no_reader_can_use(names):
    for directory in ("", "x\0y", b"x\0y"):
        with pytest.raises(ValueError):
            ferry.Subscriber("s", directory=directory)
    with pytest.raises(ValueError, match="has a name"):
        ferry.Publisher("", slots(), directory=names)
    odd = os.fsencode(names) + b"/\xff"
    p, s = ferry.Publisher("p", slots(), directory=odd), ferry.Subscriber("p", directory=os.fsdecode(odd))
    with p.begin(timeout=HANGS) as slot:
        slot.tensor.fill(3)
    assert np.asarray(s.next(HANGS).value)[0] == 3


def test_objects_without_init_are_refused():
    class Derived(ferry.Publisher):
        def __init__(self):
            pass

    for use in (lambda: Derived().begin(), lambda: ferry.Publisher.begin(42), lambda: ferry.Slot.__enter__(42),
                lambda: ferry.Publisher.__new__(ferry.Publisher).begin(), lambda: ferry.Slot.__new__(ferry.Slot).__enter__()):  # fmt: skip
        with pytest.raises(TypeError):
            use()


# Threads


def test_threads_use_one_share_publisher_subscriber_and_registry(names):
    s, r = ferry.share(np.ones(3)), ferry.Registry("r", directory=names)
    camera, sub = ferry.Publisher("p", slots(12), directory=names), ferry.Subscriber("p", directory=names)
    seen, lock = [], threading.Lock()

    def work(i):
        for n in range(40):
            assert ferry.attach(s.descriptor).size == 3 and s.json() and s.wait_for_readers(0) in (True, False)
            r.put(f"e{i}", np.full(3, n))
            assert memoryview(ferry.find("r", f"e{i}", directory=names)).tolist() == [n] * 3 and f"e{i}" in list(r)
            try:
                with camera.begin(timeout=HANGS) as slot:
                    slot.tensor.fill(n)
            except ValueError:
                pass  # another thread writes a slot
            try:
                f = sub.next(0.01)
                with lock:
                    seen.append(f.generation)
            except TimeoutError:
                pass

    in_threads(work)
    assert len(seen) == len(set(seen)) and len(r) == 8 and camera.generation >= max(seen)


def test_no_thread_writes_a_slot_that_another_one_publishes(names):
    camera = ferry.Publisher("p", slots(4, 1 << 15), directory=names)
    sub, ended = ferry.Subscriber("p", directory=names), threading.Event()
    interval = sys.getswitchinterval()

    def write(i):
        n = 0
        while not ended.is_set():
            try:
                with camera.begin(timeout=HANGS) as slot:
                    slot.tensor.fill(n := n + i)
            except ValueError:
                time.sleep(0)  # another thread writes a slot

    threads = [threading.Thread(target=write, args=(i,)) for i in range(1, 4)]
    try:
        sys.setswitchinterval(1e-6)
        for t in threads:
            t.start()
        for _ in range(2000):
            frame = np.asarray(sub.next(HANGS).value)
            before = frame.copy()
            time.sleep(0.0002)
            assert (frame == before).all() and (before == before[0]).all()
    finally:
        ended.set()
        sys.setswitchinterval(interval)
        for t in threads:
            t.join()


def test_one_of_several_threads_takes_a_share(names):
    for n in range(20):
        s, got = ferry.share(np.ones(3)), []
        rs = [ferry.Registry(f"r{n}-{i}", directory=names) for i in range(4)]

        def work(i, s=s, got=got, rs=rs):
            try:
                rs[i].put("x", s)
                got.append(i)
            except ValueError:
                pass

        in_threads(work, 4)
        assert len(got) == 1 and ferry.find(f"r{n}-{got[0]}", "x", directory=names).size == 3


