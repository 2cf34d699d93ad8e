"""minitensor on a GPU: kinds of memory, values, streams, and their order."""

import pathlib
import subprocess
import sys
import threading
import time

import pytest
from gates import Gate, own_stream

import minitensor as mt

DEVICES = ["cuda", "cuda_host", "cuda_managed"]
TYPE = {"cuda": 2, "cuda_host": 3, "cuda_managed": 13}
DTYPES = ["bool", "int8", "uint16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128", "float8_e4m3fn"]
PACKED = ["float4_e2m1fn", "float6_e2m3fn"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES + PACKED)
def test_values(device, dtype):
    n = 2 if dtype == "bool" else 5
    t = mt.arange(n, dtype, device)
    assert t.device == (TYPE[device], 0) and t.tolist() == mt.arange(n, dtype).tolist()
    z = mt.zeros((3, 7), dtype, device)
    assert z.tolist() == mt.zeros((3, 7), dtype).tolist()
    z.fill(1)
    assert z.tolist() == [[1] * 7] * 3
    assert t.copy("cpu").copy(device).copy().tolist() == t.tolist()
    assert mt.asarray([1, 0, 1], dtype, device).tolist() == [1, 0, 1] and mt.empty(0, dtype, device).tolist() == []


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["int8", "float32", "complex128"])
@pytest.mark.parametrize("view", [lambda t: t.T, lambda t: t[::2, 1::3], lambda t: t[::-1, ::-2], lambda t: t[1:, 2:], lambda t: t[:1].broadcast_to((3, 6)), lambda t: t[1, 2]])
def test_views_are_copied_between_all_kinds_of_memory(device, dtype, view):
    host = mt.asarray([[6 * i + j for j in range(6)] for i in range(4)], dtype)
    t = view(host.copy(device))
    expected = view(host).tolist()
    assert t.tolist() == expected
    for to in (*DEVICES, "cpu"):
        assert t.copy(to).tolist() == expected and t.copy(to).device[0] == {**TYPE, "cpu": 1}[to]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("view", [lambda t: t.T, lambda t: t[::2, 1::3], lambda t: t[::-1, ::-2], lambda t: t[1:, 2:]])
def test_fill_writes_the_view_and_nothing_else(device, view):
    host, t = mt.zeros((4, 6), "int32"), mt.zeros((4, 6), "int32", device)
    view(host).fill(7)
    view(t).fill(7)
    assert t.tolist() == host.tolist()
    with pytest.raises(ValueError):
        t.as_readonly().fill(1)


def test_scalars_and_text():
    t = mt.arange(3, "float32", "cuda")
    assert t[2].item() == 2.0 and "cuda:0" in repr(t) and "0.0" in repr(mt.arange(3, "float32", "cuda_managed"))
    assert mt.asarray(t).tolist() == [0, 1, 2] and mt.asarray(t, "int8").device == (1, 0)


def test_devices_that_are_not_there():
    for make in (lambda: mt.empty(3, device="cuda:99"), lambda: mt.zeros(3).copy((2, 99)), lambda: mt.synchronize("cuda:99")):
        with pytest.raises(BufferError, match="CUDA"):
            make()


def test_R44_streams_by_any_name():
    s = own_stream()
    assert mt.current_stream() == 1

    class Protocol:
        def __cuda_stream__(self):
            return (0, s.ptr)

    class Torch:
        cuda_stream = s.ptr

    for name in (s, s.ptr, Protocol(), Torch()):
        with mt.stream(name):
            assert mt.current_stream() == mt.current_stream("cuda") == s.ptr
            with mt.stream(2):
                assert mt.current_stream() == 2
            seen = []
            other = threading.Thread(target=lambda: seen.append(mt.current_stream()))
            other.start(), other.join()
            assert seen == [1] and mt.current_stream() == s.ptr
    assert mt.current_stream() == 1
    for bad in (0, -1, True, "x", object()):
        with pytest.raises(ValueError):
            mt.stream(bad)


@pytest.mark.parametrize("device", ["cuda", "cuda_managed"])
def test_device_work_is_queued(device):
    s = own_stream()
    with Gate(s.ptr) as gate, mt.stream(s):
        t = mt.arange(1000, "int64", device)
        assert gate.is_closed, "arange"
        u = t.copy("cuda")
        assert gate.is_closed, "copy"
        z = mt.zeros((30, 40), "float32", device)
        assert gate.is_closed, "zeros"
        z.fill(2.5)
        assert gate.is_closed, "fill"
        z.T[::2].fill(3)
        assert gate.is_closed, "strided fill"
        p = u.copy("cuda_host")
        assert gate.is_closed, "copy to pinned memory"
        gate.open()
        assert u.tolist() == p.tolist() == list(range(1000)) and z.tolist()[0][:2] == [3, 2.5]


@pytest.mark.parametrize("read", [lambda t: t.tolist(), lambda t: t.copy("cpu").tolist(), lambda t: mt.asarray(t).tolist(), lambda t: mt.from_dlpack(t, device="cpu").tolist()])
@pytest.mark.parametrize("device", DEVICES)
def test_R48_what_the_host_reads_is_finished_and_others_run_meanwhile(read, device):
    s = own_stream()
    with mt.stream(s):
        source, t = mt.arange(100000, "int64", "cuda"), mt.zeros(100000, "int64", "cuda")
    mt.synchronize()
    with Gate(s.ptr) as gate, mt.stream(s):
        t = source.copy(device) if device != "cuda_managed" else source.copy("cuda").copy("cuda_managed")
        assert gate.is_closed
        gate.open_soon()
        began = time.monotonic()
        assert read(t)[-3:] == [99997, 99998, 99999]
        assert 0.1 < time.monotonic() - began < 10


def test_another_stream_waits_for_the_last_one():
    a, b = own_stream(), own_stream()
    with mt.stream(a):
        t = mt.zeros(1000, "int32", "cuda")
    mt.synchronize()
    with Gate(a.ptr) as gate:
        with mt.stream(a):
            t.fill(7)
        with mt.stream(b):
            u = t.copy()
        assert gate.is_closed and not b.done
        gate.open()
        assert u.tolist() == [7] * 1000


def test_memory_is_released_after_its_last_use():
    s = own_stream()
    before = mt.live_bytes()
    with Gate(s.ptr) as gate, mt.stream(s):
        u = mt.arange(1 << 20, "int32", "cuda").copy()
        others = [mt.zeros(1 << 20, "int32", "cuda") for _ in range(4)]
        with mt.stream(own_stream()):
            for _ in range(4):
                mt.empty(1 << 20, "int32", "cuda").fill(-1)
        assert gate.is_closed
        gate.open()
        assert u[-3:].tolist() == [(1 << 20) - 3, (1 << 20) - 2, (1 << 20) - 1] and others[3][5].item() == 0
    del u, others
    mt.synchronize()
    assert mt.live_bytes() == before


def test_the_results_of_the_tour_are_those_of_the_page():
    """examples/minitensor/tour.py, with its part of a GPU."""
    tour = pathlib.Path(__file__).resolve().parents[2] / "examples" / "minitensor" / "tour.py"
    done = subprocess.run([sys.executable, str(tour)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
