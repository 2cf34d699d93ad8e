"""Invalid and unusual tensors (R1–R3, R5, R9, R13, R14, R16–R35, R60–R68). Needs only minitensor and ctypes, so that it can run under AddressSanitizer."""

import ctypes
import os
import pathlib
import subprocess
import sys

import pytest
from forge import (
    DATA, IS_COPIED, LEGACY, PADDED, READ_ONLY, USED_LEGACY, USED_VERSIONED, VERSIONED,
    Forged, Legacy, Producer, Versioned, before_a_closed_page, delete, error_is_set, look, name_of, new_capsule,
    on_foreign_threads, static, take,
)  # fmt: skip

import minitensor as mt

I64 = 2**63 - 1
BOTH = pytest.mark.parametrize("versioned", [True, False], ids=["versioned", "legacy"])
VALUES = [[0, 1, 2], [3, 4, 5]]


def refused(tensor, error=BufferError, match=None, **how):
    """The import fails and the deleter has run once (R62, R68); the capsule is used up, and no error is left behind."""
    capsule = tensor.capsule()
    with pytest.raises(error, match=match) as caught:
        mt.from_dlpack(capsule, **how)
    assert caught.type is not SystemError
    assert tensor.deletions == (1 if tensor.raw.deleter else 0)
    assert name_of(capsule) in (USED_VERSIONED, USED_LEGACY)
    assert not error_is_set()
    with pytest.raises(ValueError, match="consumed already"):
        mt.from_dlpack(capsule)
    assert tensor.deletions == (1 if tensor.raw.deleter else 0)
    return caught.value


def accepted(tensor, values=VALUES, **how):
    """The import works, shares unless it is said to copy, and the deleter runs once: when the last user is gone."""
    capsule = tensor.capsule()
    t = mt.from_dlpack(capsule, **how)
    assert t.tolist() == values
    assert tensor.deletions == int(t.copied and not tensor_says_copied(tensor))
    view = t.T
    del t
    assert view.T.tolist() == values
    del view, capsule
    assert tensor.deletions == (1 if tensor.raw.deleter else 0)
    if tensor.raw.deleter:
        assert tensor.deleted_at == tensor.address


def tensor_says_copied(tensor):
    return tensor.is_versioned and bool(tensor.raw.flags & IS_COPIED)


if "FERRY_ASAN" in os.environ:

    def test_the_module_under_test_is_instrumented():
        (module,) = pathlib.Path(mt.__file__).parent.glob("_minitensor*.so")
        assert b"__asan_report_load" in module.read_bytes()
        assert hasattr(ctypes.CDLL(None), "__asan_init")


def test_R1_the_structs_have_the_layout_of_the_header():
    assert ctypes.sizeof(Versioned) == 80 and ctypes.sizeof(Legacy) == 64
    assert (Versioned.flags.offset, Versioned.tensor.offset, Legacy.deleter.offset) == (24, 32, 56)


# What is well-formed, however odd


@BOTH
def test_a_forged_tensor_is_imported_and_released_once(versioned):
    accepted(Forged(versioned=versioned))


@BOTH
def test_R5_a_tensor_without_deleter_is_accepted_and_never_deleted(versioned):
    accepted(Forged(versioned=versioned, has_deleter=False))


@BOTH
@pytest.mark.parametrize("ctx", [0, 0xDEAD])
def test_R5_a_consumer_ignores_manager_ctx(versioned, ctx):
    accepted(Forged(versioned=versioned, ctx=ctx))


@pytest.mark.parametrize("minor", [*range(5), 17, 99, 2**32 - 1])
def test_R3_every_minor_version_is_usable(minor):
    accepted(Forged(version=(1, minor)))


@BOTH
def test_R23_byte_offset_is_added(versioned):
    tensor = Forged(versioned=versioned, byte_offset=8)
    t = mt.from_dlpack(tensor.capsule())
    assert t.data_ptr == DATA + 8 and t.tolist() == [[2, 3, 4], [5, 6, 7]]
    seen = look(t.__dlpack__(max_version=(1, 3)))
    assert (seen.data, seen.byte_offset) == (DATA + 8, 0)


@BOTH
@pytest.mark.parametrize("minor", [0, 1, 2, 3])
def test_R24_null_strides_are_read_as_compact_whatever_the_version(versioned, minor):
    t = mt.from_dlpack(Forged(versioned=versioned, version=(1, minor)).capsule())
    assert t.strides == (3, 1) and t.tolist() == VALUES


@BOTH
@pytest.mark.parametrize(
    "strides, values",
    [((1, 2), [[0, 2, 4], [1, 3, 5]]), ((0, 0), [[0] * 3] * 2), ((0, 1), [[0, 1, 2]] * 2), ((20, 5), [[0, 5, 10], [20, 25, 30]])],
)
def test_R28_R29_any_strides_are_supported(versioned, strides, values):
    accepted(Forged(versioned=versioned, strides=strides), values)


@BOTH
def test_R28_negative_strides_are_supported(versioned):
    accepted(Forged(versioned=versioned, data=DATA + 5 * 4, strides=(-3, -1)), [[5, 4, 3], [2, 1, 0]])


def test_R29_a_broadcast_tensor_is_never_written():
    t = mt.from_dlpack(Forged(strides=(0, 1)).capsule())
    assert t.readonly
    with pytest.raises(ValueError):
        t.fill(9)
    assert (ctypes.c_int32 * 3).from_address(DATA)[:] == [0, 1, 2]


@BOTH
@pytest.mark.parametrize("stride", [0, 7, -1, I64, -I64 - 1])
def test_R27_the_stride_of_one_element_is_arbitrary(versioned, stride):
    accepted(Forged(versioned=versioned, shape=(1, 3, 1), strides=(stride, 1, stride)), [[[0], [1], [2]]])


@BOTH
@pytest.mark.parametrize("data", [None, DATA, 0x10])
@pytest.mark.parametrize("strides", [None, (I64, I64, I64), (-7, 0, 1)])
@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (0, 0, 0)])
def test_R26_an_empty_tensor_may_have_any_data_pointer_and_strides(versioned, data, strides, shape):
    tensor = Forged(versioned=versioned, data=data, shape=shape, strides=strides)
    t = mt.from_dlpack(tensor.capsule())
    assert (t.shape, t.size, t.data_ptr) == (shape, 0, 0)
    seen = look(t.__dlpack__(max_version=(1, 3), copy=True))
    assert (seen.data, seen.byte_offset) == (0, 0)
    del t
    assert tensor.deletions == 1


@BOTH
@pytest.mark.parametrize("shape", [None, ()])
def test_R25_without_dimensions_shape_and_strides_may_be_null(versioned, shape):
    accepted(Forged(versioned=versioned, shape=shape, ndim=0, byte_offset=4), 1)


@pytest.mark.parametrize("bit", range(3, 64))
def test_R14_unknown_flag_bits_are_ignored(bit):
    tensor = Forged(flags=1 << bit)
    t = mt.from_dlpack(tensor.capsule())
    assert not t.readonly and not t.copied and t.tolist() == VALUES
    assert look(t.__dlpack__(max_version=(1, 3))).flags == 0


@pytest.mark.parametrize("flags", range(4))
def test_R11_R12_known_flags_are_represented(flags):
    t = mt.from_dlpack(Forged(flags=flags).capsule())
    assert (t.readonly, t.copied) == (bool(flags & READ_ONLY), bool(flags & IS_COPIED))
    assert not t[:].copied
    assert look(t.__dlpack__(max_version=(1, 3))).flags == flags & READ_ONLY


@pytest.mark.parametrize("how, readonly", [({}, True), ({"copy": False}, True), ({"copy": True}, False)])
def test_R15_legacy_tensors_are_read_only_unless_copied(how, readonly):
    t = mt.from_dlpack(Forged(versioned=False).capsule(), **how)
    assert (t.readonly, t.copied) == (readonly, not readonly)


@BOTH
@pytest.mark.parametrize("device", [(1, 0), (1, 7), (3, 0), (3, 2), (13, 0), (13, 5)])
def test_R35_R39_host_readable_memory_is_accepted_with_any_device_id(versioned, device):
    tensor = Forged(versioned=versioned, device=device)
    t = mt.from_dlpack(tensor.capsule())
    assert t.device == (device[0], 0) and t.data_ptr == DATA and t.tolist() == VALUES
    accepted(Forged(versioned=versioned, device=device), device="cpu", copy=False)


def test_R17_every_bool_byte_except_0_is_true():
    """R17 fixes the size of a bool, and nothing its values: no code here reads one as a C++ bool."""
    bytes_ = (ctypes.c_uint8 * 4)(0, 1, 2, 255)
    expected = [False, True, True, True]
    for how in ({}, {"copy": True}):
        t = mt.from_dlpack(Forged(data=ctypes.addressof(bytes_), shape=(4,), dtype=(6, 8, 1)).capsule(), **how)
        assert t.tolist() == t.copy().tolist() == t[::-1].tolist()[::-1] == [x.item() for x in t] == expected
        assert all(type(x) is bool for x in t.tolist())


def test_R33_a_received_struct_is_never_modified():
    tensor = Forged(strides=(3, 1), flags=1 << 40)
    before = bytes(tensor.raw), bytes(tensor.shape), bytes(tensor.strides)
    t = mt.from_dlpack(tensor.capsule())
    capsules = [t.__dlpack__(max_version=(1, 3)), t[1].__dlpack__(), mt.from_dlpack(t).__dlpack__()]
    del t, capsules
    assert (bytes(tensor.raw), bytes(tensor.shape), bytes(tensor.strides)) == before


def test_R33_later_changes_of_the_struct_have_no_effect():
    tensor = Forged(strides=(3, 1))
    t = mt.from_dlpack(tensor.capsule())
    tensor.shape[:] = (1000, 1000)
    tensor.strides[:] = (10**9, 10**9)
    tensor.raw.tensor.data = 0x10
    tensor.raw.tensor.ndim = 77
    assert t.tolist() == VALUES and look(t.__dlpack__()).strides == (3, 1)


@pytest.mark.parametrize("how", [{}, {"copy": True}])
def test_R13_padded_elements_are_packed_on_import(how):
    ctypes.memset(DATA + 1024, 0, 64)
    for i in range(6):
        ctypes.c_uint8.from_address(DATA + 1024 + i).value = 0xA0 | i  # what is in the padding does not count
    tensor = Forged(data=DATA + 1024, dtype=(1, 4, 1), flags=PADDED)
    t = mt.from_dlpack(tensor.capsule(), **how)
    assert t.tolist() == VALUES and t.nbytes == 3 and t.copied and tensor.deletions == 1


def test_R13_padded_elements_cannot_be_imported_without_a_copy():
    error = refused(Forged(dtype=(1, 4, 1), flags=PADDED), copy=False)
    assert isinstance(error, ValueError)


def test_R13_the_padded_flag_has_no_effect_on_whole_bytes():
    accepted(Forged(flags=PADDED), copy=False)


def test_R19_packed_elements_are_read_from_the_low_bits_of_each_byte():
    ctypes.memmove(DATA + 2048, bytes([0x10, 0x32, 0x54]), 3)
    accepted(Forged(data=DATA + 2048, dtype=(1, 4, 1)))


# What is malformed

CODES_KNOWN_TO_MINITENSOR = {(code, 8, 1) for code in range(7, 15)} | {(6, 8, 1), (15, 6, 1), (16, 6, 1), (17, 4, 1), (4, 16, 1)}
CODES_KNOWN_TO_MINITENSOR |= {(code, bits, 1) for code in (0, 1) for bits in (1, 2, 4, 8, 16, 32, 64)}
CODES_KNOWN_TO_MINITENSOR |= {(2, bits, 1) for bits in (16, 32, 64)} | {(5, bits, 1) for bits in (32, 64, 128)}


@BOTH
@pytest.mark.parametrize("code", range(256))
def test_R3_R9_R16_every_code_with_every_width_is_known_or_refused(versioned, code):
    for bits in (*range(0, 9), 12, 16, 24, 31, 32, 33, 64, 128, 255):
        dtype = (code, bits, 1)
        tensor = Forged(versioned=versioned, shape=(2, 2), dtype=dtype, data=DATA + 4096)
        if dtype in CODES_KNOWN_TO_MINITENSOR:
            t = mt.from_dlpack(tensor.capsule())
            assert look(t.__dlpack__(max_version=(1, 3))).dtype == dtype
            del t
            assert tensor.deletions == 1
        else:
            with pytest.raises(BufferError):
                mt.from_dlpack(tensor.capsule())
            assert tensor.deletions == 1, dtype


MALFORMED = {
    "R18_fp6_of_8_bits": ({"dtype": (15, 8, 1)}, "FP6 must have 6 bits"),
    "R18_fp6_of_4_bits": ({"dtype": (16, 4, 1)}, "FP6 must have 6 bits"),
    "R18_fp4_of_8_bits": ({"dtype": (17, 8, 1)}, "FP4 must have 4 bits"),
    "R18_fp4_of_6_bits": ({"dtype": (17, 6, 1)}, "FP4 must have 4 bits"),
    "R17_bool_of_1_bit": ({"dtype": (6, 1, 1)}, "bool must have 8 bits"),
    "R17_bool_of_32_bits": ({"dtype": (6, 32, 1)}, "bool must have 8 bits"),
    "R16_no_bits": ({"dtype": (0, 0, 1)}, "is unknown or malformed"),
    "R16_no_lanes": ({"dtype": (0, 32, 0)}, "is unknown or malformed"),
    "R16_code_18": ({"dtype": (18, 64, 1)}, "is unknown or malformed"),
    "R16_code_255": ({"dtype": (255, 32, 1)}, "is unknown or malformed"),
    "R21_two_lanes": ({"dtype": (2, 32, 2)}, "2 lanes, expected 1"),
    "R21_fp4_of_two_lanes": ({"dtype": (17, 4, 2)}, "uint8"),
    "R21_many_lanes": ({"dtype": (1, 8, 65535)}, "lanes"),
    "R32_negative_ndim": ({"ndim": -1}, "ndim is -1"),
    "R32_least_ndim": ({"ndim": -(2**31)}, "expected at least 0"),
    "R32_huge_ndim_without_shape": ({"ndim": 2**31 - 1, "shape": None}, "shape is NULL"),
    "R32_huge_ndim": ({"ndim": 2**31 - 1, "shape": (-1, 1)}, r"shape\[0\]"),
    "R25_no_shape": ({"ndim": 1, "shape": None}, "shape is NULL with ndim 1"),
    "R32_negative_extent": ({"shape": (2, -3)}, r"shape\[1\] is -3"),
    "R32_least_extent": ({"shape": (-I64 - 1,)}, "expected at least 0"),
    "R32_two_negative_extents": ({"shape": (-2, -3)}, "expected at least 0"),
    "R32_negative_beside_empty": ({"shape": (0, -1)}, "expected at least 0"),
    "R32_product_overflows": ({"shape": (2**32, 2**32)}, "exceeds 63 bits"),
    "R32_product_overflows_to_zero": ({"shape": (2**32, 2**32, 1)}, "exceeds 63 bits"),
    "R32_bytes_overflow": ({"shape": (2**61,)}, "exceeds 63 bits"),
    "R32_strides_overflow": ({"strides": (I64, 1)}, "strides"),
    "R32_strides_overflow_below": ({"strides": (-I64 - 1, 1)}, "strides"),
    "R32_strides_sum_overflows": ({"shape": (2, 2), "strides": (2**60, 2**60)}, "strides"),
    "R32_strides_product_overflows": ({"shape": (3, 3), "strides": (2**62, 1)}, "strides"),
    "R26_no_data": ({"data": None}, "data is NULL"),
    "R26_no_data_of_a_scalar": ({"data": None, "shape": ()}, "data is NULL"),
    "R23_byte_offset_leaves_the_address_space": ({"byte_offset": 2**64 - 1}, "byte_offset"),
    "R34_device_0": ({"device": (0, 0)}, "not one that DLPack defines"),
    "R34_device_5": ({"device": (5, 0)}, "not one that DLPack defines"),
    "R34_device_6": ({"device": (6, 0)}, "not one that DLPack defines"),
    "R34_device_22": ({"device": (22, 0)}, "not one that DLPack defines"),
    "R34_device_below_0": ({"device": (-1, 0)}, "not one that DLPack defines"),
    "R34_device_of_a_billion": ({"device": (10**9, 0)}, "not one that DLPack defines"),
}


@BOTH
@pytest.mark.parametrize("how", [{}, {"copy": True}, {"copy": False}, {"device": "cpu"}], ids=str)
@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_tensor_is_refused_and_deleted_once(what, how, versioned):
    fields, match = MALFORMED[what]
    if "R21" in what and how.get("copy"):
        match = None  # the copy refuses it before the lanes are looked at
    refused(Forged(versioned=versioned, **fields), BufferError, match, **how)


@BOTH
@pytest.mark.parametrize("what", MALFORMED)
def test_R5_a_malformed_tensor_may_have_no_deleter(what, versioned):
    refused(Forged(versioned=versioned, has_deleter=False, **MALFORMED[what][0]))


def test_every_refusal_names_the_field():
    for fields, match in MALFORMED.values():
        with pytest.raises(BufferError, match=match):
            mt.from_dlpack(Forged(**fields).capsule())


@BOTH
@pytest.mark.parametrize("device", [2, 4, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 18])
def test_R40_a_device_that_minitensor_cannot_use_is_a_buffer_error(versioned, device):
    for how in ({}, {"device": "cpu"}, {"copy": True}, {"copy": False}):
        if device == 11 and how.get("device"):
            continue  # the host reads pinned memory of ROCm (R39)
        refused(Forged(versioned=versioned, device=(device, 0)), **how)


@pytest.mark.parametrize("ndim", [127, 128, 129, 200, 1000])
def test_R25_more_dimensions_than_minitensor_supports_are_refused(ndim):
    tensor = Forged(shape=(1,) * ndim)
    if ndim <= 128:
        assert mt.from_dlpack(tensor.capsule()).ndim == ndim
    else:
        with pytest.raises(ValueError, match="dimensions"):
            mt.from_dlpack(tensor.capsule())
    assert tensor.deletions == 1


# R2: other major versions


@pytest.mark.parametrize("has_deleter", [True, False])
@pytest.mark.parametrize("major", [0, 2, 99, 2**32 - 1])
@pytest.mark.parametrize("minor", [0, 3, 99])
def test_R2_only_the_deleter_of_another_major_version_is_accessed(major, minor, has_deleter):
    tensor = Forged(version=(major, minor), at=before_a_closed_page(24), has_deleter=has_deleter)
    capsule = tensor.capsule()
    with pytest.raises(BufferError, match=rf"{major}\.{minor}"):
        mt.from_dlpack(capsule)
    assert tensor.deletions == int(has_deleter)
    assert name_of(capsule) == USED_VERSIONED


def test_R2_the_protected_page_cannot_be_read():
    """The test above would notice a touch: a read behind the deleter ends a child process."""
    code = f"import sys; sys.path[:0] = [{str(pathlib.Path(__file__).parent)!r}]; import ctypes, forge; ctypes.c_uint64.from_address(forge.before_a_closed_page(24) + READ).value"
    status = [subprocess.run([sys.executable, "-c", code.replace("READ", at)], stderr=subprocess.DEVNULL).returncode for at in ("16", "24")]
    assert status[0] == 0 and status[1] != 0


# Capsules


@BOTH
def test_R60_R62_an_import_renames_the_capsule(versioned):
    capsule = Forged(versioned=versioned).capsule()
    mt.from_dlpack(capsule)
    assert name_of(capsule) == (USED_VERSIONED if versioned else USED_LEGACY)


@BOTH
def test_R63_the_second_use_is_an_error_and_deletes_nothing(versioned):
    tensor = Forged(versioned=versioned)
    capsule = tensor.capsule()
    t = mt.from_dlpack(capsule)
    for _ in range(3):
        with pytest.raises(ValueError, match="consumed already"):
            mt.from_dlpack(capsule)
        with pytest.raises(ValueError, match="consumed already"):
            mt.from_dlpack(Producer(lambda **_: capsule))
    assert tensor.deletions == 0 and t.tolist() == VALUES
    del t
    assert tensor.deletions == 1


@BOTH
@pytest.mark.parametrize("name", [None, b"", b"dltensor_", b"DLTENSOR", b"dltensor_versioned2", b"arrow_array", b"used_dltensor2"])
def test_R62_a_capsule_of_another_name_stays_unchanged(versioned, name):
    tensor = Forged(versioned=versioned)
    capsule = tensor.capsule(name)
    for x in (capsule, Producer(lambda **_: capsule)):
        with pytest.raises(ValueError, match="not a DLPack capsule"):
            mt.from_dlpack(x)
        assert name_of(capsule) == name and tensor.deletions == 0


@BOTH
@pytest.mark.parametrize("how", [{"copy": 1}, {"copy": "no"}, {"device": "gpu"}, {"device": (1,)}, {"device": object()}])
def test_R62_an_invalid_argument_leaves_the_capsule_unchanged(versioned, how):
    tensor = Forged(versioned=versioned)
    capsule = tensor.capsule()
    with pytest.raises(ValueError):
        mt.from_dlpack(capsule, **how)
    assert name_of(capsule) in (VERSIONED, LEGACY) and tensor.deletions == 0
    assert mt.from_dlpack(capsule).tolist() == VALUES


@pytest.mark.parametrize("x", [None, 1, "dltensor", object(), object, [1], type("T", (), {"__dlpack__": 3})()], ids=repr)
def test_R64_an_object_without_the_protocol_is_a_type_error(x):
    with pytest.raises(TypeError):
        mt.from_dlpack(x)


@pytest.mark.parametrize("answer", [None, 0, b"dltensor", (), NotImplemented], ids=repr)
def test_R58_a_result_that_is_not_a_capsule_is_a_type_error(answer):
    with pytest.raises(TypeError, match="capsule"):
        mt.from_dlpack(Producer(lambda **_: answer))


@BOTH
@pytest.mark.parametrize("how", [{}, {"copy": None}, {"copy": False}, {"device": "cpu"}, {"device": (1, 0), "copy": False}], ids=str)
def test_R64_a_raw_capsule_is_shared(versioned, how):
    tensor = Forged(versioned=versioned)
    t = mt.from_dlpack(tensor.capsule(), **how)
    assert t.data_ptr == DATA and not t.copied and tensor.deletions == 0


@BOTH
@pytest.mark.parametrize("how", [{"copy": True}, {"copy": True, "device": "cpu"}], ids=str)
def test_R56_a_raw_capsule_is_copied_when_asked(versioned, how):
    tensor = Forged(versioned=versioned)
    t = mt.from_dlpack(tensor.capsule(), **how)
    assert t.data_ptr != DATA and t.copied and not t.readonly and t.tolist() == VALUES
    assert tensor.deletions == 1


def test_R12_a_tensor_with_a_sole_owner_is_not_copied_again():
    tensor = Forged(flags=IS_COPIED)
    t = mt.from_dlpack(Producer(lambda **_: tensor.capsule()), copy=True)
    assert t.copied and t.data_ptr == DATA and tensor.deletions == 0


def test_R54_copy_false_refuses_a_tensor_that_the_producer_copied():
    tensor = Forged(flags=IS_COPIED)
    with pytest.raises(BufferError) as caught:
        mt.from_dlpack(Producer(lambda **_: tensor.capsule()), copy=False)
    assert isinstance(caught.value, ValueError) and tensor.deletions == 1


# Deleters


def exported(versioned, tensor):
    """A capsule of ours that is the last owner of a forged tensor."""
    t = mt.from_dlpack(tensor.capsule())
    assert tensor.is_versioned
    return t.__dlpack__(max_version=(1, 3) if versioned else None, copy=None)


@BOTH
def test_R61_a_capsule_that_was_not_consumed_calls_the_deleter_once(versioned):
    tensor = Forged()
    capsule = exported(versioned, tensor)
    assert tensor.deletions == 0
    del capsule
    assert tensor.deletions == 1


@BOTH
def test_R61_a_capsule_that_was_consumed_does_not_call_the_deleter(versioned):
    tensor = Forged()
    capsule = exported(versioned, tensor)
    raw = take(capsule)
    del capsule
    assert tensor.deletions == 0
    delete(raw)
    assert tensor.deletions == 1


@BOTH
@pytest.mark.parametrize("failing_deleter", [False, True])
def test_R61_R67_an_exception_in_flight_survives_the_destructor(versioned, failing_deleter):
    def meddle():
        try:
            raise OSError("the deleter's own")
        except OSError:
            pass

    tensor = Forged(on_delete=meddle if failing_deleter else None)

    def one_capsule_then_an_error():
        yield exported(versioned, tensor)
        raise KeyError("mine")

    for collect in (list, tuple, set):
        tensor.deletions = 0
        with pytest.raises(KeyError, match="mine"):
            collect(one_capsule_then_an_error())  # the container dies while the error is set
        assert tensor.deletions == 1


@BOTH
def test_R67_an_exception_in_flight_survives_the_release_of_an_import(versioned):
    before = mt.live_bytes()

    def one_tensor_then_an_error():
        yield mt.from_dlpack(mt.arange(1000).__dlpack__(max_version=(1, 3) if versioned else None))
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        list(one_tensor_then_an_error())
    assert mt.live_bytes() == before


@BOTH
def test_R65_the_deleter_of_an_export_needs_no_gil(versioned):
    """It runs on a thread that Python does not know while this thread holds the GIL: a deleter that wants it never ends."""
    before = mt.live_bytes()
    raw = take(mt.arange(1000).__dlpack__(max_version=(1, 3) if versioned else None))
    assert mt.live_bytes() == before + 8000
    on_foreign_threads([(raw.deleter, ctypes.addressof(raw))], gil=True)
    assert mt.live_bytes() == before


@BOTH
def test_R65_the_deleter_of_a_re_export_runs_on_any_thread(versioned):
    tensor = Forged()
    raw = take(exported(versioned, tensor))
    on_foreign_threads([(raw.deleter, ctypes.addressof(raw))], gil=False)
    assert tensor.deletions == 1


@BOTH
def test_R68_a_struct_that_is_shared_many_times_is_deleted_after_the_last(versioned):
    tensor = Forged()
    t = mt.from_dlpack(tensor.capsule())
    users = [t] + [t.__dlpack__(max_version=(1, 3) if versioned else None) for _ in range(3)]
    users += [mt.from_dlpack(u) for u in users[1:]] + [mt.from_dlpack(t), t[0], t.T]
    del t
    while users:
        assert tensor.deletions == 0
        users.pop()
    assert tensor.deletions == 1


def test_R62_a_deleter_may_import_and_release_others():
    inner = Forged()
    outer = Forged(on_delete=lambda: mt.from_dlpack(inner.capsule()))
    t = mt.from_dlpack(outer.capsule())
    del t
    assert (outer.deletions, inner.deletions) == (1, 1)


def test_R62_the_destructor_of_a_foreign_capsule_still_runs():
    calls = []
    destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(calls.append)
    tensor = Forged()
    capsule = new_capsule(tensor.address, static(VERSIONED), ctypes.cast(destructor, ctypes.c_void_p))
    assert mt.from_dlpack(capsule).tolist() == VALUES
    assert tensor.deletions == 1 and calls == []
    del capsule
    assert len(calls) == 1
