"""Frozen memory, which is sent with its file descriptor, and the warning about a name that cannot be removed."""

import os
import signal
import socket

import pyarrow as pa
import pytest
import skip
from other_process import Process, elsewhere

import minitensor as mt

VALUES = [[0, 1, 2], [3, 4, 5]]
RECEIVE = """
import socket
with socket.socket(fileno=int(sys.stdin.readline())) as s:
    descriptor, files, _, _ = socket.recv_fds(s, 65536, 8)
x = mt.ipc_attach(descriptor, files=files)
"""


def receives(code, shared):
    """Returns what a process prints that gets a share over a Unix socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        other = Process(RECEIVE + code, pass_fds=[theirs.fileno()])
        socket.send_fds(ours, [shared.descriptor], shared.files)
        other.tell(str(theirs.fileno()))
        heard = other.hear()
        other.end()
    return heard


def test_frozen_memory_is_a_sealed_copy_that_another_process_attaches_by_its_file():
    """`ipc_share(x, freeze=True)` copies x; `Shared.files` and the descriptor are all that an importer needs, and it sees `sealed`."""
    x = mt.asarray(VALUES)
    s = mt.ipc_share(x, freeze=True)
    assert s.copied and s.tensor.readonly and s.tensor.sealed and not x.sealed and not x.readonly
    assert len(s.files) == 1
    x.fill(9)
    assert receives("print(x.tolist(), x.sealed, x.readonly, x[1].sealed)", s) == f"{VALUES} True True True"
    assert s.tensor.tolist() == VALUES


@pytest.mark.parametrize("process", ["exporter", "importer"])
def test_a_write_to_frozen_memory_faults_in_every_process(process):
    """Frozen memory cannot be written by any process, not even by its exporter."""
    attached = "x = mt.ipc_attach(s.descriptor, files=s.files) if os.fork() == 0 else sys.exit(os.waitstatus_to_exitcode(os.wait()[1]) + 11)"
    writer = Process(f"""
import ctypes
s = mt.ipc_share(mt.arange(3), freeze=True)
{"x = s.tensor" if process == "exporter" else attached}
try:
    x.fill(1)
except ValueError:
    ctypes.memset(x.data_ptr, 1, 1)
""")
    writer.end(-signal.SIGSEGV if process == "exporter" else 0)


def test_a_frozen_column_is_sealed_with_its_children():
    """`Column.sealed`: all buffers are frozen."""
    c = mt.Column.from_arrow(pa.array([{"a": 1, "b": "text"}, None, {"a": None, "b": "more"}]))
    named, s = mt.ipc_share(c), mt.ipc_share(c, freeze=True)
    assert not c.sealed and not named.tensor.sealed and not mt.ipc_attach(named.descriptor).sealed and s.tensor.sealed
    assert len(s.files) == 1 and named.files == []
    heard = receives("x.validate(full=True)\nprint(x.sealed, [child.sealed for child in x.children], x[1:].sealed, x.null_count)", s)
    assert heard == "True [True, True] True 1"


def test_memory_that_is_not_frozen_is_not_sealed():
    """`sealed` is about memory that no process can write; a read-only share is not enough."""
    s = mt.ipc_share(mt.asarray(VALUES).as_readonly())
    assert s.files == [] and not s.tensor.sealed
    assert elsewhere("print(mt.ipc_attach(read()).sealed)", s.descriptor.hex()) == "False"
    assert not mt.asarray(VALUES).sealed and not mt.Column.from_arrow(pa.nulls(3)).sealed


def test_frozen_memory_is_shared_again_in_place_and_attached_here_without_a_file():
    """An attached tensor may be shared again; this process attaches its own share as an alias."""
    s = mt.ipc_share(mt.asarray(VALUES), freeze=True)
    for again in (mt.ipc_share(s.tensor[1]), mt.ipc_share(s.tensor[1], freeze=True)):
        assert not again.copied
        assert receives("print(x.tolist(), x.sealed)", again) == "[3, 4, 5] True"
    assert mt.ipc_attach(s.descriptor).data_ptr == s.tensor.data_ptr
    assert receives("y = mt.ipc_share(x)\nprint(y.copied, y.tensor.sealed, len(y.files))", s) == "False True 1"


def test_frozen_memory_cannot_be_attached_without_its_file_or_after_close():
    """Importers of frozen memory need its file descriptor; `close()` refuses new attaches."""
    attempt = "try:\n    mt.ipc_attach(read())\nexcept OSError as e:\n    print(type(e).__name__)"
    with mt.ipc_share(mt.asarray(VALUES), freeze=True) as s:
        assert elsewhere(attempt, s.descriptor.hex()) == "PermissionError"
        descriptor, files = s.descriptor, [os.dup(f) for f in s.files]
    with pytest.raises(OSError):
        mt.ipc_attach(descriptor, files=files)
    for f in files:
        os.close(f)


@pytest.mark.skipif(skip.lacks_other_users(), reason="this process cannot become another user")
@pytest.mark.parametrize("action", ["always", "error"])
@pytest.mark.parametrize("how", ["s.close()", "with s: pass"])
def test_a_process_that_dropped_its_privileges_is_warned_that_the_name_stays(action, how):
    """`close()` issues a ResourceWarning if the name remains in /dev/shm; the next exporter removes it."""
    other = Process(f"""
import warnings
s = mt.ipc_share(mt.arange(3))
print(s.descriptor.hex(), flush=True)
os.seteuid(65534)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("{action}", ResourceWarning)
    try:
        {how}
    except ResourceWarning as e:
        print("raised", e)
    else:
        print(caught[0].category.__name__, caught[0].message)
s.close()
""")
    descriptor = bytes.fromhex(other.hear())
    expected = "the name stays in /dev/shm: this process may no longer remove it"
    assert other.hear() == ("ResourceWarning " if action == "always" else "raised ") + expected
    other.end()
    with pytest.raises(OSError):
        mt.ipc_attach(descriptor)
    names = [name for name in os.listdir("/dev/shm") if f"-{other.pid}-" in name]
    assert len(names) == 1
    elsewhere("s = mt.ipc_share(mt.arange(3))\nprint(1)")
    assert not set(names) & set(os.listdir("/dev/shm"))
