"""Real libraries, both ways: every dtype they have, every layout, copy, device and read-only.

What a library refuses, or does differently, stands in its `refuses_…` and `copies_…` with the reason.
"""

import ctypes
import gc
import importlib
import re
import subprocess
import sys
import textwrap
import weakref

import pytest
import without_gil
from forge import IS_COPIED, LEGACY, READ_ONLY, look
from test_threads import child

import minitensor as mt

np = importlib.import_module("numpy")
ml_dtypes = importlib.import_module("ml_dtypes")

INTEGERS = [f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64)]
STANDARD = ["bool", *INTEGERS, "float16", "float32", "float64", "complex64", "complex128"]
FLOAT8 = ["float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]
BITS = {"bool": 8, "float6_e2m3fn": 6, "float6_e3m2fn": 6, "float4_e2m1fn": 4, **dict.fromkeys(FLOAT8, 8)}
LAYOUTS = {
    "contiguous": lambda x, wide: x,
    "transposed": lambda x, wide: x.T,
    "stepped": lambda x, wide: x[::2, 1::3],
    "reversed": lambda x, wide: x[::-1, ::-2],
    "offset": lambda x, wide: x[1:, 2:],
    "broadcast": lambda x, wide: wide(x[:1], (3, 6)),
    "size-1": lambda x, wide: x[2:3, ::4][:, 1:],
    "empty": lambda x, wide: x[:0],
    "0-d": lambda x, wide: x[1, 2, ...],
}
COPIES = [None, True, False]
FEW = ("float32", "uint8")


def bits_of(dtype):
    return BITS.get(dtype) or int("".join(filter(str.isdigit, dtype)))


def raw_bytes(dtype, seed=0):
    """24 elements of any bit pattern; every library gets the same."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 2 if dtype == "bool" else 256, 24 * max(8, bits_of(dtype)) // 8, dtype=np.uint8)
    return raw


def bits(t):
    """The elements of a Tensor, one after the other, as bytes."""
    copy = t.copy()
    return ctypes.string_at(copy.data_ptr, copy.nbytes) if copy.nbytes else b""


def ours(dtype, layout, readonly=False):
    t = mt.empty((4, 6), dtype)
    raw = raw_bytes(dtype)[: t.nbytes]
    ctypes.memmove(t.data_ptr, raw.tobytes(), t.nbytes)
    t = LAYOUTS[layout](t, lambda x, shape: x.broadcast_to(shape))
    return t.as_readonly() if readonly else t


class Library:
    """NumPy, and what the others have in common with it."""

    name = "numpy"
    dtypes = STANDARD
    layouts = list(LAYOUTS)
    takes_arguments = True  # from_dlpack has copy and device

    def __init__(self):
        self.module = importlib.import_module(self.name)
        self.from_dlpack = getattr(self.module, "from_dlpack", None)

    def make(self, raw, dtype, layout):
        """An array on the memory of `raw`."""
        return LAYOUTS[layout](raw.view(self.dtype(dtype)).reshape(4, 6), np.broadcast_to)

    def dtype(self, dtype):
        return np.dtype(dtype)

    def bits(self, x):
        return np.ascontiguousarray(x).tobytes()

    def pointer(self, x):
        return x.__array_interface__["data"][0]

    def is_readonly(self, x):
        return not x.flags.writeable

    def takes(self, t, copy, device):
        given = {k: v for k, v in (("copy", copy), ("device", device)) if v is not None}
        return self.from_dlpack(t, **given)

    def exports_refused(self, dtype, layout, copy):
        """The error of an import from this library that must fail, or None."""

    def exports_copied(self, copy):
        """Whether minitensor is given or makes a copy."""
        return copy is True

    exports_readonly = staticmethod(lambda layout: layout == "broadcast")

    def imports_refused(self, t, layout, copy):
        """The error of this library's from_dlpack of our t that must fail, or None."""

    def imports_copied(self, t, copy):
        """Whether the elements lie elsewhere afterwards; None: either."""
        return copy is True

    def imports_readonly(self, t, copied):
        return t.readonly and not copied


class NumPy(Library):
    pass


class ArrayApiStrict(Library):
    """NumPy inside, with the standard's dtypes only."""

    name = "array_api_strict"
    dtypes = [d for d in STANDARD if d != "float16"]

    def make(self, raw, dtype, layout):
        return self.module.asarray(super().make(raw, dtype, layout), copy=False)

    def inner(self, x):
        return x._array

    def bits(self, x):
        return super().bits(self.inner(x))

    def pointer(self, x):
        return super().pointer(self.inner(x))

    def is_readonly(self, x):
        return super().is_readonly(self.inner(x))

    def takes(self, t, copy, device):
        device = None if device is None else self.module.Device("CPU_DEVICE")
        return super().takes(t, copy, device)


class Torch(Library):
    """Aborts the process on negative strides (below), ignores READ_ONLY, flags no copy."""

    name = "torch"
    dtypes = [*STANDARD, "bfloat16", "complex32", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]
    layouts = [k for k in LAYOUTS if k != "reversed"]
    exports_readonly = staticmethod(lambda layout: layout == "broadcast")  # minitensor's own rule for zero strides (R29)

    def make(self, raw, dtype, layout):
        torch = self.module
        x = torch.from_numpy(raw).view(getattr(torch, dtype)).reshape(4, 6)
        return LAYOUTS[layout](x, lambda x, shape: x.expand(shape))

    def bits(self, x):
        x = x.contiguous()
        return ctypes.string_at(x.data_ptr(), x.numel() * x.element_size())

    def pointer(self, x):
        return x.data_ptr()

    def is_readonly(self, x):
        return None  # it has no such thing


class Jax(Library):
    """Hands out and asks for legacy capsules only; its arrays are compact."""

    name = "jax"
    dtypes = [d for d in STANDARD if d not in ("int64", "uint64", "float64", "complex128")] + ["bfloat16", *FLOAT8]
    # Without x64 its 64 bit types are 32 bits wide; an import of ours narrows the same way (below).

    def __init__(self):
        super().__init__()
        self.from_dlpack = importlib.import_module("jax.dlpack").from_dlpack

    def make(self, raw, dtype, layout):
        x = self.module.numpy.asarray(raw.view(getattr(ml_dtypes, dtype, dtype)).reshape(4, 6))
        return LAYOUTS[layout](x, self.module.numpy.broadcast_to)

    def bits(self, x):
        return super().bits(np.asarray(x))

    def pointer(self, x):
        return x.unsafe_buffer_pointer()

    def is_readonly(self, x):
        return True

    exports_readonly = staticmethod(lambda layout: True)  # legacy (R15)

    def takes(self, t, copy, device):
        device = None if device is None else self.module.devices("cpu")[0]
        return super().takes(t, copy, device)

    def imports_refused(self, t, layout, copy):
        if t.readonly:
            return None  # it asks for legacy, says nothing of copy, and so gets a compact copy (R15)
        if layout in ("stepped", "reversed", "offset"):
            return self.module.errors.JaxRuntimeError  # compact and permuted strides only
        if copy is False and t.data_ptr % 64:
            return ValueError  # R31: it wants alignment, else copies

    def imports_copied(self, t, copy):
        if t.readonly or t.data_ptr % 64:
            return True
        return None if copy else False  # on the CPU its copy=True shares at times

    def imports_readonly(self, t, copied):
        return True


class TvmFfi(Library):
    """Its from_dlpack has no arguments; goes by the exchange table, and drops the flags."""

    name = "tvm_ffi"
    dtypes = [*STANDARD, "bfloat16", *FLOAT8]
    layouts = [k for k in LAYOUTS if k != "reversed"]
    takes_arguments = False

    def make(self, raw, dtype, layout):
        is_numpys = dtype in STANDARD and layout != "broadcast"  # NumPy: not read-only, not without versions
        return self.module.from_dlpack(NumPy().make(raw, dtype, layout) if is_numpys else ours(dtype, layout))

    def bits(self, x):
        return bits(mt.from_dlpack(x))

    def pointer(self, x):
        return mt.from_dlpack(x).data_ptr

    def is_readonly(self, x):
        return None


class PyArrow(Library):
    """Arrow arrays: one dimension, numbers without nulls, exported only."""

    name = "pyarrow"
    dtypes = [*INTEGERS, "float16", "float32", "float64"]
    layouts = ["contiguous", "offset", "empty"]

    def make(self, raw, dtype, layout):
        pa = self.module
        x = pa.Array.from_buffers(getattr(pa, {"float16": "float16"}.get(dtype, dtype))(), 24, [None, pa.py_buffer(raw)])
        return {"contiguous": x, "offset": x[5:], "empty": x[:0]}[layout]

    def bits(self, x):
        return x.to_numpy().tobytes()

    def pointer(self, x):
        return x.to_numpy().__array_interface__["data"][0]

    def is_readonly(self, x):
        return True

    exports_readonly = staticmethod(lambda layout: True)


class Libraries(dict):
    def __missing__(self, name):
        without_gil.skip(name)


LIBRARIES = Libraries(
    {kind.name: kind() for kind in (NumPy, ArrayApiStrict, Torch, Jax, TvmFfi, PyArrow) if kind.name not in without_gil.MISSING}
)


def cells(of, *, imports):
    """The cells of a library: all dtypes contiguous, all layouts for a few dtypes; copy and device for each."""
    library = LIBRARIES[of]
    for dtype in library.dtypes:
        for layout in library.layouts:
            if layout not in ("contiguous", "stepped") and dtype not in (*FEW, library.dtypes[-1]):
                continue
            for copy in COPIES if library.takes_arguments or not imports else [None]:
                for device in (None, "cpu") if dtype in FEW and (library.takes_arguments or not imports) else [None]:
                    yield dtype, layout, copy, device


def all_cells(*, imports):
    return [
        pytest.param(LIBRARIES[name], *cell, id="-".join(map(str, (name, *cell))))
        for name in LIBRARIES if not (imports and name == "pyarrow")
        for cell in cells(name, imports=imports)
    ]  # fmt: skip


@pytest.mark.parametrize("library, dtype, layout, copy, device", all_cells(imports=False))
def test_R56_minitensor_takes(library, dtype, layout, copy, device):
    raw = raw_bytes(dtype)
    dies = weakref.ref(raw)
    x = library.make(raw, dtype, layout)
    expected, pointer = library.bits(x), library.pointer(x)
    refusal = library.exports_refused(dtype, layout, copy)
    if refusal:
        with pytest.raises(refusal):
            mt.from_dlpack(x, copy=copy, device=device)
        return
    t = mt.from_dlpack(x, copy=copy, device=device)
    copied = library.exports_copied(copy)
    assert t.dtype == dtype and t.device == (1, 0)
    if library.name != "pyarrow":
        assert t.shape == tuple(x.shape)
    assert bits(t) == expected
    assert t.copied == copied
    if t.size:
        assert (t.data_ptr == pointer) == (not copied)
    assert t.readonly == (library.exports_readonly(layout) and not copied)
    del x, raw
    gc.collect(0)
    assert bits(t) == expected
    if library.name in ("jax", "tvm_ffi"):
        return  # not made on the memory of `raw`
    assert (dies() is not None) == (not copied)
    del t
    gc.collect(0)
    assert dies() is None


@pytest.mark.parametrize("readonly", [False, True], ids=["writable", "readonly"])
@pytest.mark.parametrize("library, dtype, layout, copy, device", all_cells(imports=True))
def test_R53_takes_ours(library, dtype, layout, copy, device, readonly):
    before = mt.live_bytes()
    t = ours(dtype, layout, readonly)
    expected, pointer, shape, size, is_readonly = bits(t), t.data_ptr, t.shape, t.size, t.readonly
    if refusal := library.imports_refused(t, layout, copy):
        with pytest.raises(refusal):
            library.takes(t, copy, device)
        return
    x = library.takes(t, copy, device)
    copied = library.imports_copied(t, copy)
    assert tuple(x.shape) == shape
    assert library.bits(x) == expected
    if size and copied is not None:
        assert (library.pointer(x) == pointer) == (not copied)
    if size and library.is_readonly(x) is not None:  # empty: nothing to protect, and NumPy makes its own
        assert library.is_readonly(x) == library.imports_readonly(t, copied)
    del t
    assert library.bits(x) == expected
    del x
    if mt.live_bytes() != before:
        gc.collect()
    assert mt.live_bytes() == before


# What is not the same in every library


def ends(code):
    """How a child process ends: its status and what it says."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_R28_torch_aborts_on_negative_strides():
    """In a child process, because nothing after it would run."""
    without_gil.need("torch")
    status, out, errors = ends("""
        import torch, minitensor as mt
        t = mt.arange(6)[::-1]
        print("before", flush=True)
        torch.from_dlpack(t)
        print("survived", flush=True)
    """)
    assert out == "before\n" and status != 0 and "stride" in errors, (status, out, errors)


def test_R28_a_copy_is_the_way_around():
    torch = LIBRARIES["torch"].module
    t = mt.arange(6)[::-1]
    assert torch.from_dlpack(mt.from_dlpack(t, copy=True)).tolist() == [5, 4, 3, 2, 1, 0]
    assert torch.from_dlpack(t, copy=True).tolist() == [5, 4, 3, 2, 1, 0]  # our copy is compact


@pytest.mark.parametrize("library", ["torch", "tvm_ffi"])
def test_R11_some_ignore_read_only(library):
    """That we said it is all that we can do."""
    t = mt.zeros(3, "int32")
    assert look(t.as_readonly().__dlpack__(max_version=(1, 0))).flags == READ_ONLY
    x = LIBRARIES[library].module.from_dlpack(t.as_readonly())
    ctypes.c_int32.from_address(LIBRARIES[library].pointer(x)).value = 7
    assert t.tolist() == [7, 0, 0]


@pytest.mark.parametrize("library", ["numpy", "array_api_strict"])
def test_R11_numpy_heeds_read_only(library):
    x = LIBRARIES[library].from_dlpack(mt.zeros(3).as_readonly())
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 1


def test_R11_what_numpy_marks_read_only_stays_so_everywhere():
    a = np.arange(3)
    a.flags.writeable = False
    t = mt.from_dlpack(a)
    assert t.readonly and look(t.__dlpack__(max_version=(1, 3))).flags == READ_ONLY
    assert not np.from_dlpack(t).flags.writeable
    assert not np.from_dlpack(mt.from_dlpack(np.from_dlpack(t))).flags.writeable
    with pytest.raises(ValueError):
        t.fill(1)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "complex128"])
def test_jax_narrows_what_has_64_bits(dtype):
    jax = LIBRARIES["jax"].module
    t = mt.arange(3, dtype)
    x = LIBRARIES["jax"].from_dlpack(t)
    assert x.tolist() == [0, 1, 2]
    assert str(x.dtype) in (dtype, {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}[dtype])
    if str(x.dtype) != dtype:
        assert not jax.config.jax_enable_x64


def test_R15_jax_asks_for_legacy_and_gives_legacy():
    asked = []

    class Watched:
        def __init__(self, t):
            self.t = t

        def __dlpack__(self, **keywords):
            asked.append(keywords)
            return self.t.__dlpack__(**keywords)

        def __dlpack_device__(self):
            return self.t.__dlpack_device__()

    x = LIBRARIES["jax"].from_dlpack(Watched(mt.zeros(16)))
    assert asked and all("max_version" not in a for a in asked)
    assert look(x.__dlpack__(max_version=(1, 3))).name == LEGACY
    assert mt.from_dlpack(x).readonly and not mt.from_dlpack(x, copy=True).readonly


@pytest.mark.parametrize("library, dtype", [
    *(("numpy", d) for d in ("bfloat16", "complex32", *FLOAT8, "float6_e2m3fn", "float4_e2m1fn")),
    ("torch", "float8_e3m4"), ("torch", "float4_e2m1fn"), ("torch", "float6_e3m2fn"), ("jax", "complex32"),
    ("jax", "float6_e2m3fn"), ("array_api_strict", "bfloat16"),
])  # fmt: skip
def test_R22_what_a_library_does_not_have_it_refuses_and_lets_go(library, dtype):
    t = mt.empty((4, 6), dtype)
    before = mt.live_bytes()
    with pytest.raises(Exception) as caught:
        LIBRARIES[library].takes(t, None, None)
    assert not isinstance(caught.value, SystemError)
    del caught
    gc.collect()
    del t
    assert mt.live_bytes() < before


def test_R21_torchs_fp4_has_two_lanes_and_the_message_names_the_cure():
    torch = LIBRARIES["torch"].module
    x = torch.zeros(4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    with pytest.raises(BufferError, match="uint8"):
        mt.from_dlpack(x)
    assert mt.from_dlpack(x.view(torch.uint8)).data_ptr == x.data_ptr()


def test_R20_R30_what_numpy_cannot_say_is_its_own_error():
    strided = np.zeros(10, dtype=[("a", "u1"), ("b", "<u4")])["b"]
    for how in ({}, {"copy": False}, {"device": "cpu"}):
        with pytest.raises(BufferError):
            mt.from_dlpack(strided, **how)
    assert mt.from_dlpack(strided, copy=True).tolist() == [0] * 10
    for x in (np.arange(3, dtype=">i4"), np.zeros(3, "O"), np.zeros(3, "S2"), np.zeros(3, "M8[s]")):
        for how in ({}, {"copy": True}, {"copy": False}, {"device": "cpu"}):
            with pytest.raises(BufferError):
                mt.from_dlpack(x, **how)


EVERY_WAY = ({}, {"copy": True}, {"copy": False}, {"device": "cpu"})


def parameter(torch):
    return torch.nn.Parameter(torch.tensor([1.0, 2, 3]))


UNEXPORTABLE = {
    "requires a gradient": (lambda torch: torch.zeros(3, requires_grad=True), "x.detach()", lambda x: x.detach()),
    "parameter": (parameter, "x.detach()", lambda x: x.detach()),
    "buffer of a gradient": (lambda torch: parameter(torch) * 2, "x.detach()", lambda x: x.detach()),
    "conjugated": (lambda torch: torch.tensor([1 + 2j, 3 + 4j]).conj(), "x.resolve_conj()", lambda x: x.resolve_conj()),
    "negated": (lambda torch: torch._neg_view(torch.tensor([1.0, 2])), "x.resolve_neg()", lambda x: x.resolve_neg()),
    "conjugated and negated": (lambda torch: torch.tensor([1 + 2j, 3 + 4j]).conj().imag, "x.resolve_neg()", lambda x: x.resolve_neg()),
    "sparse": (lambda torch: torch.eye(3).to_sparse(), "x.to_dense()", lambda x: x.to_dense()),
    "sparse rows": (lambda torch: torch.eye(3).to_sparse_csr(), "x.to_dense()", lambda x: x.to_dense()),
    "mkldnn": (lambda torch: torch.eye(3).to_mkldnn(), "x.to_dense()", lambda x: x.to_dense()),
    "meta": (lambda torch: torch.zeros(3, device="meta"), "meta device", None),
    "quantized": (lambda torch: torch.quantize_per_tensor(torch.ones(3), 1.0, 0, torch.quint8), "x.dequantize()", lambda x: x.dequantize()),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", EVERY_WAY, ids=str)
@pytest.mark.parametrize("what", UNEXPORTABLE)
def test_R41_R81_what_dlpack_cannot_say_of_a_torch_tensor_is_refused_with_its_cure(what, how):
    """PyTorch's table shares a writable alias of a parameter, and its two ways give stored numbers with the wrong sign."""
    torch = LIBRARIES["torch"].module
    make, cure, cured = UNEXPORTABLE[what]
    x = make(torch)
    count = sys.getrefcount(x)
    with pytest.raises(BufferError) as caught:
        mt.from_dlpack(x, **how)
    assert type(caught.value) is BufferError and cure in str(caught.value) and "Exception raised from" not in str(caught.value)
    del caught
    assert sys.getrefcount(x) == count
    if cured:
        plain = cured(x)
        assert mt.from_dlpack(plain, **how).tolist() == plain.tolist()


def test_R54_a_torch_tensor_is_exported_twice_only_if_pytorch_may_copy_it():
    """The first export finds out whether the memory that PyTorch would read exists. Without its table, every export can be counted."""
    assert child("""
        import torch, minitensor as mt
        if "__dlpack_c_exchange_api__" in torch.Tensor.__dict__:
            del torch.Tensor.__dlpack_c_exchange_api__
        calls, export = [], torch.Tensor.__dlpack__
        torch.Tensor.__dlpack__ = lambda self, **how: calls.append(how) or export(self, **how)
        for how in ({}, {"copy": False}, {"copy": False, "device": "cpu"}, {"copy": True}, {"device": "cpu"}):
            calls.clear()
            assert mt.from_dlpack(torch.zeros(3), **how).tolist() == [0, 0, 0]
            print(len(calls))
    """).split() == ["1", "1", "1", "2", "2"]


@pytest.mark.parametrize("how", EVERY_WAY, ids=str)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_of_torch_come_in(dtype, how):
    torch = LIBRARIES["torch"].module
    x = torch.tensor([1 + 2j, 3 - 4j], dtype=getattr(torch, dtype))
    assert mt.from_dlpack(x, **how).tolist() == x.tolist()
    assert mt.from_dlpack(torch.view_as_real(x).T, **how).tolist() == torch.view_as_real(x).T.tolist()


def without_storage(torch, first):
    x = torch.arange(32.0)[first:]
    x.untyped_storage().resize_(0)
    return x


def fake(torch, first, count=2**40):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.empty(count)[first:]


def wrapper(torch, first):
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls):
            return torch.Tensor._make_wrapper_subclass(cls, (4,), strides=(1,), storage_offset=first, dtype=torch.float32)

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            raise NotImplementedError

    return Wrapper()


NO_MEMORY = {
    "resized storage": lambda torch: without_storage(torch, 16),
    "resized storage, no offset": lambda torch: without_storage(torch, 0),
    "fake": lambda torch: fake(torch, 16),
    "fake, far": lambda torch: fake(torch, 2**39),
    "fake, beyond the first usual address": lambda torch: fake(torch, 2**44, 2**45),
    "wrapper": lambda torch: wrapper(torch, 16),
    "wrapper, beyond the first usual address": lambda torch: wrapper(torch, 2**44),
    "functional": lambda torch: torch._to_functional_tensor(torch.arange(32.0)[16:]),
    "zero tensor": lambda torch: torch._efficientzerotensor(32)[16:],
}


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
@pytest.mark.parametrize("how", EVERY_WAY, ids=str)
@pytest.mark.parametrize("what", NO_MEMORY)
def test_R23_R26_a_torch_tensor_with_elements_and_without_memory_is_refused(what, how):
    """PyTorch exports NULL plus the storage offset as the address, which is not NULL, and reads it when it copies."""
    torch = LIBRARIES["torch"].module
    x = NO_MEMORY[what](torch)
    with pytest.raises(BufferError, match="no memory|data is NULL"):
        mt.from_dlpack(x, **how)


@pytest.mark.parametrize("how", EVERY_WAY, ids=str)
def test_R32_a_torch_tensor_with_elements_beyond_its_storage_is_refused_where_the_storage_is_checked(how):
    """PyTorch itself reads beyond the storage. For a plain tensor that is shared, the check would be slow in comparison with the import."""
    torch = LIBRARIES["torch"].module

    class Plain(torch.Tensor):
        pass

    for view, enough in (((lambda x: x), 128), ((lambda x: x[1::2]), 128), ((lambda x: x[8:16]), 64), ((lambda x: x[:4].expand(3, 4)), 16)):
        whole = torch.arange(32, dtype=torch.int32)
        x = view(whole)
        for kind in (torch.Tensor, Plain):
            if kind is torch.Tensor and how.get("copy") is not True and "device" not in how:
                continue
            whole.untyped_storage().resize_(enough)
            y = x.as_subclass(kind)
            assert mt.from_dlpack(y, **how).tolist() == x.tolist()
            whole.untyped_storage().resize_(enough - 4)
            with pytest.raises(BufferError, match="beyond the end of its storage"):
                mt.from_dlpack(y, **how)


def test_R26_a_torch_tensor_without_elements_needs_no_memory():
    torch = LIBRARIES["torch"].module
    for x in (torch.zeros(0), torch.arange(8)[4:4], without_storage(torch, 32)):
        for how in EVERY_WAY:
            assert mt.from_dlpack(x, **how).tolist() == []


def test_R41_the_dlpack_of_a_subclass_of_a_torch_tensor_may_detach():
    torch = LIBRARIES["torch"].module

    class Detaches(torch.Tensor):
        def __dlpack__(self, **how):
            return torch.Tensor.__dlpack__(self.detach(), **how)

    class Plain(torch.Tensor):
        pass

    for how in EVERY_WAY:
        assert mt.from_dlpack(torch.zeros(3).as_subclass(Detaches).requires_grad_(), **how).tolist() == [0, 0, 0]
        with pytest.raises(BufferError, match="detach"):
            mt.from_dlpack(torch.zeros(3).as_subclass(Plain).requires_grad_(), **how)


@pytest.mark.parametrize("how", EVERY_WAY, ids=str)
def test_R41_the_dlpack_of_a_subclass_of_a_torch_tensor_does_not_export_the_bits_of_lazy_views(how):
    torch = LIBRARIES["torch"].module

    class Own(torch.Tensor):
        def __dlpack__(self, **_):
            return torch.utils.dlpack.to_dlpack(self.detach())

    for make, cure in ((UNEXPORTABLE["negated"][0], "x.resolve_neg()"), (UNEXPORTABLE["conjugated"][0], "x.resolve_conj()")):
        x = make(torch).as_subclass(Own)
        with pytest.raises(BufferError) as caught:
            mt.from_dlpack(x, **how)
        assert cure in str(caught.value)
    if how != {"copy": False}:
        assert mt.from_dlpack(torch.tensor([1 + 2j]).as_subclass(Own), **how).tolist() == [1 + 2j]


@pytest.mark.parametrize("how", EVERY_WAY, ids=str)
@pytest.mark.parametrize("what", ["parameter", "negated", "conjugated"])
def test_R41_a_subclass_of_a_torch_tensor_does_not_hide_what_dlpack_cannot_say(what, how):
    torch = LIBRARIES["torch"].module

    class Function(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            if getattr(function, "__name__", "") in ("is_neg", "is_conj") or "requires_grad" in str(function):
                return False
            return super().__torch_function__(function, types, args, kwargs or {})

    class Attribute(torch.Tensor):
        requires_grad = False
        is_neg = is_conj = lambda self: False

    make, cure, _ = UNEXPORTABLE[what]
    for kind in (Function, Attribute):
        with pytest.raises(BufferError, match=re.escape(cure)):
            mt.from_dlpack(make(torch).as_subclass(kind), **how)


def test_R41_a_subclass_of_a_torch_tensor_may_export_another_tensor():
    torch = LIBRARIES["torch"].module
    inner = torch.arange(4.0)

    class Method(type(wrapper(torch, 16))):
        def __dlpack__(self, **how):
            return inner.__dlpack__(**how)

        def __dlpack_device__(self):
            return inner.__dlpack_device__()

    for how in EVERY_WAY:
        assert mt.from_dlpack(Method(), **how).tolist() == inner.tolist()


@pytest.mark.parametrize("how", EVERY_WAY, ids=str)
def test_R41_a_class_with_attribute_names_of_torch_is_not_a_torch_tensor(how):
    class Variable:
        requires_grad = True
        is_neg = is_conj = lambda self: True

        def __dlpack__(self, **how):
            return np.arange(3.0).__dlpack__(**how)

        def __dlpack_device__(self):
            return (1, 0)

    assert mt.from_dlpack(Variable(), **how).tolist() == [0, 1, 2]


def test_R41_torch_without_a_table_is_held_to_the_same(monkeypatch):
    torch = LIBRARIES["torch"].module
    for name in ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"):
        monkeypatch.delattr(torch.Tensor, name, raising=False)
    assert mt.from_dlpack(torch.zeros(3)).tolist() == mt.from_dlpack(torch.zeros(3)).tolist() == [0, 0, 0]
    for what in ("parameter", "conjugated", "negated"):
        make, cure, _ = UNEXPORTABLE[what]
        with pytest.raises(BufferError) as caught:
            mt.from_dlpack(make(torch))
        assert cure in str(caught.value)


def test_pyarrow_exports_no_nulls_and_no_bits():
    pa = LIBRARIES["pyarrow"].module
    for x in (pa.array([1, None]), pa.array([True, False]), pa.array(["a"])):
        with pytest.raises((TypeError, BufferError, ValueError, NotImplementedError)):
            mt.from_dlpack(x)


def test_pyarrow_takes_no_dlpack():
    assert not hasattr(LIBRARIES["pyarrow"].module, "from_dlpack")


def test_R25_numpy_has_up_to_64_dimensions():
    assert np.from_dlpack(mt.zeros((1,) * 64)).ndim == 64
    with pytest.raises((RuntimeError, ValueError, BufferError)):
        np.from_dlpack(mt.zeros((1,) * 65))
    assert mt.from_dlpack(np.zeros((1,) * 64)).ndim == 64


@pytest.mark.parametrize("copy", COPIES)
def test_R12_numpys_flags_come_through(copy):
    a = np.arange(6)
    t = mt.from_dlpack(a, copy=copy)
    assert t.copied == (copy is True) and (t.data_ptr == a.ctypes.data) == (copy is not True) and not t.readonly
    assert look(a.__dlpack__(max_version=(1, 0), copy=True)).flags == IS_COPIED


@pytest.mark.parametrize("library", ["torch", "tvm_ffi", "jax"])
def test_R12_a_copy_is_ours_where_the_library_does_not_say_that_it_copied(library):
    x = LIBRARIES[library].make(raw_bytes("float32"), "float32", "contiguous")
    t = mt.from_dlpack(x, copy=True)
    assert t.copied and not t.readonly and t.data_ptr != LIBRARIES[library].pointer(x)


def test_writes_are_seen_on_both_sides():
    torch, tvm_ffi = LIBRARIES["torch"].module, LIBRARIES["tvm_ffi"].module
    t = mt.zeros((2, 3), "float32")
    n, x, v = np.from_dlpack(t), torch.from_dlpack(t), mt.from_dlpack(tvm_ffi.from_dlpack(t))
    n[0, 0], x[1, 2] = 1, 2
    v[0, 1].fill(3)
    assert t.tolist() == n.tolist() == x.tolist() == v.tolist() == [[1, 3, 0], [0, 0, 2]]


def test_a_round_trip_through_every_library_shares():
    torch, tvm_ffi = LIBRARIES["torch"].module, LIBRARIES["tvm_ffi"].module
    t = mt.arange(16, "float32")
    x = t
    for step in (np.from_dlpack, mt.from_dlpack, torch.from_dlpack, mt.from_dlpack, tvm_ffi.from_dlpack, mt.from_dlpack, np.from_dlpack):
        x = step(x)
    assert x.ctypes.data == t.data_ptr
    del t
    gc.collect()
    assert x.tolist() == list(range(16))


@pytest.mark.parametrize("library, error", [("numpy", BufferError), ("array_api_strict", BufferError), ("torch", (BufferError, ValueError, RuntimeError, AssertionError))])
def test_R40_R81_devices_that_are_not_there_are_errors(library, error):
    """Torch is asked first, and its own error comes through: which one depends on how it was built."""
    x = LIBRARIES[library].make(raw_bytes("float32"), "float32", "contiguous")
    for copy in (None, True, False):
        with pytest.raises(error):
            mt.from_dlpack(x, device="cuda", copy=copy)


def test_R67_an_exception_in_flight_survives_the_release_of_a_numpy_array():
    def one_tensor_then_an_error():
        yield mt.from_dlpack(np.arange(1000))
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        list(one_tensor_then_an_error())


def test_R59_imports_by_real_libraries_leak_nothing():
    torch = LIBRARIES["torch"].module
    t, a, x = mt.arange(16, "float32"), np.arange(16.0), torch.arange(16)
    live, counts = mt.live_bytes(), [sys.getrefcount(o) for o in (t, a, x)]
    for _ in range(3000):
        np.from_dlpack(t), torch.from_dlpack(t), mt.from_dlpack(a), mt.from_dlpack(x), mt.from_dlpack(x, device="cpu")
    assert (mt.live_bytes(), [sys.getrefcount(o) for o in (t, a, x)]) == (live, counts)
