"""CUDA tensors between processes: minitensor's functions, readers without ferry, and handles of other libraries."""

import ctypes
import json
import os
import pathlib
import subprocess
import sys
import time

import pyarrow
import pytest
from gates import cp, np
from layouts import LAYOUTS
from other_process import HANGS, Process, elsewhere

import minitensor as mt

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "interop"))
from arrow_forge import Forged, Node, Tree, struct  # noqa: E402

READER = ROOT / "examples" / "ipc" / "reader.py"
COLUMN_READER = READER.with_name("column_reader.py")
PROGRAM = ROOT / "build" / "gpu" / "tests" / "gpu"  # `gpu --look` prints the floats behind a handle
VALUES = [[10 * y + x for x in range(6)] for y in range(4)]
WITH_EMPTY = {**LAYOUTS, "empty": lambda t: t[:0]}


@pytest.mark.parametrize("layout", WITH_EMPTY)
@pytest.mark.parametrize("dtype", ["int32", "float16", "complex64"])
def test_layouts_arrive_without_a_copy_and_what_the_reader_writes_is_seen(layout, dtype):
    with mt.ipc_share(mt.asarray(VALUES, dtype, "cuda")) as whole:
        view = WITH_EMPTY[layout](whole.tensor)
        with mt.ipc_share(view) as shared:
            assert not shared.copied and shared.tensor is view
            heard = elsewhere(
                "t = mt.ipc_attach(read())\nseen = json.dumps([str(t.tolist()), list(t.shape), t.dtype, t.device])\nt.fill(7)\nmt.synchronize()\nprint(seen)",
                shared.descriptor.hex())
            values, shape, named, device = json.loads(heard)
            expected = WITH_EMPTY[layout](mt.asarray(VALUES, dtype))
            assert (values, shape, named, device) == (str(expected.tolist()), list(expected.shape), dtype, [2, 0])
            expected.fill(7)
            assert view.tolist() == expected.tolist()


def test_stream_ordered_memory_is_copied_once_and_from_then_on_shared_in_place():
    x = mt.asarray(VALUES, "float32", "cuda")
    with mt.ipc_share(x) as first, mt.ipc_share(first.tensor) as second:
        assert first.copied and first.tensor.data_ptr != x.data_ptr and not second.copied
        for shared in (first, second):
            assert elsewhere("print(mt.ipc_attach(read()).tolist())", shared.descriptor.hex()) == str(mt.asarray(VALUES, "float32").tolist())


def test_an_attached_tensor_is_used_by_cupy_and_may_be_shared_again():
    with mt.ipc_share(mt.arange(100, "float32", "cuda")) as shared:
        code = """import cupy
t = mt.ipc_attach(read())
x = cupy.from_dlpack(t)
assert x.data.ptr == t.data_ptr
x += 1
cupy.cuda.get_current_stream().synchronize()
print(float(x.sum()))"""
        assert elsewhere(code, shared.descriptor.hex()) == "5050.0"
        assert shared.tensor.tolist() == [float(i + 1) for i in range(100)]


@pytest.mark.parametrize("has_column", [False, True])
def test_a_list_of_tensors_on_the_gpu_and_the_host_is_one_descriptor(has_column):
    dtypes = ["float32", "uint8", "int64"]
    items = [mt.arange(i % 90 + 1, dtypes[i % 3], "cuda" if i % 4 else "cpu") for i in range(40)]
    if has_column:
        items.append(mt.Column.from_arrow(pyarrow.array([1, None, 3], pyarrow.int32())))
    with mt.ipc_share(items) as first:
        assert first.copied
        with mt.ipc_share(first.tensor) as second:
            assert not second.copied
            code = """import pyarrow
items = mt.ipc_attach(read())
seen = [x.tolist() if type(x) is mt.Tensor else pyarrow.array(x).to_pylist() for x in items]
places = [[x.device[0], x.dtype] for x in items[:40]]
for x in items[:40]: x.fill(7)
mt.synchronize()
print(json.dumps([seen, places]))"""
            places = [[2 if i % 4 else 1, dtypes[i % 3]] for i in range(40)]
            column = [[1, None, 3]] * has_column
            assert json.loads(elsewhere(code, first.descriptor.hex())) == [[list(range(i % 90 + 1)) for i in range(40)] + column, places]
            assert json.loads(elsewhere(code, second.descriptor.hex())) == [[[7] * (i % 90 + 1) for i in range(40)] + column, places]


def test_what_is_closed_is_there_for_nobody_and_stays_for_who_has_it():
    shared = mt.ipc_share(mt.arange(5, "int64", "cuda"))
    reader = Process("""t = mt.ipc_attach(d := read())
print("attached", flush=True)
sys.stdin.readline()
try:
    mt.ipc_attach(d)
    print("again")
except OSError:
    print(t.tolist())""")
    reader.tell(shared.descriptor.hex())
    assert reader.hear() == "attached"
    shared.close()
    shared.close()
    reader.tell()
    assert reader.hear() == "[0, 1, 2, 3, 4]"
    reader.end()
    with pytest.raises(OSError):
        mt.ipc_attach(shared.descriptor)


def test_a_killed_reader_keeps_nothing_and_the_next_one_attaches():
    before = mt.live_bytes()
    with mt.ipc_share(mt.zeros((1 << 20,), "uint8", "cuda")) as shared:
        for _ in range(3):
            reader = Process("t = mt.ipc_attach(read())\nprint('attached', flush=True)\nsys.stdin.readline()")
            reader.tell(shared.descriptor.hex())
            assert reader.hear() == "attached"
            reader.kill()
        assert elsewhere("print(mt.ipc_attach(read()).shape)", shared.descriptor.hex()) == "(1048576,)"
    end = time.monotonic() + HANGS
    while mt.live_bytes() != before:
        assert time.monotonic() < end, "waited for the memory of a killed reader's share"
        time.sleep(0.001)


def test_a_killed_exporter_is_an_error_for_the_next_and_what_was_attached_can_be_dropped():
    exporter = Process("s = mt.ipc_share(mt.arange(5, 'int64', 'cuda'))\nprint(s.descriptor.hex(), flush=True)\nsys.stdin.readline()")
    descriptor = bytes.fromhex(exporter.hear())
    attached = mt.ipc_attach(descriptor)
    assert attached.tolist() == [0, 1, 2, 3, 4]
    exporter.kill()
    del attached
    with pytest.raises(OSError):
        mt.ipc_attach(descriptor)


@pytest.mark.alone
def test_many_rounds_leave_no_file_no_mapping_no_memory_and_no_thread():
    """What is taken of the device is everybody's: nothing else may use it meanwhile."""
    rounds = int(os.environ.get("FERRY_IPC_ROUNDS", "100000"))
    code = f"""d = read()
def taken():
    import ctypes
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert ctypes.CDLL("libcudart.so.13").cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)) == 0
    return len(os.listdir("/proc/self/fd")), len(open("/proc/self/maps").readlines()), total.value - free.value, len(os.listdir("/proc/self/task"))
for i in range({rounds}):
    t = mt.ipc_attach(d)
    t = None
    if i == {rounds // 10}: first = taken()
last = taken()
print(json.dumps([first, last, mt.ipc_attach(d).tolist()]))"""
    with mt.ipc_share(mt.arange(3, "int32", "cuda")) as shared:
        first, last, values = json.loads(elsewhere(code, shared.descriptor.hex()))
    assert values == [0, 1, 2]
    assert first[0] == last[0] and last[1] <= first[1] + 8 and last[2] <= first[2] + (8 << 20) and first[3] == last[3]


def test_other_devices_are_refused_or_used():
    with mt.ipc_share(mt.arange(5, "int32", "cuda")) as shared:
        assert elsewhere("try:\n    mt.ipc_attach(read(), device='cuda:99')\nexcept ValueError as e:\n    print('refused')", shared.descriptor.hex()) == "refused"
        if mt.device_count() > 1:
            code = "t = mt.ipc_attach(read(), device='cuda:1')\nprint(t.device, t.tolist())"
            assert elsewhere(code, shared.descriptor.hex()) == "(2, 1) [0, 1, 2, 3, 4]"


@pytest.mark.alone
def test_a_gpu_is_found_by_its_uuid_where_it_has_another_number():
    if mt.device_count() < 2 or "CUDA_VISIBLE_DEVICES" in os.environ:
        pytest.skip("needs two GPUs under their usual numbers")
    code = """try:
    t = mt.ipc_attach(read())
    print(t.device, t.tolist())
except ValueError as e:
    print("CUDA_VISIBLE_DEVICES" in str(e))"""
    with mt.ipc_share(mt.arange(5, "int32", "cuda")) as shared:
        for visible, expected in {"1,0": "(2, 1) [0, 1, 2, 3, 4]", "1": "True"}.items():
            reader = Process(code, env={**os.environ, "CUDA_VISIBLE_DEVICES": visible})
            reader.tell(shared.descriptor.hex())
            assert reader.hear() == expected
            reader.end()


EXPANDABLE = """import torch
x = torch.arange(1 << 24, dtype=torch.int32, device="cuda")  # 64 MiB: several chunks
torch.cuda.synchronize()
segments = torch.cuda.memory_snapshot()
assert any(s.get("is_expandable") for s in segments), segments
part = mt.from_dlpack(x[5:-7])
kept = mt.ipc_share(part)
print(json.dumps([kept.descriptor.hex(), kept.copied, kept.tensor.data_ptr == part.data_ptr]), flush=True)
for device in range(mt.device_count()):
    t = mt.from_dlpack(x[5:-7], device=f"cuda:{device}")
    print(json.dumps([t.device, t[0].item(), t[(1 << 24) - 13].item()]), flush=True)
sys.stdin.readline()"""


def test_expandable_segments_of_torch_are_copied_once_and_attached_on_every_gpu():
    """Memory of several chunks that has no handle."""
    pytest.importorskip("torch")
    option = {name: "expandable_segments:True" for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")}
    exporter = Process(EXPANDABLE, env={**os.environ, **option})
    descriptor, was_copied, is_in_place = json.loads(exporter.hear())
    assert was_copied and not is_in_place
    for device in range(mt.device_count()):
        assert json.loads(exporter.hear()) == [[2, device], 5, (1 << 24) - 8]
        x = cp.from_dlpack(mt.ipc_attach(bytes.fromhex(descriptor), device=f"cuda:{device}"))
        with cp.cuda.Device(device):
            assert x.size == (1 << 24) - 12 and bool((x == cp.arange(5, (1 << 24) - 7, dtype="int32")).all())
        del x
    exporter.tell()
    exporter.end()


# Readers that know nothing of ferry


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sixty_lines_of_python_read_and_write_from_the_json_alone(layout):
    with mt.ipc_share(mt.asarray(VALUES, "float64", "cuda")) as whole, mt.ipc_share(LAYOUTS[layout](whole.tensor)) as shared:
        before = shared.tensor.tolist()
        done = subprocess.run([sys.executable, READER, "5"], input=shared.json(), capture_output=True, text=True, timeout=HANGS, env=with_runtime())
        assert done.returncode == 0, done.stderr
        assert eval(done.stdout) == before
        expected = np.asarray(before) + 5
        assert shared.tensor.tolist() == expected.tolist()


@pytest.mark.parametrize("begin", [0, 1, 2, 3])
def test_sixty_lines_of_python_read_a_table_from_the_json_alone(begin):
    text = Node(b"u", 3, (None, np.array([0, 1, 3, 6], "i4").tobytes(), b"abbccc"), name=b"text")
    numbers = Node(b"l", 3, (b"\5", np.array([2**62, 0, -1], "i8").tobytes()), name=b"numbers")
    inner = Node(b"+s", 3, (b"\6",), (Node(b"g", 3, (None, np.array([0.5, 1.5, 2.5]).tobytes()), name=b"half"),), name=b"inner")
    rows = [
        {"text": "a", "numbers": 2**62, "inner": None},
        {"text": "bb", "numbers": None, "inner": {"half": 1.5}},
        {"text": "ccc", "numbers": -1, "inner": {"half": 2.5}},
    ]
    table = mt.Column.from_arrow(Forged(Tree(struct(text, numbers, inner)))).to("cuda")
    with mt.ipc_share(table) as whole, mt.ipc_share(whole.tensor[begin:]) as shared:
        assert not shared.copied
        done = subprocess.run([sys.executable, COLUMN_READER], input=shared.json(), capture_output=True, text=True, timeout=HANGS, env=with_runtime())
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == rows[begin:]


def with_runtime():
    """libcudart.so.13 where the loader finds it, as this process has it."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        found = next((line.split()[-1] for line in maps if "libcudart.so" in line), None)
    folders = [os.path.dirname(found)] if found else []
    folders += ["/usr/local/cuda/lib64", *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(folders)}


JSON = """d = json.loads(sys.stdin.readline())
m, t = d["memories"][0], d["tensor"]
handle, begin, size = bytes.fromhex(m["handle"]), int(m["offset"]) + int(t["byte_offset"]), int(m["allocation"])
shape = tuple(int(n) for n in t["shape"])
"""
OPENERS = {
    "cupy": JSON + """import cupy
base = cupy.cuda.runtime.ipcOpenMemHandle(handle)
memory = cupy.cuda.UnownedMemory(base, size, None)
x = cupy.ndarray(shape, cupy.float32, cupy.cuda.MemoryPointer(memory, begin))
x += 1
cupy.cuda.get_current_stream().synchronize()
print(x.tolist())
cupy.cuda.runtime.ipcCloseMemHandle(base)""",
    "numba": JSON + """import numpy
from cuda.bindings import driver
from numba import cuda
h = driver.CUipcMemHandle()
h.reserved = handle
owner = cuda.current_context().open_ipc_handle(h, size)
memory = owner.own()
x = cuda.cudadrv.devicearray.DeviceNDArray(shape, (4,), numpy.dtype("float32"), gpu_data=memory.view(begin))
x.copy_to_device(x.copy_to_host() + 1)
cuda.synchronize()
print(x.copy_to_host().tolist())""",
    "cuda.core": JSON + """import numpy
from cuda.bindings import runtime
from cuda.core import Buffer, Device
Device(0).set_current()
h = runtime.cudaIpcMemHandle_t()
h.reserved = handle
status, base = runtime.cudaIpcOpenMemHandle(h, 1)
assert status == 0, status
buffer = Buffer.from_handle(int(base) + begin, 4 * shape[0])
host = mt.from_dlpack(buffer).copy("cpu")
more = numpy.frombuffer(bytes(x & 255 for x in host.tolist()), numpy.float32) + 1
assert runtime.cudaMemcpy(int(base) + begin, more.ctypes.data, more.nbytes, runtime.cudaMemcpyKind.cudaMemcpyHostToDevice)[0] == 0
print(more.tolist())""",
}


@pytest.mark.parametrize("library", OPENERS)
def test_other_libraries_open_what_ferry_shares(library):
    pytest.importorskip(library)
    with mt.ipc_share(mt.arange(10, "float32", "cuda")) as whole, mt.ipc_share(whole.tensor[3:8]) as shared:
        heard = elsewhere(OPENERS[library], json.dumps(json.loads(shared.json())))
        assert json.loads(heard) == [4, 5, 6, 7, 8]
        assert whole.tensor.tolist() == [0, 1, 2, 4, 5, 6, 7, 8, 8, 9]


def looked_at(handle, offset, count, *pool, files=()):
    if not PROGRAM.exists():
        pytest.skip("build/gpu/tests/gpu is not built")
    done = subprocess.run([PROGRAM, "--look", handle.hex(), str(offset), str(count), *map(str, pool)], capture_output=True, text=True, timeout=HANGS, pass_fds=files)
    assert done.returncode == 0, done.stderr
    return [float(x) for x in done.stdout.split()]


def base_of(pointer):
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    assert ctypes.CDLL("libcuda.so.1").cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(pointer)) == 0
    return base.value


def test_ferry_opens_a_handle_of_cupy():
    x = cp.arange(100, dtype="float32")
    cp.cuda.get_current_stream().synchronize()
    part = x[10:]
    handle = cp.cuda.runtime.ipcGetMemHandle(part.data.ptr)
    assert looked_at(handle, part.data.ptr - base_of(part.data.ptr), 90) == list(range(10, 100))


def test_ferry_opens_a_handle_of_numba():
    cuda = pytest.importorskip("numba.cuda")
    x = cuda.to_device(np.arange(100, dtype="float32"))[10:]
    shared = cuda.current_context().get_ipc_handle(x.gpu_data)
    handle = shared.handle
    handle = bytes(handle.reserved) if hasattr(handle, "reserved") else bytes(handle)
    assert looked_at(handle, x.device_ctypes_pointer.value - base_of(x.device_ctypes_pointer.value), 90) == list(range(10, 100))


def test_ferry_opens_a_buffer_of_a_pool_of_cuda_core():
    core = pytest.importorskip("cuda.core")
    device = core.Device(0)
    device.set_current()
    memory = core.DeviceMemoryResource(device, options=core.DeviceMemoryResourceOptions(max_size=2 << 20, ipc_enabled=True))
    stream = device.create_stream()
    buffer = memory.allocate(400, stream=stream)
    stream.sync()
    cp.ndarray(100, "float32", cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(int(buffer.handle), 400, buffer), 0))[:] = cp.arange(100)
    cp.cuda.get_current_stream().synchronize()
    payload, _ = buffer.ipc_descriptor.__reduce__()[1]  # what it would pickle: the pointer's export, and the size
    file = int(memory.allocation_handle)
    os.set_inheritable(file, True)
    assert looked_at(payload[:64], 40, 90, file, files=(file,)) == list(range(10, 100))
