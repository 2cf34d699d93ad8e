"""Real libraries on the GPU, as producers and consumers: values, layouts, copies, devices, and streams blocked by gates."""

import gc
import time

import pytest
from gates import Gate, cp, np, own_stream
from libraries import EVERY, LAYOUTS, VALUES, library, made, those_that  # noqa: F401: library is a fixture

import minitensor as mt

torch = pytest.importorskip("torch")
STANDARD = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "complex64", "complex128"]
SEVENS = [[7] * 6] * 4


@EVERY
@pytest.mark.parametrize("dtype", STANDARD)
def test_dtypes_both_ways(library, dtype):
    x = library.make(dtype)
    expected = mt.asarray(np.asarray(VALUES).astype(dtype)).tolist()
    t = mt.from_dlpack(x)
    assert (t.dtype, t.device, t.data_ptr, t.copied) == (dtype, (2, 0), library.pointer(x), False) and t.tolist() == expected
    assert t.readonly == library.is_immutable
    back = library.take(t)
    assert (library.pointer(back) != library.pointer(x)) == library.is_immutable and library.values(back) == expected
    ours = mt.asarray(expected, dtype, "cuda")
    there = library.take(ours)
    assert library.pointer(there) == ours.data_ptr and library.values(there) == expected


@those_that(lambda kind: kind.small_floats)
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_small_floats_both_ways(library, dtype):
    if dtype not in library.small_floats:
        pytest.skip(f"{library.name} has no {dtype}")
    ours = mt.asarray(VALUES[0], dtype, "cuda")
    ours.__dlpack__(stream=1, max_version=(1, 1))
    try:
        x = library.make(dtype)
        there = library.take(ours)
        x.__dlpack__(stream=1)
    except (BufferError, TypeError, ValueError, RuntimeError) as e:
        pytest.skip(f"{library.name} does not exchange {dtype}: {type(e).__name__}: {e}")
    assert library.pointer(there) == ours.data_ptr and library.values(there) == ours.tolist()
    t = mt.from_dlpack(x)
    assert (t.dtype, t.data_ptr) == (dtype, library.pointer(x)) and t.tolist() == mt.asarray(VALUES, dtype).tolist()


@EVERY
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("how", [{}, {"copy": True}, {"copy": False}, {"device": "cpu"}, {"device": "cuda_host"}, {"device": "cuda_managed", "copy": True}], ids=str)
def test_imports(library, layout, how):
    if layout in library.no_views:
        pytest.skip(f"{library.name} has no {layout} views")
    x = library.view(layout)
    if library.name == "cupy" and layout == "reversed":
        # CuPy 14 divides a negative stride in bytes by the itemsize as if both were unsigned: what it exports reaches out of memory.
        with pytest.raises(BufferError, match="exceeds 63 bits"):
            mt.from_dlpack(x, **how)
        return
    expected = LAYOUTS[layout](np.asarray(VALUES, "float32")).tolist()
    t = mt.from_dlpack(x, **how)
    moved = bool(how.get("copy")) or "device" in how
    assert t.tolist() == expected and t.shape == tuple(x.shape) and t.copied == moved
    assert t.device[0] == {"cpu": 1, "cuda_host": 3, "cuda_managed": 13}.get(how.get("device"), 2)
    if t.size:
        assert (t.data_ptr != library.pointer(x)) == moved


@EVERY
@pytest.mark.parametrize("layout", LAYOUTS)
def test_exports(library, layout):
    t = LAYOUTS[layout](mt.asarray(VALUES, "float32", "cuda"))
    expected = LAYOUTS[layout](np.asarray(VALUES, "float32")).tolist()
    if layout in library.refuses:
        if library.name == "torch":
            pytest.skip("torch has no negative strides, and some versions abort")
        with pytest.raises(Exception):  # noqa: B017: each has an error of its own
            library.take(t)
        gc.collect()
        assert t.tolist() == expected
        return
    x = library.take(t)
    assert library.values(x) == expected
    if t.size:
        assert library.pointer(x) == t.data_ptr
    del t
    gc.collect()
    assert library.values(x) == expected


@those_that(lambda kind: kind.copies)
def test_R53_a_copy_that_goes_out_is_its_own(library):
    t = mt.asarray(VALUES, "float32", "cuda")
    x = library.copies(t)
    assert library.pointer(x) != t.data_ptr
    t.fill(9)
    mt.synchronize()
    assert library.values(x) == VALUES


@those_that(lambda kind: kind.host)
def test_R55_what_a_library_takes_to_the_host(library):
    ours = own_stream()
    with mt.stream(ours):
        t = mt.asarray(VALUES, "float32", "cuda")
        t.fill(7)
        x = library.host(t)
    assert np.asarray(x).tolist() == SEVENS


@EVERY
def test_R54_copy_false_to_the_host_is_refused(library):
    with pytest.raises(BufferError if library.name == "torch" else (BufferError, ValueError)):
        mt.from_dlpack(library.make(), device="cpu", copy=False)


@EVERY
@pytest.mark.parametrize("how", [{}, {"copy": True}], ids=str)
def test_R43_an_import_waits_on_the_stream_and_not_on_the_host(library, how):
    theirs = library.stream()
    ours = own_stream() if library.orders else theirs
    with library.on(theirs):
        x = library.filled(library.make(), 1)
        with mt.stream(ours):
            mt.from_dlpack(x, **how).copy().tolist()
    theirs.synchronize()
    with Gate(theirs.ptr) as gate:
        with library.on(theirs):
            x = library.filled(x, 7)
            assert gate.is_closed, "the library's own work waited"
            with mt.stream(ours):
                t = mt.from_dlpack(x, **how)
                u = t.copy()
        assert gate.is_closed and not ours.done
        gate.open()
        assert u.tolist() == SEVENS


@EVERY
def test_R48_an_import_to_the_host_is_finished_and_others_run_meanwhile(library):
    theirs = library.stream()
    with library.on(theirs), mt.stream(theirs):
        x = library.filled(library.make(), 1)
        mt.from_dlpack(x).copy().copy("cpu")
    theirs.synchronize()
    with Gate(theirs.ptr) as gate:
        with library.on(theirs), mt.stream(theirs):
            x = library.filled(x, 7)
            t = mt.from_dlpack(x)  # ready on the closed stream
        assert gate.is_closed
        gate.open_soon()
        began = time.monotonic()
        assert mt.from_dlpack(t, device="cpu").tolist() == SEVENS
        assert 0.1 < time.monotonic() - began < 10


@those_that(lambda kind: kind.orders)
def test_R48_straight_to_the_host_is_finished_and_others_run_meanwhile(library):
    theirs = library.stream()
    with library.on(theirs):
        x = library.filled(library.make(), 1)
        mt.from_dlpack(x, device="cpu")
    theirs.synchronize()
    with Gate(theirs.ptr) as gate:
        with library.on(theirs):
            x = library.filled(x, 7)
            assert gate.is_closed
            gate.open_soon()
            began = time.monotonic()
            assert mt.from_dlpack(x, device="cpu").tolist() == SEVENS
        assert 0.1 < time.monotonic() - began < 10


@EVERY
def test_R43_an_export_waits_on_the_stream_and_not_on_the_host(library):
    theirs, ours = library.stream(), own_stream()
    t = mt.zeros((4, 6), "float32", "cuda")
    with mt.stream(ours):
        t.fill(1)
    with library.on(theirs):
        library.values(library.plus_one(library.take(t)))
    mt.synchronize()
    with Gate(ours.ptr) as gate:
        with mt.stream(ours):
            t.fill(7)
        with library.on(theirs):
            x = library.take(t)
            assert gate.is_closed
            y = library.plus_one(x)
        assert gate.is_closed and library.is_pending(y, theirs)
        assert library.has_current_stream or int(x.stream) == ours.ptr
        gate.open()
        assert library.values(y) == [[8] * 6] * 4


def test_R48_an_export_to_the_host_is_finished_and_others_run_meanwhile():
    ours = own_stream()
    with mt.stream(ours):
        t = mt.zeros((4, 6), "float32", "cuda")
        np.from_dlpack(t, device="cpu")
    with Gate(ours.ptr) as gate:
        with mt.stream(ours):
            t.fill(7)
        assert gate.is_closed
        gate.open_soon()
        began = time.monotonic()
        assert np.from_dlpack(t, device="cpu").tolist() == SEVENS
        assert 0.1 < time.monotonic() - began < 10


@those_that(lambda kind: kind.name in ("cupy", "torch"))  # which reuse an address as soon as it is free
def test_R50_an_owner_is_kept_until_queued_work_is_done(library):
    ours = own_stream()
    with Gate(ours.ptr) as gate:
        with mt.stream(ours):
            x = library.make()
            address = library.pointer(x)
            u = mt.from_dlpack(x).copy()
            del x
            gc.collect()
            fresh = [library.make() for _ in range(20)]
        assert gate.is_closed and address not in [library.pointer(f) for f in fresh]
        gate.open()
        assert u.tolist() == VALUES
    del fresh


@EVERY
def test_R11_what_a_library_makes_of_read_only(library):
    t = mt.asarray(VALUES, "float32", "cuda").as_readonly()
    if hasattr(t, "__cuda_array_interface__"):
        assert t.__cuda_array_interface__["data"] == (t.data_ptr, True)
    x = library.take(t)
    did = "flagged" if library.is_read_only(x) else "ignored" if library.pointer(x) == t.data_ptr else "copied"
    assert did == library.read_only
    if did == "flagged":
        assert mt.from_dlpack(x).readonly and mt.from_dlpack(x).data_ptr == t.data_ptr
    gc.collect()
    assert t.tolist() == VALUES


@those_that(lambda kind: kind.is_immutable or kind.read_only == "flagged")
@pytest.mark.parametrize("how", [{}, {"copy": True}], ids=str)
def test_R11_read_only_arrays_come_in_read_only(library, how):
    x = library.make() if library.is_immutable else library.make(is_readonly=True)
    t = mt.from_dlpack(x, **how)
    assert t.readonly == (not how)
    if how:
        t.fill(1)
    else:
        with pytest.raises(ValueError):
            t.fill(1)
    mt.synchronize()
    assert library.values(x) == VALUES


def test_R11_read_only_survives():
    t = mt.asarray(VALUES, "float32", "cuda").as_readonly()
    u = mt.from_dlpack(t)
    assert u.readonly and u.data_ptr == t.data_ptr and not mt.from_dlpack(t, copy=True).readonly
    with pytest.raises(ValueError):
        u.fill(1)


def test_R57_legacy_capsules():
    t = mt.asarray(VALUES, "float32", "cuda")
    x = torch.utils.dlpack.from_dlpack(t.__dlpack__())
    assert x.data_ptr() == t.data_ptr and x.cpu().tolist() == VALUES
    u = mt.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    assert u.data_ptr == t.data_ptr and u.tolist() == VALUES


@pytest.mark.parametrize("stream", [0, -2, "x", 1.5])
def test_R44_streams_that_are_none(stream):
    with pytest.raises(ValueError):
        mt.zeros(3, device="cuda").__dlpack__(stream=stream)


def test_R44_R48_streams_of_the_target():
    t = mt.zeros(3, device="cuda")
    own = own_stream()
    for stream in (None, -1, 1, 2, own.ptr):
        mt.from_dlpack(t.__dlpack__(stream=stream, max_version=(1, 0)))
    with pytest.raises(ValueError):
        t.__dlpack__(stream=1, dl_device=(1, 0))


@pytest.mark.parametrize("device", ["cuda_host", "cuda_managed"])
def test_R39_what_the_host_reads_goes_to_numpy_as_it_is(device):
    t = mt.asarray(VALUES, "float32", device)
    x = np.from_dlpack(t)
    assert x.ctypes.data == t.data_ptr and x.tolist() == VALUES


def test_R39_managed_memory_as_cuda():
    t = mt.asarray(VALUES, "float32", "cuda_managed")
    u = mt.from_dlpack(t, device="cuda", copy=False)
    assert u.device == (2, 0) and u.data_ptr == t.data_ptr and u.tolist() == VALUES


def test_R35_pinned_memory_of_torch():
    x = torch.tensor(VALUES).pin_memory()
    assert mt.from_dlpack(x).tolist() == mt.from_dlpack(x, copy=True).tolist() == VALUES


def test_managed_memory_of_cupy():
    with cp.cuda.using_allocator(cp.cuda.malloc_managed):
        x = cp.asarray(np.asarray(VALUES, "float32"))
    t = mt.from_dlpack(x)
    assert t.device[0] in (2, 13) and t.tolist() == VALUES
    del x, t


def test_R42_a_tensor_of_another_device():
    if mt.device_count() < 2:
        pytest.skip("one GPU")
    with torch.cuda.device(1):
        x = torch.tensor(VALUES, device="cuda:1")
    for how in ({}, {"copy": True}, {"device": "cpu"}, {"device": "cuda:0"}):
        assert mt.from_dlpack(x, **how).tolist() == VALUES and torch.cuda.current_device() == 0


def test_cuda_core_streams_are_streams():
    """Those of Device().create_stream, as minitensor takes the streams of others."""
    core = made("cuda.core")
    s = core.stream()
    with core.on(s), mt.stream(core.own):
        assert mt.current_stream() == s.ptr
