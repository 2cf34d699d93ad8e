"""The Python interface of minitensor: each docstring states the behaviour that the test checks."""

import ctypes
import inspect
import subprocess
import sys

import pytest
from forge import IS_COPIED, LEGACY, READ_ONLY, VERSIONED, Forged, Producer, look, name_of

import minitensor as mt

VALUES = [[0, 1, 2], [3, 4, 5]]
OURS = (1, 3)
NAMES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "bfloat16",
    "complex64", "complex128", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn",
]  # fmt: skip
VIEWS = {
    "index": lambda t: t[1], "slice": lambda t: t[:, ::-1], "ellipsis": lambda t: t[..., 1], "T": lambda t: t.T,
    "transpose": lambda t: t.transpose(1, 0), "broadcast_to": lambda t: t.broadcast_to((4, 2, 3)), "as_readonly": lambda t: t.as_readonly(),
}  # fmt: skip


def tensor(dtype="int32"):
    return mt.asarray(VALUES, dtype)


def both(error):
    return isinstance(error, BufferError) and isinstance(error, ValueError)


# The face


def test_from_dlpack_takes_x_by_position_and_device_and_copy_by_keyword():
    """mt.from_dlpack(x, /, *, device=None, copy=None)"""
    parameters = inspect.signature(mt.from_dlpack).parameters.values()
    assert [(p.name, p.kind.name, p.default) for p in parameters] == [
        ("x", "POSITIONAL_ONLY", inspect.Parameter.empty), ("device", "KEYWORD_ONLY", None), ("copy", "KEYWORD_ONLY", None),
    ]  # fmt: skip


def test_from_dlpack_takes_an_object_or_a_raw_capsule():
    """x: object with __dlpack__, or a raw capsule"""
    t = tensor()
    for x in (t, t.__dlpack__(), t.__dlpack__(max_version=OURS), Producer(t.__dlpack__)):
        assert mt.from_dlpack(x).data_ptr == t.data_ptr


def test_asarray_takes_lists_scalars_and_buffers_and_always_copies():
    """nested lists, scalars, or the buffer protocol; always copies"""
    assert mt.asarray([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert mt.asarray(2.5).item() == 2.5 and mt.asarray(1, dtype="uint8", device="cpu").dtype == "uint8"
    memory = bytearray(b"\1\2\3")
    t = mt.asarray(memory)
    memory[0] = 9
    assert t.tolist() == [1, 2, 3] and not t.copied and not t.readonly
    assert mt.asarray(t).data_ptr != t.data_ptr


def test_empty_zeros_and_arange():
    """mt.empty(shape, dtype="float32", device="cpu");  mt.zeros(…);  mt.arange(n, dtype="int64", device="cpu")"""
    assert (mt.empty((2, 3)).dtype, mt.zeros((2, 3)).dtype, mt.arange(3).dtype) == ("float32", "float32", "int64")
    assert mt.zeros((2, 3), "int8", "cpu").tolist() == [[0] * 3] * 2 and mt.arange(3, "float64", (1, 0)).tolist() == [0, 1, 2]
    assert mt.empty((2, 3), dtype="int8", device="cpu").shape == (2, 3)


def test_live_bytes_shows_leaks():
    """bytes of storage alive, to see leaks"""
    before = mt.live_bytes()
    t = mt.empty(100, "uint8")
    capsule = t.__dlpack__()
    assert mt.live_bytes() == before + 100
    del t
    assert mt.live_bytes() == before + 100
    del capsule
    assert mt.live_bytes() == before


def test_attributes_describe_the_tensor():
    """t.shape, t.strides (tuples; strides in elements), t.ndim, t.size, t.nbytes, t.dtype, t.device, t.data_ptr, …"""
    t = tensor("int16")[:, ::2]
    assert (t.shape, t.strides, t.ndim, t.size, t.nbytes, t.dtype, t.device) == ((2, 2), (3, 2), 2, 4, 8, "int16", (1, 0))
    assert type(t.shape) is type(t.strides) is tuple and (t.readonly, t.copied) == (False, False)
    for name in ("shape", "strides", "ndim", "size", "nbytes", "dtype", "device", "data_ptr", "readonly", "copied"):
        with pytest.raises(AttributeError):
            setattr(t, name, None)


@pytest.mark.parametrize("view", VIEWS)
def test_indexing_and_other_view_functions_return_views_of_the_same_storage(view):
    """ints, slices of any step, Ellipsis: views on the same storage … t.T, t.transpose(*axes), …: views"""
    live = mt.live_bytes()
    t = tensor()
    v = VIEWS[view](t)
    assert mt.live_bytes() == live + 24 and not v.copied
    t.fill(7)
    flat = v.tolist()
    while isinstance(flat[0], list):
        flat = sum(flat, [])
    assert set(flat) == {7}
    del t
    assert mt.live_bytes() == live + 24


def test_packed_views_start_at_byte_boundaries_only():
    """packed sub-byte: only at byte boundaries"""
    t = mt.asarray([0, 1, 2, 3, 4, 6], "float4_e2m1fn")
    assert t[2:].tolist() == [2, 3, 4, 6]
    with pytest.raises(ValueError):
        t[1:]


def test_copy_fill_tolist_item_and_repr():
    """t.copy(device=None), t.fill(value), t.tolist(), t.item(), repr(t)"""
    t = tensor()
    c = t.T.copy()
    assert c.strides == (2, 1) and c.tolist() == [[0, 3], [1, 4], [2, 5]] and not c.copied
    assert t.copy(device="cpu").tolist() == VALUES and t.copy((1, 0)).data_ptr != t.data_ptr
    t.fill(1)
    assert t[0, 0].item() == 1 and "int32" in repr(t)


@pytest.mark.parametrize("device", ["cpu", (1, 0), mt.zeros(0), Producer(None)], ids=["name", "pair", "tensor", "object"])
def test_the_device_argument(device):
    """"cpu", "cuda", "cuda:1", …, a (type, id) pair, or anything with __dlpack_device__"""
    for t in (mt.zeros(2, device=device), mt.asarray([1], device=device), tensor().copy(device), mt.from_dlpack(tensor(), device=device)):
        assert t.device == (1, 0)


def test_the_device_attribute_is_a_pair_of_plain_ints():
    """The attribute is the (type, id) pair of plain ints."""
    pair = mt.from_dlpack(Forged(device=(3, 5)).capsule()).device
    assert pair == (3, 0) and type(pair) is tuple and {type(n) for n in pair} == {int}


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "cuda_host", "cuda_managed", (2, 0), (13, 0)])
def test_cuda_without_a_driver_is_a_buffer_error_with_the_reason(device):
    """asking for CUDA there is a BufferError that says so"""
    if getattr(mt, "cuda_available", bool)():
        pytest.skip("there is a driver")
    for ask in (lambda: mt.empty(3, device=device), lambda: tensor().copy(device), lambda: mt.from_dlpack(tensor(), device=device)):
        with pytest.raises(BufferError, match="(?i)cuda"):
            ask()


@pytest.mark.parametrize("dtype", NAMES)
def test_the_dtypes(dtype):
    """the DLPack/NumPy names as str … Packed sub-byte types report their true nbytes. tolist() decodes every one of them"""
    values = [1, 2, 4, 1, 2] if dtype == "float8_e8m0fnu" else [0, 1, 0, 1, 1]
    t = mt.asarray(values, dtype)
    bits = {"bool": 8, "bfloat16": 16}.get(dtype) or int(dtype.split("_")[0].lstrip("abcdefghijklmnopqrstuvwxyz"))
    assert t.dtype == dtype and type(t.dtype) is str
    assert t.nbytes == -(-5 * bits // 8)
    assert t.tolist() == values and type(t.tolist()[0]) in (bool, int, float, complex)
    for copy in (None, True):
        assert mt.from_dlpack(t, copy=copy).tolist() == values and mt.from_dlpack(t, copy=copy).dtype == dtype


def test_data_ptr_is_the_address_of_element_0():
    """the address of element 0 (an int; 0 when the tensor is empty)"""
    t = tensor()
    assert type(t.data_ptr) is int
    assert ctypes.c_int32.from_address(t[1, 2].data_ptr).value == 5 and t[::-1].data_ptr == t[1].data_ptr
    assert t[:0].data_ptr == mt.empty(0).data_ptr == mt.from_dlpack(t[:0]).data_ptr == 0


def test_a_readonly_tensor_cannot_be_written():
    """no writing through it; fill raises ValueError"""
    t = tensor().as_readonly()
    assert t.readonly
    for view in (t, t[0], t.T):
        with pytest.raises(ValueError):
            view.fill(1)
    assert t.tolist() == VALUES


def test_copied_is_true_only_for_imports_that_copied():
    """the import that made this Tensor copied (IS_COPIED received, or copied by minitensor); False for everything else"""
    t = tensor()
    received = mt.from_dlpack(Forged(flags=IS_COPIED).capsule())
    made = mt.from_dlpack(t, copy=True)
    assert received.copied and made.copied and mt.from_dlpack(Forged().capsule(), copy=True).copied
    others = [t, t.copy(), mt.asarray(t), mt.from_dlpack(t), received[0], made.T, made.as_readonly(), made.copy(), mt.from_dlpack(made)]
    assert not any(o.copied for o in others)


# Export


def test_R4_the_version_of_an_export():
    """major 1; never above what was asked unless the data needs it; a request above ours gets ours"""
    for asked, stamped in (((1, 0), (1, 0)), ((1, 2), (1, 2)), ((1, 3), OURS), ((1, 9), OURS), ((2, 0), OURS), ((7, 7), OURS)):
        assert look(tensor().__dlpack__(max_version=asked)).version == stamped
    assert look(mt.zeros(2, "float8_e5m2").__dlpack__(max_version=(1, 0))).version == (1, 1)


def test_R57_none_or_a_major_below_1_gets_the_legacy_struct():
    """None, or a major below 1, gets the legacy struct"""
    for asked in (None, (0, 8), (0, 0), (-1, 5)):
        assert name_of(tensor().__dlpack__(max_version=asked)) == LEGACY
    assert name_of(tensor().__dlpack__(max_version=(1, 0))) == VERSIONED


@pytest.mark.parametrize("view", VIEWS)
def test_R23_R24_an_export_describes_the_first_element_and_all_strides(view):
    """data is the first element, byte_offset 0, strides never NULL for ndim > 0"""
    t = VIEWS[view](tensor())
    seen = look(t.__dlpack__(max_version=(1, 0)))
    assert (seen.data, seen.byte_offset, seen.strides) == (t.data_ptr, 0, t.strides)


def test_R26_R35_empty_exports_have_no_data_and_host_kinds_have_id_0():
    """NULL data for size 0, CPU and host-accessible kinds with id 0"""
    assert look(tensor()[:, :0].__dlpack__(max_version=OURS)).data == 0
    for kind in (1, 3, 13):
        t = mt.from_dlpack(Forged(device=(kind, 4)).capsule())
        assert look(t.__dlpack__(max_version=OURS, stream=-1)).device == t.__dlpack_device__() == (kind, 0)


def test_R11_read_only_is_flagged_and_survives_re_export():
    """Read-only is flagged, and survives re-export"""
    t = mt.from_dlpack(mt.from_dlpack(tensor().as_readonly()).__dlpack__(max_version=OURS))
    assert look(t.__dlpack__(max_version=OURS)).flags == READ_ONLY


def test_R15_a_legacy_export_of_read_only_data_copies_or_fails():
    """a legacy export of read-only data copies for copy=None, and is an error for copy=False"""
    t = tensor().as_readonly()
    assert look(t.__dlpack__()).data not in (0, t.data_ptr)
    with pytest.raises(BufferError) as caught:
        t.__dlpack__(copy=False)
    assert both(caught.value)


@pytest.mark.parametrize("view", VIEWS)
def test_R12_copy_true_always_returns_new_memory(view):
    """copy=True always gives fresh memory, IS_COPIED, not read-only"""
    t = VIEWS[view](tensor())
    one, two = look(a := t.__dlpack__(max_version=OURS, copy=True)), look(b := t.__dlpack__(max_version=OURS, copy=True))
    assert len({one.data, two.data, t.data_ptr}) == 3 and one.flags == two.flags == IS_COPIED
    assert mt.from_dlpack(a).tolist() == mt.from_dlpack(b).tolist() == t.tolist()


def test_R12_an_export_that_shares_never_sets_is_copied():
    """an export that shares never says IS_COPIED, since the Tensor still owns the data too"""
    for t in (tensor(), mt.from_dlpack(tensor(), copy=True), mt.from_dlpack(Forged(flags=IS_COPIED).capsule())):
        assert look(t.__dlpack__(max_version=OURS)).flags == look(t.__dlpack__(max_version=OURS, copy=False)).flags == 0


def test_R28_negative_strides_are_shared_as_they_are():
    """Negative strides are shared as they are"""
    t = tensor()[::-1, ::-2]
    seen = look(t.__dlpack__(max_version=OURS, copy=False))
    assert (seen.data, seen.strides) == (t.data_ptr, (-3, -2))


# Export errors


def test_R81_a_tensor_that_cannot_be_exported_is_a_buffer_error():
    """BufferError when the data cannot travel"""
    with pytest.raises(BufferError):
        tensor().__dlpack__(dl_device=(2, 0))


def test_R54_copy_false_that_needs_a_copy_is_a_buffer_error_and_a_value_error():
    """copy=False that would need a copy raises an error that is both BufferError and ValueError"""
    for call in (
        lambda: tensor().as_readonly().__dlpack__(copy=False), lambda: tensor().__dlpack__(copy=False, dl_device=(2, 0)),
        lambda: mt.from_dlpack(tensor(), copy=False, device=(2, 0)),
    ):  # fmt: skip
        with pytest.raises(BufferError) as caught:
            call()
        assert both(caught.value)


@pytest.mark.parametrize("bad", [{"stream": 1}, {"stream": "x"}, {"max_version": (1, -1)}, {"dl_device": "cpu"}, {"copy": 1}], ids=str)
def test_bad_values_are_value_errors(bad):
    """a bad stream, max_version, dl_device or copy value is a ValueError"""
    with pytest.raises(ValueError):
        tensor().__dlpack__(**bad)


def test_R52_type_error_is_raised_for_signatures_only():
    """TypeError for an unknown keyword, a positional argument or a max_version that is no pair of integers, and for nothing else"""
    for arguments, keywords in (((1,), {}), ((), {"unknown": 1})):
        with pytest.raises(TypeError):
            tensor().__dlpack__(*arguments, **keywords)
    for value in (object(), "x", 1.5, (), [], {}, b"", type, lambda: 0, 2**100):
        with pytest.raises(TypeError):
            tensor().__dlpack__(max_version=value)
        for keyword in ("stream", "dl_device", "copy"):
            with pytest.raises((ValueError, BufferError)):
                tensor().__dlpack__(**{keyword: value})


def test_R46_streams_on_the_cpu():
    """on the CPU None and −1; anything else is a ValueError"""
    for stream in (None, -1):
        tensor().__dlpack__(stream=stream)
    for stream in (0, 1, 2, -2, 12345):
        with pytest.raises(ValueError):
            tensor().__dlpack__(stream=stream)


# Import


def test_R56_the_request_is_passed_to_the_producer_first():
    """forwards device and copy and lets the producer try first"""
    t = tensor()
    producer = Producer(t.__dlpack__)
    assert mt.from_dlpack(producer, device="cpu", copy=True).copied
    assert producer.asked == [{"max_version": OURS, "dl_device": (1, 0), "copy": True}]


@pytest.mark.parametrize("error", [TypeError, BufferError])
def test_R56_R58_minitensor_copies_what_the_producer_does_not(error):
    """when the producer cannot …, minitensor imports plainly and copies itself"""
    t = tensor()

    def answer(max_version=None, **keywords):
        if keywords:
            raise error("no")
        return t.__dlpack__(max_version=max_version)

    for how, copied in (({"copy": True}, True), ({"device": "cpu"}, False), ({"device": "cpu", "copy": True}, True)):
        got = mt.from_dlpack(Producer(answer), **how)
        assert got.copied == copied and (got.data_ptr != t.data_ptr) == copied and got.tolist() == VALUES


def test_R53_only_copy_false_fails_because_a_copy_is_needed():
    """Only copy=False may fail for want of a copy."""
    padded = dict(dtype=(1, 4, 1), flags=4)
    assert mt.from_dlpack(Forged(**padded).capsule()).copied and mt.from_dlpack(Forged(**padded).capsule(), copy=True).copied
    with pytest.raises(BufferError) as caught:
        mt.from_dlpack(Forged(**padded).capsule(), copy=False)
    assert both(caught.value)


def test_R62_a_late_failure_deletes_once_and_an_early_one_not_at_all():
    """What fails after ownership was taken calls the deleter once; what fails before leaves the capsule as it was."""
    late, early = Forged(ndim=-1), Forged()
    with pytest.raises(BufferError):
        mt.from_dlpack(late.capsule())
    capsule = early.capsule()
    with pytest.raises(ValueError):
        mt.from_dlpack(capsule, copy="x")
    assert (late.deletions, early.deletions, name_of(capsule)) == (1, 0, VERSIONED)


def test_R15_legacy_capsules_are_imported_read_only_unless_copied():
    """Old capsules (legacy) arrive read-only, unless copy=True"""
    assert mt.from_dlpack(tensor().__dlpack__()).readonly
    assert not mt.from_dlpack(tensor().__dlpack__(), copy=True).readonly


def test_R14_unknown_flag_bits_are_ignored():
    """Unknown flag bits are ignored."""
    t = mt.from_dlpack(Forged(flags=0xFFFFFFFFFFFFFFF8).capsule())
    assert not t.readonly and not t.copied


def test_R63_a_raw_capsule_can_be_imported_once():
    """A raw capsule works once."""
    capsule = tensor().__dlpack__()
    mt.from_dlpack(capsule)
    with pytest.raises(ValueError):
        mt.from_dlpack(capsule)


# What it needs


def test_the_wheel_needs_no_other_package_at_run_time():
    """The wheel needs no other package at run time, NumPy included."""
    code = """
import sys
import minitensor as mt
t = mt.from_dlpack(mt.arange(6, "float32").__dlpack__(max_version=(1, 3)), copy=True)
assert t.tolist() == [0, 1, 2, 3, 4, 5] and repr(t)
third_party = {m.split(".")[0] for m in sys.modules} - before - sys.stdlib_module_names
assert third_party == {"minitensor"}, third_party
"""
    before = 'import sys\nbefore = {m.split(".")[0] for m in sys.modules}\n'
    done = subprocess.run([sys.executable, "-c", before + code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
