"""minitensor without exchanges: dtypes, views, values."""

import array
import gc
import importlib
import math
import struct

import pytest

import minitensor as mt

ml_dtypes = importlib.import_module("ml_dtypes")
np = importlib.import_module("numpy")

INTEGERS = [f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64)]
FLOATS = ["float16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
SMALL = [
    "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn",
    "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn",
]  # fmt: skip
ALL = ["bool", *INTEGERS, *FLOATS, "bfloat16", *COMPLEX, *SMALL[1:]]
BITS = {"bool": 8, "float6_e2m3fn": 6, "float6_e3m2fn": 6, "float4_e2m1fn": 4}


def bits_of(dtype):
    if dtype in BITS:
        return BITS[dtype]
    if dtype.startswith("float8"):
        return 8
    return int("".join(filter(str.isdigit, dtype)))


def raw(t):
    """The bytes of a contiguous Tensor."""
    import ctypes

    return ctypes.string_at(t.data_ptr, t.nbytes) if t.nbytes else b""


def poke(t, data):
    import ctypes

    assert len(data) == t.nbytes
    ctypes.memmove(t.data_ptr, data, len(data))
    return t


def same(a, b):
    """Equal values, where NaN equals NaN and the sign of zero counts."""
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b and math.copysign(1, a) == math.copysign(1, b)


def numpy_dtype(name):
    return np.dtype(getattr(ml_dtypes, name)) if name in SMALL else np.dtype(name)


# Creation


@pytest.mark.parametrize("dtype", ALL)
def test_the_attributes_of_a_new_tensor(dtype):
    t = mt.empty((2, 3, 5), dtype)
    assert (t.shape, t.strides, t.ndim, t.size) == ((2, 3, 5), (15, 5, 1), 3, 30)
    assert t.dtype == dtype
    assert t.nbytes == -(-30 * bits_of(dtype) // 8)
    assert t.device == (1, 0) and all(type(i) is int for i in t.device)
    assert type(t.shape) is tuple and type(t.strides) is tuple
    assert not t.readonly and not t.copied
    assert t.data_ptr % 256 == 0 and t.data_ptr != 0
    assert len(t) == 2


def test_defaults():
    assert mt.empty(3).dtype == mt.zeros(3).dtype == "float32"
    assert mt.arange(3).dtype == "int64"
    assert mt.empty([2, 3]).shape == (2, 3)
    assert mt.empty(()).shape == ()
    assert mt.__version__ and "from_dlpack" in mt.__all__


@pytest.mark.parametrize("shape", [0, (0, 3), (3, 0), (2, 0, 5)])
def test_an_empty_tensor_has_no_address(shape):
    t = mt.zeros(shape)
    assert (t.size, t.nbytes, t.data_ptr) == (0, 0, 0)
    assert len(t.strides) == t.ndim
    assert t.copy().data_ptr == 0
    t.fill(1)
    assert "[]" in repr(t)
    assert mt.empty(3)[3:].data_ptr == 0


def test_live_bytes_count_the_storage_that_views_hold():
    before = mt.live_bytes()
    t = mt.empty((10, 10))
    view = t[2:4].T
    assert mt.live_bytes() - before == 400
    del t
    assert mt.live_bytes() - before == 400
    del view
    assert mt.live_bytes() == before


@pytest.mark.parametrize(
    "shape", [-1, (2, -1), 2**63, 2**100, (2**40, 2**40), (2**60, 8), (1,) * 200]
)
def test_an_invalid_shape_is_a_value_error(shape):
    with pytest.raises(ValueError):
        mt.empty(shape, "float64")


def test_too_large_a_size_is_a_memory_error():
    for n in (2**50, 2**62):
        with pytest.raises(MemoryError):
            mt.empty(n, "uint8")


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "cuda_host", "cuda_managed", (2, 0), (13, 0)])
def test_cuda_memory_is_a_buffer_error_without_cuda(device):
    for make in (
        lambda: mt.empty(3, device=device),
        lambda: mt.zeros(3, device=device),
        lambda: mt.arange(3, device=device),
        lambda: mt.asarray([1], device=device),
        lambda: mt.zeros(0).copy(device),
        lambda: mt.zeros(3).copy(device),
    ):
        with pytest.raises(BufferError, match="CUDA"):
            make()


def test_unknown_names_are_value_errors():
    for dtype in ("", "float", "int128", "float8", "FLOAT32"):
        with pytest.raises(ValueError, match="dtype"):
            mt.empty(3, dtype)
    for device in ("", "gpu", "cuda:", "cuda:x", "cuda:-1", "CPU"):
        with pytest.raises(ValueError):
            mt.empty(3, device=device)


def test_cpu_by_each_of_its_names():
    for device in ("cpu", (1, 0)):
        assert mt.arange(3, device=device).tolist() == [0, 1, 2]
        assert mt.arange(3).copy(device).device == (1, 0)


@pytest.mark.parametrize("dtype", [d for d in ALL if d not in ("bool", "float8_e8m0fnu")])
def test_arange_and_zeros(dtype):
    assert mt.arange(5, dtype).tolist() == [0, 1, 2, 3, 4]
    assert mt.zeros((2, 3), dtype).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert mt.arange(0, dtype).shape == (0,)


def test_arange_that_does_not_fit():
    assert mt.arange(256, "uint8").tolist() == list(range(256))
    with pytest.raises(OverflowError):
        mt.arange(257, "uint8")
    with pytest.raises(ValueError):
        mt.arange(-1)


# Values: decoding and encoding


@pytest.mark.parametrize("dtype", SMALL)
def test_every_code_decodes_as_in_ml_dtypes(dtype):
    bits = bits_of(dtype)
    codes = np.arange(2**bits, dtype=np.uint16 if bits == 16 else np.uint8)
    with np.errstate(invalid="ignore"):
        expected = codes.view(numpy_dtype(dtype)).astype(np.float64).tolist()
    if bits >= 8:
        t = poke(mt.empty(len(codes), dtype), codes.tobytes())
    else:
        whole = sum(int(c) << (bits * i) for i, c in enumerate(codes))  # little bit order
        t = poke(mt.empty(len(codes), dtype), whole.to_bytes(2**bits * bits // 8, "little"))
    assert all(map(same, t.tolist(), expected))


def test_every_half_decodes_as_in_numpy():
    codes = np.arange(2**16, dtype=np.uint16)
    t = poke(mt.empty(2**16, "float16"), codes.tobytes())
    assert all(map(same, t.tolist(), codes.view(np.float16).astype(np.float64).tolist()))


def samples():
    rng = np.random.default_rng(7)
    spread = rng.standard_normal(20000) * 2.0 ** rng.integers(-30, 20, 20000)
    wide = rng.standard_normal(2000) * 2.0 ** rng.integers(-120, 120, 2000)
    # All numbers of 8 significant bits: among them is each tie of each small format.
    ties = np.array([m * 2.0**e for e in range(-30, 20) for m in range(128, 256)])
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan, 448, 464, 465, 480, 57344]
    special += [61440, 65504, 65519, 65520, 3.4e38, -3.4e38]
    values = np.concatenate([spread, wide, ties, -ties, special]).astype(np.float32)
    return values[(np.abs(values) >= 2.0**-126) | (values == 0) | ~np.isfinite(values)]


@pytest.mark.parametrize("dtype", [*SMALL, "float16", "float32", "float64"])
def test_floats_encode_as_in_ml_dtypes(dtype):
    values = samples()
    with np.errstate(all="ignore"):
        expected = values.astype(numpy_dtype(dtype))
    t = mt.asarray(values, dtype)
    if bits_of(dtype) >= 8:
        got = np.frombuffer(raw(t), numpy_dtype(dtype))
        width = np.dtype(f"u{got.dtype.itemsize}")
        nan = np.isnan(expected.astype(np.float64))
        wrong = (got.view(width) != expected.view(width)) & ~(
            nan & np.isnan(got.astype(np.float64)) & (got.dtype.itemsize > 1)
        )
        assert not wrong.any(), values[wrong][:10]
    else:
        codes = expected.view(np.uint8) & (2 ** bits_of(dtype) - 1)
        whole = sum(int(c) << (bits_of(dtype) * i) for i, c in enumerate(codes[:4000]))
        assert int.from_bytes(raw(t[:4000].copy()), "little") == whole
        assert all(map(same, t.tolist(), expected.astype(np.float64).tolist()))


def test_doubles_are_rounded_once():
    above_tie = 1 + 2.0**-11 + 2.0**-40  # rounding to float32 first would make it a tie
    assert mt.asarray(above_tie, "float16").item() == 1 + 2.0**-10
    assert mt.asarray(2.0**-24, "float16").item() == 2.0**-24
    assert mt.asarray(2.0**-25, "float16").item() == 0


@pytest.mark.parametrize("dtype", ["int1", "int2", "int4", "uint1", "uint2", "uint4"])
def test_small_integers_are_packed(dtype):
    bits, signed = int(dtype[-1]), dtype[0] == "i"
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)
    values = list(range(low, high)) * 5
    t = mt.asarray(values, dtype)
    assert t.tolist() == values
    assert t.nbytes == -(-len(values) * bits // 8)
    for bad in (low - 1, high):
        with pytest.raises(OverflowError):
            mt.asarray(bad, dtype)


def test_complex_of_halves():
    assert mt.asarray([1 + 2j, 3], "complex32").tolist() == [1 + 2j, 3 + 0j]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_that_do_not_fit_are_overflow_errors(dtype):
    info = np.iinfo(dtype)
    ends = [int(info.min), int(info.max)]
    assert mt.asarray(ends, dtype).tolist() == ends
    for bad in (ends[0] - 1, ends[1] + 1, 2**70, -(2**70), float(ends[1]) * 2):
        with pytest.raises(OverflowError):
            mt.asarray(bad, dtype)
        t = mt.zeros(2, dtype)
        with pytest.raises(OverflowError):
            t.fill(bad)
        assert t.tolist() == [0, 0]


def test_fractions_are_truncated_and_nan_is_not_an_integer():
    assert mt.asarray([1.9, -1.9], "int32").tolist() == [1, -1]
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError):
            mt.asarray(bad, "int32")
    with pytest.raises(ValueError):
        mt.asarray(1j, "float32")
    assert mt.asarray([0, 0.5, math.nan, 1j, 2**70], "bool").tolist() == [False] + [True] * 4


@pytest.mark.parametrize("dtype", ["float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"])
def test_packed_elements_are_adjacent_bits(dtype):
    bits = bits_of(dtype)
    t = mt.zeros(11, dtype)
    assert t.nbytes == -(-11 * bits // 8)
    t = mt.asarray([0, 1, 0, 0.5, 0, 0, 0, 0, 0, 0, 2], dtype)
    codes = np.asarray(t.tolist()).astype(numpy_dtype(dtype)).view(np.uint8)
    assert int.from_bytes(raw(t), "little") == sum(int(c) << (bits * i) for i, c in enumerate(codes))


# asarray


def test_the_dtype_follows_the_numbers():
    assert mt.asarray([True, False]).dtype == "bool"
    assert mt.asarray([True, 2]).dtype == "int64"
    assert mt.asarray([1, 2.5]).dtype == "float64"
    assert mt.asarray([1, 2.5, 3j]).dtype == "complex128"
    assert mt.asarray([]).dtype == "float64"
    assert mt.asarray(5).shape == () and mt.asarray(5).item() == 5
    assert mt.asarray([2**70, 1.5]).tolist() == [2.0**70, 1.5]
    for too_large in (2**63, 2**64, [2**70]):
        with pytest.raises(OverflowError):
            mt.asarray(too_large)
    assert mt.asarray(2**64 - 1, "uint64").item() == 2**64 - 1


def test_nested_sequences():
    assert mt.asarray([[1, 2], (3, 4)]).tolist() == [[1, 2], [3, 4]]
    assert mt.asarray([[[]], [[]]]).shape == (2, 1, 0)
    assert mt.asarray(range(3)).tolist() == [0, 1, 2]
    assert mt.asarray([np.arange(3), mt.arange(3)]).tolist() == [[0, 1, 2]] * 2
    assert mt.asarray([np.float32(1.5), np.int8(2), np.bool_(True), mt.asarray(3)]).tolist() == [
        1.5, 2, 1, 3,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "ragged", [[[1], [1, 2]], [1, [2]], [[1], 2], [[], [1]], [[[]], []], [[1], [[]]], [[], 1]]
)
def test_ragged_sequences_are_value_errors(ragged):
    with pytest.raises(ValueError, match="ragged"):
        mt.asarray(ragged)


def test_an_item_that_is_not_a_number_is_a_type_error():
    for bad in ("abc", ["a"], None, [None], {1: 2}, {1}, object(), [b"ab"]):
        with pytest.raises(TypeError):
            mt.asarray(bad)


def test_sequences_that_are_nested_too_deep():
    own = []
    own.append(own)
    with pytest.raises(ValueError):
        mt.asarray(own)


def test_a_sequence_that_changes_while_it_is_read():
    class Shrinks:
        def __index__(self):
            items.clear()
            return 1

    items = [Shrinks(), 1, 2]
    with pytest.raises(ValueError):
        mt.asarray(items)


def test_errors_of_the_items_are_raised():
    class Bad:
        def __float__(self):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        mt.asarray([1.0, Bad()])


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, *FLOATS, *COMPLEX])
def test_buffers_of_every_type(dtype):
    a = (np.arange(24) % 7).astype(dtype).reshape(2, 3, 4)
    for view in (a, a.T, a[:, ::-1, ::2], a[1, 2, 3], a[:0]):
        t = mt.asarray(view)
        assert (t.dtype, t.shape) == (dtype, view.shape)
        assert t.tolist() == view.tolist()
        assert not t.readonly and not t.copied


def test_other_buffers():
    assert mt.asarray(b"\x01\x02").dtype == "uint8"
    assert mt.asarray(bytearray(b"\x01\x02")).tolist() == [1, 2]
    assert mt.asarray(array.array("h", [-1, 2])).dtype == "int16"
    assert mt.asarray(array.array("l", [-1])).dtype == f"int{8 * array.array('l').itemsize}"
    assert mt.asarray(memoryview(b"abcdef")[::-2]).tolist() == [102, 100, 98]
    assert mt.asarray(np.arange(3, dtype="i4"), "float16").tolist() == [0, 1, 2]
    assert mt.asarray(np.float32(1.5)).dtype == "float32"
    packed = np.frombuffer(b"\0\1\0\0\0\0\2\0\0\0", dtype=[("a", "u1"), ("b", "<u4")])["b"]
    assert mt.asarray(packed).tolist() == [1, 2]  # steps of five bytes
    readonly = np.arange(3)
    readonly.flags.writeable = False
    assert mt.asarray(readonly).tolist() == [0, 1, 2]


def test_buffers_that_do_not_fit():
    with pytest.raises(ValueError, match="byte order"):
        mt.asarray(np.arange(3, dtype=">i4"))
    for bad in (np.zeros(2, "S3"), np.zeros(2, [("a", "i4")]), np.zeros(2, "O"), np.zeros(2, "g")):
        with pytest.raises(ValueError):
            mt.asarray(bad)
    with pytest.raises(OverflowError):
        mt.asarray(np.array([300]), "uint8")


def test_asarray_always_copies():
    a = np.arange(3)
    t = mt.asarray(a)
    a[0] = 7
    assert t.tolist() == [0, 1, 2]
    other = mt.asarray(t)
    assert other.data_ptr != t.data_ptr
    assert mt.asarray(t[::-1], "float32").tolist() == [2, 1, 0]


# Views


def reference(shape=(3, 4, 5)):
    a = np.arange(math.prod(shape)).reshape(shape)
    return a, mt.asarray(a)


KEYS = [
    0, -1, (1, 2), (1, 2, 3), slice(None), slice(1, 3), slice(None, None, -1), slice(2, 0, -1),
    (slice(None), slice(None, None, 2)), (slice(None), slice(3, None, -2)), ..., (..., 1), (1, ...),
    (1, ..., slice(None, None, -1)), (slice(5, 9),), (slice(None, None, 2**62), 0), (),
    (..., slice(0, 0)), (-1, -1, -1), slice(-2, None), slice(None, None, -(2**63)),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_indexing_equals_that_of_numpy(key):
    a, t = reference()
    view = t[key]
    assert view.shape == np.asarray(a[key]).shape
    assert view.tolist() == a[key].tolist()
    assert view.size == 0 or t.data_ptr <= view.data_ptr < t.data_ptr + t.nbytes
    assert view[...].copy().tolist() == view.tolist()
    again = view.T
    assert again.tolist() == a[key].T.tolist()


def test_views_share_memory_and_keep_it_alive():
    t = mt.zeros((2, 3), "int32")
    row = t[1]
    row.fill(7)
    assert t.tolist() == [[0, 0, 0], [7, 7, 7]]
    t[:, ::-2].fill(1)
    assert t.tolist() == [[1, 0, 1], [1, 7, 1]]
    del t
    gc.collect()
    assert row.tolist() == [1, 7, 1]


def test_invalid_indices():
    _, t = reference()
    for key in (3, -4, (0, 4), (0, 0, 0, 0), (..., ...), (0, 0, 0, slice(None)), 2**70):
        with pytest.raises(IndexError):
            t[key]
    for key in (None, 1.5, "a", [0], True):
        with pytest.raises(TypeError):
            t[key]
    with pytest.raises(ValueError):
        t[:: 0]
    with pytest.raises(TypeError):
        t[0] = 1
    with pytest.raises(IndexError):
        mt.zeros(())[0]


def test_iteration():
    a, t = reference((3, 2))
    assert [row.tolist() for row in t] == a.tolist()
    for call in (len, iter):
        with pytest.raises(TypeError):
            call(mt.zeros(()))


@pytest.mark.parametrize("axes", [(), (0, 1, 2), (2, 0, 1), (-1, 0, 1), ((1, 2, 0),)], ids=str)
def test_transpose(axes):
    a, t = reference()
    assert t.transpose(*axes).tolist() == a.transpose(*axes).tolist()
    assert t.transpose(*axes).data_ptr == t.data_ptr


def test_invalid_transposes():
    _, t = reference()
    for axes in ((0,), (0, 1), (0, 1, 1), (0, 1, 3), (0, 1, -4), (0, 1, 2, 2), ((),)):
        with pytest.raises(ValueError):
            t.transpose(*axes)
    assert mt.zeros(()).T.shape == mt.zeros(()).transpose().shape == ()


def test_broadcasts_are_read_only():
    t = mt.asarray([[1], [2]])
    wide = t.broadcast_to((3, 2, 4))
    assert (wide.shape, wide.strides) == ((3, 2, 4), (0, 1, 0))
    assert wide.tolist() == np.broadcast_to(np.asarray([[1], [2]]), (3, 2, 4)).tolist()
    assert wide.readonly and not t.readonly
    with pytest.raises(ValueError, match="read-only"):
        wide.fill(0)
    assert wide[0, 0].readonly
    assert mt.zeros(()).broadcast_to(3).tolist() == [0, 0, 0]
    assert mt.zeros(1).broadcast_to((2, 0)).shape == (2, 0)
    for shape in ((), (2, 3), (4, 1, 4), (2, -1), (2, 2**62, 2**62)):
        with pytest.raises(ValueError):
            (mt.zeros((2, 2)) if shape == (2, 3) else mt.asarray([[1], [2], [3]])).broadcast_to(shape)


def test_readonly_views():
    t = mt.zeros(3)
    view = t.as_readonly()
    assert view.readonly and not t.readonly and view.data_ptr == t.data_ptr
    for part in (view, view[1:], view.T, view.transpose(), view[0]):
        assert part.readonly
        with pytest.raises(ValueError, match="read-only"):
            part.fill(1)
    t.fill(2)
    assert view.tolist() == [2, 2, 2]
    assert not view.copy().readonly


@pytest.mark.parametrize("dtype", ["float4_e2m1fn", "float6_e3m2fn"])
def test_packed_views_start_at_byte_boundaries(dtype):
    values = [0, 1, 2, 3, 4, 6, 0.5, 1.5, 0.25 if bits_of(dtype) == 6 else 0.5, 1, 2, 3]
    t = mt.asarray([values, values[::-1]], dtype)
    per = {4: 2, 6: 4}[bits_of(dtype)]
    assert t[1].tolist() == values[::-1]
    assert t[0, per:].tolist() == values[per:]
    assert t[0, :7].copy().tolist() == values[:7]
    assert t[:, ::3].tolist() == [values[::3], values[::-1][::3]]
    assert t[0, 2 * per :: -1].tolist() == values[2 * per :: -1]
    assert t.T.copy().tolist() == [list(p) for p in zip(values, values[::-1])]
    for key in ((0, 1), (0, slice(1, None)), (slice(None), slice(3, None))):
        with pytest.raises(ValueError, match="byte"):
            t[key]
    odd = mt.asarray([values[:3], values[:3]], "float4_e2m1fn")
    assert odd[1, 1].item() == 1  # only the outcome counts: element 4 is on a boundary, row 1 is not
    odd[:, ::2].fill(6)
    assert odd.tolist() == [[6, 1, 6], [6, 1, 6]]


# Data


@pytest.mark.parametrize("dtype", ALL)
def test_copies_are_contiguous(dtype):
    values = [[0, 1, 0], [1, 1, 0]] if dtype != "float8_e8m0fnu" else [[4, 1, 2], [1, 1, 2]]
    t = mt.asarray(values, dtype)
    copy = t.T.copy()
    assert copy.strides == (2, 1)
    assert copy.tolist() == [list(c) for c in zip(*values)]
    assert copy.data_ptr != t.data_ptr and not copy.copied
    assert t.copy().tolist() == values
    assert t.broadcast_to((2, 2, 3)).copy().tolist() == [values, values]


@pytest.mark.parametrize("dtype", ALL)
def test_fill(dtype):
    t = mt.empty((3, 3), dtype)
    t.fill(2)
    two = True if dtype == "bool" else 2
    assert t.tolist() == [[two] * 3] * 3
    t[..., :0].fill(1)
    t.fill(np.float32(1))
    assert t.tolist() == [[1] * 3] * 3
    scalar = mt.empty((), dtype)
    scalar.fill(True)
    assert scalar.item() == 1
    for bad in ("a", None, [1], [[1]]):
        with pytest.raises(TypeError):
            t.fill(bad)


def test_tolist_gives_python_numbers():
    kinds = {"bool": bool, **dict.fromkeys(INTEGERS, int), **dict.fromkeys(COMPLEX, complex)}
    for dtype in ALL:
        (value,) = mt.asarray([1], dtype).tolist()
        assert type(value) is kinds.get(dtype, float)
        assert type(mt.asarray(1, dtype).tolist()) is kinds.get(dtype, float)


def test_item():
    assert mt.asarray([[5]]).item() == 5
    for bad in (mt.arange(2), mt.arange(0)):
        with pytest.raises(ValueError):
            bad.item()


def test_repr():
    assert repr(mt.asarray([1, 20])) == "Tensor([ 1, 20], shape=(2,), dtype=int64, device=cpu)"
    assert repr(mt.asarray(1.5).as_readonly()) == (
        "Tensor(1.5, shape=(), dtype=float64, device=cpu, readonly)"
    )
    assert repr(mt.asarray([0.1], "float32")).startswith("Tensor([0.1], ")
    assert repr(mt.asarray([1 - 2j])).startswith("Tensor([1-2j], ")
    assert "True" in repr(mt.asarray(True))
    assert "1e+20" in repr(mt.asarray(1e20)) and "nan" in repr(mt.asarray(math.nan))
    large = repr(mt.arange(10**6))
    assert "..." in large and "999999" in large and len(large) < 200
    assert len(repr(mt.zeros((2,) * 20))) < 400


def test_values_cross_the_byte_borders_of_a_large_packed_tensor():
    values = [(7 * i) % 16 for i in range(1001)]
    t = mt.asarray(values, "uint4")
    assert raw(t) == bytes(
        lo | hi << 4 for lo, hi in zip(values[::2], [*values[1::2], 0], strict=True)
    )
    assert struct.unpack("<B", raw(t)[:1]) == (0 | 7 << 4,)


def test_every_function_has_a_docstring():
    for name in mt.__all__:
        assert getattr(mt, name).__doc__, name
    for name in dir(mt.Tensor):
        if not name.startswith("_"):
            assert getattr(mt.Tensor, name).__doc__, name
