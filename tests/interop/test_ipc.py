"""Tensors of minitensor shared between processes that exchange only the descriptor: each docstring states the behaviour."""

import gc
import glob
import json
import os
import re
import signal
import struct
import threading

import pytest
from other_process import Process, elsewhere

import minitensor as mt

VALUES = [[0, 1, 2], [3, 4, 5]]


def segments(pid=None):
    """The names in /dev/shm of this process's shares, or of another's."""
    return glob.glob(f"/dev/shm/ferry-{os.getuid()}-*-{pid or os.getpid()}-*")


@pytest.fixture(autouse=True)
def no_segment_is_left_behind():
    before = set(segments())
    yield
    gc.collect()
    assert set(segments()) <= before



LOOK = "t = mt.ipc_attach(read())\nprint(json.dumps([t.tolist(), list(t.shape), t.readonly, t.dtype, t.copied]))"


def looked_at(descriptor):
    return json.loads(elsewhere(LOOK, descriptor.hex()))


def crc32c(data):
    """Castagnoli's, which zlib does not have."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


# The face


def test_shared_has_descriptor_json_tensor_copied_close_and_is_a_context_manager():
    """`Shared`: `.descriptor` (bytes), `.json()` (str), `.tensor`, `.copied`, `.close()`, context manager."""
    t = mt.asarray(VALUES)
    with mt.ipc_share(t) as s:
        assert isinstance(s, mt.Shared)
        assert type(s.descriptor) is bytes and type(s.json()) is str
        assert type(s.tensor) is mt.Tensor and s.copied is True
        assert s.tensor is s.tensor
        descriptor = s.descriptor
        assert mt.ipc_attach(descriptor).tolist() == VALUES
    with pytest.raises(OSError):
        mt.ipc_attach(descriptor)


def test_an_argument_that_is_not_a_tensor_is_a_type_error():
    """`mt.ipc_share(x) -> Shared` for a Tensor, a Column or a list of them"""
    for x in (None, 1, [1, 2], [mt.arange(3), 1], b"123"):
        with pytest.raises(TypeError):
            mt.ipc_share(x)
    for x in (None, 1, [1, 2]):
        with pytest.raises(TypeError):
            mt.ipc_attach(x)


def test_a_list_is_one_descriptor_and_one_mapping():
    """200 tensors of mixed dtypes: one segment; `shared.tensor` and what is attached are lists"""
    dtypes = ["float32", "uint8", "int64", "float64"]
    weights = [mt.arange(i % 90 + 1, dtypes[i % 4]) for i in range(200)]
    with mt.ipc_share(weights) as s:
        assert s.copied and len(s.tensor) == 200 and len(segments()) == 1
        reader = Process("""
all = mt.ipc_attach(read())
print([t.tolist() == list(range(i % 90 + 1)) for i, t in enumerate(all)] == [True] * 200, {t.dtype for t in all}.__len__(), flush=True)
all[3].fill(5)
print(1, flush=True)
sys.stdin.readline()
""")
        reader.tell(s.descriptor.hex())
        assert reader.hear() == "True 4"
        assert reader.hear() == "1"
        assert s.tensor[3].tolist() == [5] * 4 and s.tensor[4].tolist() == list(range(5))
        reader.tell()
        reader.end()
        again = mt.ipc_share(s.tensor[10:20])
        assert not again.copied and [t.tolist() for t in mt.ipc_attach(again.descriptor)] == [t.tolist() for t in s.tensor[10:20]]
    with mt.ipc_share(()) as none:
        assert mt.ipc_attach(none.descriptor) == none.tensor == []


def test_the_tensor_is_x_itself_or_a_copy_of_x():
    """`shared.tensor` is x itself when its storage is shared already (`copied` False), else a copy of this moment (True)."""
    x = mt.asarray(VALUES)
    s = mt.ipc_share(x)
    assert s.copied and s.tensor is not x and s.tensor.data_ptr != x.data_ptr
    x.fill(9)
    assert s.tensor.tolist() == VALUES
    again = mt.ipc_share(s.tensor)
    assert not again.copied and again.tensor is s.tensor
    part = s.tensor[1, ::-1]
    sliced = mt.ipc_share(part)
    assert not sliced.copied and sliced.tensor is part
    s.tensor.fill(7)
    assert looked_at(sliced.descriptor)[0] == [7, 7, 7] == looked_at(again.descriptor)[0][0]


# What each call promises


def test_close_refuses_new_attaches_immediately_in_every_process():
    """`close()` ends new attaches at once, in every process ... importers keep valid data until they drop it. Twice is fine."""
    s = mt.ipc_share(mt.asarray(VALUES))
    reader = Process("""
t = mt.ipc_attach(d := read())
print("attached", flush=True)
sys.stdin.readline()
try:
    mt.ipc_attach(d)
    print("again")
except OSError:
    print(t.tolist())
""")
    reader.tell(s.descriptor.hex())
    assert reader.hear() == "attached"
    mine, descriptor = mt.ipc_attach(s.descriptor), s.descriptor
    s.close()
    s.close()
    reader.tell()
    assert reader.hear() == str(VALUES)
    reader.end()
    assert mine.tolist() == s.tensor.tolist() == VALUES
    with pytest.raises(OSError):
        mt.ipc_attach(descriptor)
    assert not segments()


@pytest.mark.parametrize("what", ["stopped", "killed"])
def test_close_returns_for_any_state_of_the_importer(what):
    """... and returns within 2 s whatever the other side does: it waits for nothing that a stopped process would have to do"""
    exporter = Process("s = mt.ipc_share(mt.arange(3))\nprint(s.descriptor.hex(), flush=True)\nsys.stdin.readline()\ns.close()\nprint('closed', flush=True)")
    reader = Process("t = mt.ipc_attach(read())\nprint(1, flush=True)\nsys.stdin.readline()")
    reader.tell(exporter.hear())
    reader.hear()
    if what == "stopped":
        reader.stop()
    else:
        reader.kill()
    exporter.tell()
    assert exporter.hear() == "closed"
    exporter.end()
    if what == "stopped":
        reader.kill()


def test_deleting_a_shared_closes_it():
    """Dropping a Shared closes it."""
    s = mt.ipc_share(mt.asarray(VALUES))
    descriptor, t = s.descriptor, s.tensor
    del s
    gc.collect()
    with pytest.raises(OSError):
        mt.ipc_attach(descriptor)
    assert t.tolist() == VALUES and not segments()


def test_the_next_exporter_removes_the_segments_of_a_killed_one():
    """What a killed exporter left behind is gone at the latest when the next exporter of that user starts."""
    exporter = Process("s = mt.ipc_share(mt.arange(3))\nprint(s.descriptor.hex(), flush=True)\nsys.stdin.readline()")
    descriptor = bytes.fromhex(exporter.hear())
    t = mt.ipc_attach(descriptor)
    exporter.kill()
    with pytest.raises(OSError):
        mt.ipc_attach(descriptor)
    assert t.tolist() == [0, 1, 2]
    assert segments(exporter.pid)
    elsewhere("s = mt.ipc_share(mt.arange(3))\nprint(1)")
    assert not segments(exporter.pid)
    assert t.tolist() == [0, 1, 2]


def test_a_process_that_ends_leaves_no_segment():
    """Dropping a Shared closes it: so does the end of the process, whatever still refers to it."""
    exporter = Process("keep = [s := mt.ipc_share(mt.arange(3))]\nkeep.append(keep)\nprint(1, flush=True)\nsys.stdin.readline()")
    exporter.hear()
    assert len(segments(exporter.pid)) == 1
    exporter.tell()
    exporter.end()
    assert not segments(exporter.pid)


@pytest.mark.parametrize("how", ["os._exit(0)", "sys.exit(0)", "s.close(); os._exit(0)", "del s; gc.collect(); os._exit(0)"])
def test_a_forked_child_never_removes_the_shares_of_its_parent(how):
    """The child of a fork never removes its parent's shares."""
    exporter = Process(f"""
import gc
s = mt.ipc_share(mt.arange(3))
d = s.descriptor
if os.fork() == 0:
    {how}
os.wait()
print(d.hex(), flush=True)
sys.stdin.readline()
""")
    descriptor = bytes.fromhex(exporter.hear())
    assert mt.ipc_attach(descriptor).tolist() == [0, 1, 2]
    assert len(segments(exporter.pid)) == 1
    exporter.tell()
    exporter.end()


def test_a_forked_child_can_share_and_attach():
    """The child of a fork never removes its parent's shares."""
    heard = elsewhere("""
s = mt.ipc_share(mt.arange(3))
t = mt.ipc_attach(s.descriptor)
if os.fork() == 0:
    mine = mt.ipc_share(mt.arange(4))
    theirs = mt.ipc_attach(s.descriptor)
    theirs.fill(8)
    good = mt.ipc_attach(mine.descriptor).tolist() == [0, 1, 2, 3]
    mine.close()
    os._exit(good)
print(os.wait()[1] >> 8, t.tolist(), mt.ipc_attach(s.descriptor).tolist())
""")
    assert heard == "1 [8, 8, 8] [8, 8, 8]"


def test_an_attached_tensor_may_be_shared_again():
    """An attached tensor may be shared again."""
    first = mt.ipc_share(mt.asarray(VALUES))
    middle = Process("""
t = mt.ipc_attach(read())
s = mt.ipc_share(t[1])
print(s.descriptor.hex(), s.copied, s.tensor.shape, flush=True)
sys.stdin.readline()
""")
    middle.tell(first.descriptor.hex())
    descriptor, copied, shape = middle.hear().split(" ", 2)
    assert (copied, shape) == ("False", "(3,)")
    t = mt.ipc_attach(bytes.fromhex(descriptor))
    assert t.tolist() == [3, 4, 5]
    first.tensor.fill(6)
    first.close()
    assert mt.ipc_attach(bytes.fromhex(descriptor)).tolist() == [6, 6, 6]
    middle.tell()
    middle.end()
    with pytest.raises(OSError):
        mt.ipc_attach(bytes.fromhex(descriptor))
    assert t.tolist() == [6, 6, 6]


def test_an_unrelated_process_attaches_host_memory():
    """Host memory attaches from `.descriptor` alone in an unrelated process of the same user (mode 0600)"""
    s = mt.ipc_share(mt.asarray(VALUES))
    assert looked_at(s.descriptor)[0] == VALUES
    assert [os.stat(path).st_mode & 0o7777 for path in segments()] == [0o600]


def test_writes_are_seen_on_both_sides():
    """... a copy of this moment, and from then on one memory"""
    s = mt.ipc_share(mt.asarray(VALUES))
    assert elsewhere("t = mt.ipc_attach(read())\nt[0].fill(8)\nprint(1)", s.descriptor.hex()) == "1"
    assert s.tensor.tolist() == [[8, 8, 8], [3, 4, 5]]


def test_read_only_memory_is_mapped_without_write_access():
    """read-only is mapped PROT_READ there"""
    s = mt.ipc_share(mt.asarray(VALUES).as_readonly())
    assert s.tensor.readonly
    assert looked_at(s.descriptor)[2] is True
    writer = Process("""
import ctypes
t = mt.ipc_attach(read())
try:
    t.fill(1)
except ValueError:
    ctypes.memset(t.data_ptr, 1, 1)
""")
    writer.tell(s.descriptor.hex())
    writer.end(-signal.SIGSEGV)
    assert s.tensor.tolist() == VALUES


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t, lambda t: t[1], lambda t: t[:, ::2], lambda t: t[::-1, ::-1], lambda t: t.T, lambda t: t[0, 1], lambda t: t[:0],
        lambda t: t[0].broadcast_to((4, 3)), lambda t: t.as_readonly(),
    ],
    ids=["whole", "row", "strided", "reversed", "transposed", "rank 0", "empty", "broadcast", "read-only"],
)  # fmt: skip
@pytest.mark.parametrize("already", [False, True], ids=["ordinary memory", "shared already"])
def test_shape_values_and_read_only_are_kept(view, already):
    """Shape, values and read-only are kept; a broadcast stays readable."""
    base = mt.asarray(VALUES)
    keep = mt.ipc_share(base)
    t = view(keep.tensor if already else base)
    s = mt.ipc_share(t)
    assert s.copied is (not already and t.size != 0)
    assert looked_at(s.descriptor) == [t.tolist(), list(t.shape), t.readonly, t.dtype, False]
    assert s.tensor.tolist() == t.tolist() and s.tensor.shape == t.shape and s.tensor.readonly == t.readonly


@pytest.mark.parametrize("dtype", ["bool", "uint64", "float16", "bfloat16", "complex128", "float8_e4m3fn", "float6_e2m3fn", "float4_e2m1fn"])
def test_every_dtype_can_be_shared(dtype):
    """Shape, values and read-only are kept"""
    t = mt.asarray([0, 1, 1, 0], dtype)
    s = mt.ipc_share(t)
    a = mt.ipc_attach(s.descriptor)
    heard = elsewhere("t = mt.ipc_attach(read())\nprint(t.tolist(), t.dtype)", s.descriptor.hex())
    assert a.tolist() == t.tolist() and heard == f"{t.tolist()} {dtype}"


def test_this_process_attaches_its_own_share_as_an_alias():
    """`mt.ipc_attach` returns the same kind: here the same memory"""
    s = mt.ipc_share(mt.asarray(VALUES))
    t = mt.ipc_attach(s.descriptor)
    assert t.data_ptr == s.tensor.data_ptr and not t.copied
    del s
    assert t.tolist() == VALUES


# The descriptor


def test_the_descriptor_ends_in_crc_32c():
    """The descriptor ends in CRC-32C, little-endian, over all bytes before it"""
    s = mt.ipc_share(mt.asarray(VALUES))
    assert crc32c(b"123456789") == 0xE3069283
    assert struct.unpack("<I", s.descriptor[-4:])[0] == crc32c(s.descriptor[:-4])
    for at in range(len(s.descriptor)):
        broken = bytearray(s.descriptor)
        broken[at] ^= 1
        with pytest.raises(ValueError):
            mt.ipc_attach(bytes(broken))
    for length in range(len(s.descriptor)):
        with pytest.raises(ValueError):
            mt.ipc_attach(s.descriptor[:length])
    with pytest.raises(ValueError):
        mt.ipc_attach(s.descriptor + b"\0")


def test_errors_have_different_types():
    """a bad descriptor is ValueError; an exporter that is gone OSError; an unknown device ValueError; CUDA without a driver
    BufferError"""
    s = mt.ipc_share(mt.asarray(VALUES))
    assert mt.ipc_attach(s.descriptor, "cpu").tolist() == mt.ipc_attach(s.descriptor, device=(1, 0)).tolist() == VALUES
    for device in ("gpu", "cuda:x", (99, 0)):
        with pytest.raises((ValueError, BufferError)):
            mt.ipc_attach(s.descriptor, device)
    with pytest.raises(ValueError):
        mt.ipc_attach(s.descriptor, "nonsense")
    with pytest.raises(ValueError):
        mt.ipc_attach(b"nonsense")
    with pytest.raises(ValueError if mt.cuda_available() else BufferError):
        mt.ipc_attach(s.descriptor, "cuda")
    s.close()
    with pytest.raises(OSError):
        mt.ipc_attach(s.descriptor)


# Together


def test_threads_share_attach_and_close_concurrently():
    """Shares and attaches of many threads do not meet."""
    errors = []

    def work(n):
        try:
            for i in range(50):
                with mt.ipc_share(mt.arange(100 + n)) as s:
                    assert mt.ipc_attach(s.descriptor).tolist()[-1] == 99 + n
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def files_and_mappings():
    """Those that ferry makes: segments, folders of processes in /proc, and file descriptors that are a process."""
    made = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            what = os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:  # that of the list itself
            continue
        made += what.startswith(("/dev/shm/ferry-", "/dev/shm/#", "/memfd:ferry-", "anon_inode:[pidfd]", "pidfd:")) or re.match(r"/proc/\d+/", what) is not None
    return made, len(re.findall("/dev/shm/(?:ferry-|#)", open("/proc/self/maps").read()))


def test_repeated_shares_leave_no_file_and_no_mapping():
    """No file descriptor and no mapping is leaked over rounds of share, attach and close."""
    exporter = Process("s = mt.ipc_share(mt.arange(3))\nprint(s.descriptor.hex(), flush=True)\nsys.stdin.readline()")
    descriptor = bytes.fromhex(exporter.hear())
    mt.ipc_attach(descriptor)
    before = files_and_mappings()
    for _ in range(20_000):
        mt.ipc_attach(descriptor)
    assert files_and_mappings() == before
    for _ in range(2_000):
        with mt.ipc_share(mt.arange(3)) as s:
            mt.ipc_attach(s.descriptor)
    del s
    assert files_and_mappings() == before
    exporter.tell()
    exporter.end()


@pytest.mark.parametrize("after", [0, 1, 10, 100])
def test_a_share_stays_usable_after_an_importer_is_killed_while_it_attaches(after):
    """The exporter goes on, whatever happens to an importer: one that never stops attaching is killed after so many times."""
    with mt.ipc_share(mt.asarray(VALUES)) as s:
        for _ in range(3):
            reader = Process(f"d = read()\nfor _ in range({after}):\n    mt.ipc_attach(d)\nprint(1, flush=True)\nwhile True:\n    mt.ipc_attach(d)")
            reader.tell(s.descriptor.hex())
            reader.hear()
            reader.kill()
            assert looked_at(s.descriptor)[0] == VALUES
