"""`__dlpack__` and from_dlpack as protocols (R4, R37, R38, R52–R64, R81): arguments, versions, flags, and producers of every age."""

import ctypes
import pathlib
import subprocess
import sys

import leaking
import pytest
from forge import DATA, INT32, IS_COPIED, LEGACY, READ_ONLY, USED_LEGACY, USED_VERSIONED, VERSIONED, Forged, Producer, look, name_of, products
from leaking import LOOPS

import minitensor as mt

VALUES = [[0, 1, 2], [3, 4, 5]]
OURS = (1, 3)
INDEX = type("Index", (), {"__init__": lambda self, n: setattr(self, "n", n), "__index__": lambda self: self.n})


def tensor():
    return mt.asarray(VALUES, "int32")


def built_without_cuda():
    try:
        mt.zeros(1, device="cuda")
    except BufferError as e:
        return "built without CUDA" in str(e)
    return False


needs_cuda_build = pytest.mark.skipif(built_without_cuda(), reason="minitensor was built without CUDA")


def is_both(error):
    return isinstance(error, BufferError) and isinstance(error, ValueError)


# The arguments of __dlpack__


@pytest.mark.parametrize("stream", [None, -1, INDEX(-1)], ids=repr)
def test_R46_the_cpu_takes_no_stream_or_no_sync(stream):
    assert look(tensor().__dlpack__(stream=stream)).name == LEGACY


@pytest.mark.parametrize("how", [{}, {"dl_device": (1, 0)}, {"copy": True}, {"max_version": OURS}], ids=str)
@pytest.mark.parametrize("stream", [0, 1, 2, 3, -2, -(10**30), 10**30, 2**63, 1.0, "1", True, False, (), object()], ids=repr)
def test_R44_R46_any_other_stream_is_a_value_error(stream, how):
    with pytest.raises(ValueError, match="stream") as caught:
        tensor().__dlpack__(stream=stream, **how)
    assert not isinstance(caught.value, BufferError)


@pytest.mark.parametrize(
    "max_version",
    [1, 1.0, "1.0", (), (1,), (1, 0, 0), (1.0, 0), (1, 0.0), ("1", "0"), (None, None), (1, None), {1, 0}, {1: 0}, object()],
    ids=repr,
)
def test_R52_a_max_version_of_a_wrong_type_is_a_type_error_as_in_numpy(max_version):
    with pytest.raises(TypeError, match="max_version"):
        tensor().__dlpack__(max_version=max_version)


def test_R57_a_negative_minor_version_is_a_value_error():
    with pytest.raises(ValueError, match="max_version"):
        tensor().__dlpack__(max_version=(1, -1))


@pytest.mark.parametrize(
    "dl_device", [1, "cpu", (), (1,), (1, 0, 0), ("cpu", 0), (1, None), (1.0, 0), (2**31, 0), (1, 2**40), {1, 0}, object()], ids=repr
)
def test_a_bad_dl_device_is_a_value_error(dl_device):
    with pytest.raises(ValueError, match="dl_device") as caught:
        tensor().__dlpack__(dl_device=dl_device)
    assert not isinstance(caught.value, BufferError)


@pytest.mark.parametrize("copy", [0, 1, "True", "", [], 1.0, object()], ids=repr)
def test_a_bad_copy_is_a_value_error(copy):
    with pytest.raises(ValueError, match="copy"):
        tensor().__dlpack__(copy=copy)


@pytest.mark.parametrize("dl_device", [(0, 0), (5, 0), (6, 0), (22, 0), (-1, 0), (99, 0), (2, -1)])
def test_R34_R81_a_device_that_is_none_is_a_buffer_error(dl_device):
    with pytest.raises(BufferError):
        tensor().__dlpack__(dl_device=dl_device)


@pytest.mark.parametrize("dl_device", [(2, 0), (2, 7), (3, 0), (4, 0), (10, 0), (13, 0)])
def test_R40_R53_a_device_that_cannot_be_had_is_a_buffer_error(dl_device):
    for copy in (None, True, False):
        with pytest.raises(BufferError) as caught:
            tensor().__dlpack__(dl_device=dl_device, copy=copy)
        assert is_both(caught.value) == (copy is False)


@pytest.mark.parametrize("dl_device", [None, (1, 0), [1, 0], (INDEX(1), 0), (1, 5)], ids=repr)
@pytest.mark.parametrize("copy", [None, False])
def test_R35_R53_the_own_device_shares(dl_device, copy):
    t = tensor()
    seen = look(t.__dlpack__(dl_device=dl_device, copy=copy, max_version=OURS))
    assert (seen.data, seen.device, seen.flags) == (t.data_ptr, (1, 0), 0)


def test_R52_only_an_unknown_keyword_or_a_positional_argument_is_a_type_error():
    t = tensor()
    for arguments, keywords in (
        ((None,), {}), ((None, (1, 0)), {}), ((-1,), {"copy": True}), ((), {"version": (1, 0)}), ((), {"device": (1, 0)}),
        ((), {"Stream": None}), ((), {"": None}), ((), {"stream": None, "é": 1}), ((), {"stream": 7, "unknown": 1}),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            t.__dlpack__(*arguments, **keywords)
    for arguments, keywords in (((1,), {}), ((), {"x": 1})):
        with pytest.raises(TypeError):
            t.__dlpack_device__(*arguments, **keywords)
    # Names that are equal, but not the same object.
    assert look(t.__dlpack__(**{"".join(["max_", "version"]): OURS, "".join(["co", "py"]): True})).flags == IS_COPIED


def test_the_methods_refuse_objects_of_other_types():
    for other in (None, 1, object(), mt.Tensor, mt.Tensor.__new__(mt.Tensor)):
        with pytest.raises(TypeError):
            mt.Tensor.__dlpack__(other)
        with pytest.raises(TypeError):
            mt.Tensor.__dlpack_device__(other)


def test_R52_the_signature_can_be_read():
    import inspect

    signature = inspect.signature(mt.Tensor.__dlpack__)
    assert [(p.name, p.kind.name, p.default) for p in list(signature.parameters.values())[1:]] == [
        (name, "KEYWORD_ONLY", None) for name in ("stream", "max_version", "dl_device", "copy")
    ]
    assert "keyword" not in (mt.Tensor.__dlpack_device__.__doc__ or "") and list(inspect.signature(mt.from_dlpack).parameters) == [
        "x", "device", "copy",
    ]  # fmt: skip


# The arguments of from_dlpack


def test_from_dlpack_takes_one_positional_argument():
    for arguments, keywords in (((), {}), ((1, 2), {}), ((), {"x": 1}), ((tensor(),), {"stream": 1}), ((tensor(),), {"": 1})):
        with pytest.raises(TypeError):
            mt.from_dlpack(*arguments, **keywords)


@pytest.mark.parametrize("how", [{"copy": 0}, {"copy": "no"}, {"device": ""}, {"device": "cpu:x"}, {"device": 1}, {"device": (1,)},
                                 {"device": (1, "0")}, {"device": object()}, {"device": Producer(None, device=1)}], ids=str)  # fmt: skip
def test_bad_values_are_value_errors_and_nobody_is_asked(how):
    producer = Producer(None)
    with pytest.raises(ValueError):
        mt.from_dlpack(producer, **how)
    assert producer.asked == []


@pytest.mark.parametrize("device", [None, "cpu", "cpu:0", (1, 0), [1, 0], Producer(None, device=(1, 0))], ids=["None", "cpu", "cpu:0", "pair", "list", "object"])
def test_the_cpu_by_every_name(device):
    t = tensor()
    assert mt.from_dlpack(t, device=device).data_ptr == t.data_ptr


def test_errors_of_the_device_object_come_through():
    class Bad:
        def __dlpack_device__(self):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        mt.from_dlpack(tensor(), device=Bad())


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "cuda_host", "cuda_managed", (2, 0), (13, 0)], ids=str)
@pytest.mark.parametrize("copy", [None, True, False])
def test_R40_a_device_without_driver_is_a_buffer_error(device, copy):
    with pytest.raises(BufferError) as caught:
        mt.from_dlpack(tensor(), device=device, copy=copy)
    assert is_both(caught.value) == (copy is False)


# Versions


@pytest.mark.parametrize("dtype, least", [("int32", 0), ("bool", 0), ("bfloat16", 0), ("float8_e4m3fn", 1), ("float6_e2m3fn", 1), ("float4_e2m1fn", 1)])
@pytest.mark.parametrize("asked", [(1, n) for n in (0, 1, 2, 3, 4, 99, 2**32, 2**70)] + [(2, 0), (99, 1), (2**70, 0)])
@pytest.mark.parametrize("copy", [None, True, False])
def test_R4_R57_the_stamp_is_what_was_asked_but_no_less_than_the_data_needs(dtype, least, asked, copy):
    seen = look(mt.zeros((2, 2), dtype).__dlpack__(max_version=asked, copy=copy))
    expected = min(asked[1], OURS[1]) if asked[0] == 1 else OURS[1]
    assert (seen.name, seen.version) == (VERSIONED, (1, max(expected, least)))


@pytest.mark.parametrize("asked", [None, (0, 0), (0, 8), (0, 99), (-1, 0), (-(2**70), 3)])
@pytest.mark.parametrize("copy", [None, True, False])
def test_R57_no_version_or_a_major_below_1_gets_the_legacy_struct(asked, copy):
    t = tensor()
    seen = look(t.__dlpack__(max_version=asked, copy=copy))
    assert seen.name == LEGACY and seen.strides == (3, 1)
    assert (seen.data == t.data_ptr) == (copy is not True)


# Flags

READS = products(copy=[None, True, False], readonly=[False, True], legacy=[False, True])


@pytest.mark.parametrize("case", READS, ids=str)
def test_R11_R12_R15_R53_what_is_shared_and_what_is_copied(case):
    t = tensor().as_readonly() if case["readonly"] else tensor()
    call = {"copy": case["copy"], "max_version": None if case["legacy"] else OURS}
    cannot_say = case["legacy"] and case["readonly"]
    if cannot_say and case["copy"] is False:
        with pytest.raises(BufferError) as caught:
            t.__dlpack__(**call)
        assert is_both(caught.value) and str(caught.value).endswith("(copy=False): request max_version=(1, 0)")
        return
    before = mt.live_bytes()
    capsule = t.__dlpack__(**call)
    seen = look(capsule)
    copied = case["copy"] is True or cannot_say
    assert (seen.data != t.data_ptr) == copied
    assert mt.live_bytes() - before == (24 if copied else 0)
    if not case["legacy"]:
        assert seen.flags == (IS_COPIED if copied else READ_ONLY if case["readonly"] else 0)
    got = mt.from_dlpack(capsule)
    assert got.tolist() == VALUES and got.copied == (copied and not case["legacy"])
    assert got.readonly == (case["legacy"] or (case["readonly"] and not copied))


def test_R12_an_export_that_shares_never_says_copied():
    t = mt.from_dlpack(tensor(), copy=True)
    assert t.copied
    assert look(t.__dlpack__(max_version=OURS)).flags == 0
    assert not mt.from_dlpack(t).copied


def test_R11_read_only_survives_a_chain_of_exports():
    t = tensor().as_readonly()
    for _ in range(4):
        t = mt.from_dlpack(t)
        assert t.readonly and look(t.__dlpack__(max_version=OURS)).flags == READ_ONLY


def test_R12_a_copy_is_the_receivers_alone():
    t = tensor()
    copy = mt.from_dlpack(t, copy=True)
    copy.fill(7)
    assert t.tolist() == VALUES and not copy.readonly and copy.strides == (3, 1) and copy.data_ptr % 256 == 0


@pytest.mark.parametrize("view", [lambda t: t.T, lambda t: t[:, ::-1], lambda t: t[::-1, ::2], lambda t: t[1], lambda t: t[1, 2], lambda t: t[:0]])
def test_R23_R24_R26_what_an_export_says(view):
    t = view(tensor())
    for version in (None, (1, 0), OURS):
        seen = look(t.__dlpack__(max_version=version))
        assert (seen.data, seen.byte_offset, seen.shape, seen.device) == (t.data_ptr, 0, t.shape, (1, 0))
        assert seen.strides == t.strides and seen.dtype == INT32
        copy = look(t.__dlpack__(max_version=version, copy=True))
        assert (copy.shape, copy.dtype) == (t.shape, INT32) and (copy.data == 0) == (t.size == 0)
        assert mt.from_dlpack(t.__dlpack__(max_version=version, copy=True)).tolist() == t.tolist()


@pytest.mark.parametrize("key", [slice(2, None), slice(None, None, 2), slice(None, None, -2)])
def test_R19_R21_packed_views_are_shared_where_their_first_element_can_be_described(key):
    t = mt.asarray([0, 1, 2, 3, 4, 6, 0.5], "float4_e2m1fn")[key]
    shared = mt.from_dlpack(t, copy=False)
    assert shared.data_ptr == t.data_ptr and shared.tolist() == t.tolist()
    assert mt.from_dlpack(t, copy=True).tolist() == t.tolist()


# R59: repeatable, dropped, leak-free


@pytest.mark.parametrize("loop", LOOPS)
def test_R59_repeated_calls_leak_nothing(loop):
    """Neither a byte of the tensors', nor a block or a reference for every second call: what is kept once is no leak."""
    done = subprocess.run([sys.executable, pathlib.Path(leaking.__file__), loop], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-3000:]
    of_tensors, of_malloc, blocks, *references = map(float, done.stdout.split())
    assert of_tensors == 0
    assert of_malloc < 8  # bytes: the least that malloc gives is 24
    assert blocks < 0.5 and all(abs(n) < 0.5 for n in references)


def test_R59_many_exports_at_once():
    t = tensor()
    capsules = [t.__dlpack__(max_version=OURS) for _ in range(1000)]
    assert {look(c).data for c in capsules} == {t.data_ptr}
    users = [mt.from_dlpack(c) for c in capsules]
    del t, capsules
    assert all(u.tolist() == VALUES for u in users)


# R60–R64: our own capsules


@pytest.mark.parametrize("version, name, used", [(None, LEGACY, USED_LEGACY), (OURS, VERSIONED, USED_VERSIONED)])
def test_R60_R62_R63_R64_our_own_capsules(version, name, used):
    t = tensor()
    capsule = t.__dlpack__(max_version=version)
    assert name_of(capsule) == name
    got = mt.from_dlpack(capsule)
    assert name_of(capsule) == used and got.data_ptr == t.data_ptr
    for _ in range(2):
        with pytest.raises(ValueError, match="consumed already"):
            mt.from_dlpack(capsule)
    del t, capsule
    assert got.tolist() == VALUES


# Producers of every age


def forged(**fields):
    """An answer that is a fresh capsule, and the tensors that were handed out."""
    made = []

    def answer(**_):
        made.append(Forged(**fields))
        return made[-1].capsule()

    return answer, made


class Age0(Producer):
    def __dlpack__(self):
        self.asked.append({})
        return self.answer()


class Age1(Producer):
    def __dlpack__(self, stream=None):
        self.asked.append({"stream": stream})
        return self.answer()


class Age2(Producer):
    def __dlpack__(self, *, stream=None, max_version=None):
        self.asked.append({"max_version": max_version})
        return self.answer()


class Age3(Producer):
    """Of today, but what it does about copy and dl_device is to ignore them."""

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.asked.append({"max_version": max_version, "dl_device": dl_device, "copy": copy})
        return self.answer()


class Refuses(Producer):
    """Of today, and cannot copy: says so in one of the ways that are seen."""

    error = BufferError

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.asked.append({"max_version": max_version, "dl_device": dl_device, "copy": copy})
        if copy is True or (dl_device is not None and copy is not False):
            raise self.error("cannot copy")
        return self.answer()


class RefusesByValueError(Refuses):
    error = ValueError


AGES = [Age0, Age1, Age2, Age3, Refuses, RefusesByValueError]


@pytest.mark.parametrize("versioned", [True, False], ids=["versioned", "legacy"])
@pytest.mark.parametrize("age", AGES)
@pytest.mark.parametrize("how", products(copy=[None, True, False], device=[None, "cpu", (1, 0)]), ids=str)
def test_R56_R58_every_age_gives_what_was_asked_for(age, versioned, how):
    answer, made = forged(versioned=versioned)
    producer = age(answer)
    t = mt.from_dlpack(producer, **how)
    assert t.tolist() == VALUES
    assert t.copied == (how["copy"] is True) and (t.data_ptr == DATA) == (how["copy"] is not True)
    assert t.readonly == (not versioned and not t.copied)
    assert len(producer.asked) <= 4
    assert [f.deletions for f in made] == [int(t.copied)]
    del t
    assert [f.deletions for f in made] == [1]


@pytest.mark.parametrize("how, expected", [
    ({}, {"max_version": OURS}),
    ({"copy": None, "device": None}, {"max_version": OURS}),
    ({"copy": True}, {"max_version": OURS, "copy": True}),
    ({"copy": False}, {"max_version": OURS, "copy": False}),
    ({"device": "cpu"}, {"max_version": OURS, "dl_device": (1, 0)}),
    ({"device": "cpu", "copy": True}, {"max_version": OURS, "dl_device": (1, 0), "copy": True}),
], ids=str)  # fmt: skip
def test_R56_the_request_is_forwarded_in_one_call(how, expected):
    producer = Producer(forged(flags=IS_COPIED if how.get("copy") else 0)[0])
    mt.from_dlpack(producer, **how)
    assert producer.asked == [expected]


@needs_cuda_build
@pytest.mark.parametrize("device", [(2, 0), (13, 0)], ids=["cuda", "cuda_managed"])
@pytest.mark.parametrize("how, said", [
    ({}, {}), ({"copy": True}, {}), ({"device": "cpu"}, {}), ({"device": "cuda_host"}, {}), ({"device": "cuda_managed"}, {}),
    ({"device": "cpu", "copy": True}, {}), ({"copy": False}, {"copy": False}),
], ids=str)  # fmt: skip
def test_R56_a_producer_on_a_gpu_is_asked_to_share_and_copies_nothing(device, how, said):
    """It would order the streams before it queues its copy. The memory is the host's, which the capsule says (R38)."""
    answer, made = forged()
    producer = Producer(answer, device)
    if how.get("device", "cpu") != "cpu" and not mt.cuda_available():
        with pytest.raises(BufferError):
            mt.from_dlpack(producer, **how)
    else:
        assert mt.from_dlpack(producer, **how).tolist() == VALUES
    asked = [{k: v for k, v in call.items() if k != "stream"} for call in producer.asked]
    assert asked == [{"max_version": OURS, **said}]
    assert [f.deletions for f in made] == [1]


@pytest.mark.parametrize("how, expected", [
    ({"device": "cpu"}, {"dl_device": (1, 0)}), ({"device": "cpu", "copy": True}, {"dl_device": (1, 0), "copy": True}), ({"copy": True}, {"stream": 0}),
], ids=str)  # fmt: skip
def test_R56_a_producer_on_a_gpu_that_no_back_end_reaches_is_asked_for_copies_to_the_cpu_only(how, expected):
    """It finishes those before it returns (R48). Of others it orders the streams before it queues the copy."""
    answer, made = forged()
    producer = Producer(answer, (10, 0))
    assert mt.from_dlpack(producer, **how).tolist() == VALUES
    assert producer.asked == [{"max_version": OURS, **expected}]
    assert [f.deletions for f in made] == [1]


@needs_cuda_build
@pytest.mark.parametrize("how", [{"copy": True}, {"device": "cpu"}], ids=str)
def test_R56_a_copy_on_a_stream_that_is_not_known_is_refused(how):
    """The producer shares nothing, and has no table that tells on which stream it would copy."""

    def answer(**_):
        raise BufferError("not shared")

    producer = Producer(answer, (2, 0))
    with pytest.raises(BufferError, match="the stream on which it would copy is unknown") as caught:
        mt.from_dlpack(producer, **how)
    assert str(caught.value.__cause__) == "not shared" and len(producer.asked) == 1


class Mine(Exception):
    pass


@pytest.mark.parametrize("error", [Mine, RuntimeError, KeyError, MemoryError, NotImplementedError, OSError, AttributeError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("how", [{}, {"copy": True}, {"copy": False}, {"device": "cpu"}], ids=str)
def test_R81_other_errors_of_the_producer_come_through_untouched(error, how):
    mine = error("mine")

    def answer(**_):
        raise mine

    producer = Producer(answer)
    with pytest.raises(error) as caught:
        mt.from_dlpack(producer, **how)
    assert caught.value is mine and mine.__cause__ is None and mine.__context__ is None
    assert len(producer.asked) == 1


@pytest.mark.parametrize("error", [BufferError, ValueError])
@pytest.mark.parametrize("how", [{}, {"copy": False}, {"copy": False, "device": "cpu"}], ids=str)
def test_R54_R81_a_refusal_that_no_plainer_call_can_cure_comes_through(error, how):
    mine = error("no")

    def answer(**_):
        raise mine

    producer = Producer(answer)
    with pytest.raises(error) as caught:
        mt.from_dlpack(producer, **how)
    assert caught.value is mine and len(producer.asked) == 1


@pytest.mark.parametrize("error", [BufferError, ValueError, TypeError, Mine])
@pytest.mark.parametrize("how", [{"copy": True}, {"device": "cpu"}], ids=str)
def test_R58_the_error_of_the_last_try_comes_through(error, how):
    def answer(**keywords):
        raise error(len(producer.asked)) if len(producer.asked) > 1 else BufferError("the first")

    producer = Producer(answer)
    with pytest.raises(error) as caught:
        mt.from_dlpack(producer, **how)
    assert caught.value.args == (len(producer.asked),)
    assert len(producer.asked) == (3 if error is TypeError else 2)


def test_R58_a_type_error_that_stays_comes_through_after_few_calls():
    def answer(**_):
        raise TypeError("always")

    for how in ({}, {"copy": True}, {"copy": False}, {"device": "cpu", "copy": True}):
        producer = Producer(answer)
        with pytest.raises(TypeError, match="always"):
            mt.from_dlpack(producer, **how)
        assert 2 <= len(producer.asked) <= 4 and producer.asked[-1] == {}


@pytest.mark.parametrize("age", [Age0, Age1, Age2, Age3])
def test_R54_copy_false_never_copies(age):
    """A producer too old to be told, that says it copied: the promise cannot be kept, so the import fails."""
    answer, made = forged(flags=IS_COPIED)
    with pytest.raises(BufferError) as caught:
        mt.from_dlpack(age(answer), copy=False)
    assert is_both(caught.value) and [f.deletions for f in made] == [1]


def test_R54_the_error_of_copy_false_is_one_class_everywhere():
    errors = []
    for call in (lambda: tensor().as_readonly().__dlpack__(copy=False), lambda: mt.from_dlpack(tensor(), device="cuda", copy=False)):
        with pytest.raises(BufferError) as caught:
            call()
        errors.append(caught.type)
    assert errors[0] is errors[1] and errors[0].__mro__[1:3] == (BufferError, ValueError) and errors[0].__doc__


@pytest.mark.parametrize("device", [(1, 3), (2, 0), (3, 0), (99, 0), "nonsense", None], ids=str)
def test_R38_the_capsule_is_right_when_dlpack_device_disagrees(device):
    answer, _ = forged()
    t = mt.from_dlpack(Producer(answer, device=device))
    assert t.device == (1, 0) and t.data_ptr == DATA
    pinned = mt.from_dlpack(Producer(forged(device=(3, 0))[0], device=(1, 0)))
    assert pinned.device == (3, 0)


@pytest.mark.parametrize("error", [Mine, ValueError, BufferError, TypeError, NotImplementedError, KeyboardInterrupt])
@pytest.mark.parametrize("how", [{}, {"copy": True}, {"copy": False}, {"device": "cpu"}], ids=str)
def test_R37_R81_an_error_of_dlpack_device_comes_through(error, how):
    class Raises(Producer):
        def __dlpack_device__(self):
            raise error("mine")

    producer = Raises(forged()[0])
    with pytest.raises(error, match="mine"):
        mt.from_dlpack(producer, **how)
    assert producer.asked == []


@needs_cuda_build
@pytest.mark.parametrize("announced", [(1, 0), (2, 1), (10, 0), "nonsense"], ids=str)
@pytest.mark.parametrize("how, first", [({}, {}), ({"copy": True}, {"copy": True}), ({"device": "cpu"}, {"dl_device": (1, 0)})], ids=str)
def test_R38_R44_a_tensor_on_another_gpu_than_announced_is_requested_again_and_shared(announced, how, first):
    """The first call had no stream of that GPU. Without CUDA, minitensor then has no back end for the tensor."""
    answer, made = forged(device=(2, 0))
    producer = Producer(answer, announced)
    if not mt.cuda_available():
        with pytest.raises(BufferError):
            mt.from_dlpack(producer, **how)
        assert len(producer.asked) == 2 and producer.asked[1] == {"max_version": OURS, "stream": 1}
        assert announced != (1, 0) or producer.asked[0] == {"max_version": OURS, **first}
        assert [f.deletions for f in made] == [1, 1]


def test_R38_a_tensor_that_changes_its_device_is_refused():
    made = [Forged(device=(2, 0)), Forged(device=(2, 1))]
    capsules = [f.capsule() for f in made]
    with pytest.raises(BufferError, match="cuda:1.*cuda:0"):
        mt.from_dlpack(Producer(lambda **_: capsules.pop(0)))
    assert [f.deletions for f in made] == [1, 1]


def test_R37_R58_a_producer_without_dlpack_device_will_do():
    answer, _ = forged()
    only = type("Only", (), {"__dlpack__": lambda self, **k: answer(**k)})()
    assert mt.from_dlpack(only).tolist() == mt.from_dlpack(only, device="cpu").tolist() == VALUES


@pytest.mark.parametrize("kind", [3, 13])
@pytest.mark.parametrize("how", [{"device": "cpu"}, {"device": "cpu", "copy": False}], ids=str)
def test_R38_R39_R53_what_the_host_reads_becomes_the_cpu_without_a_copy(kind, how):
    answer, made = forged(device=(kind, 0))
    t = mt.from_dlpack(Age3(answer), **how)
    assert t.device == (1, 0) and t.data_ptr == DATA and not t.copied and t.tolist() == VALUES
    del t
    assert [f.deletions for f in made] == [1]


def test_R39_R53_pinned_memory_of_rocm_is_copied_to_the_cpu():
    answer, made = forged(device=(11, 0))
    t = mt.from_dlpack(Age3(answer, device=(11, 0)), device="cpu", copy=True)
    assert t.device == (1, 0) and t.data_ptr != DATA and t.copied and t.tolist() == VALUES
    assert [f.deletions for f in made] == [1]


@pytest.mark.parametrize("how", [{}, {"copy": True}], ids=str)
def test_R40_the_error_for_other_memory_of_rocm_names_a_cure_for_python(how):
    with pytest.raises(BufferError, match="pass device='cpu'"):
        mt.from_dlpack(Age3(forged(device=(11, 0))[0], device=(11, 0)), **how)


@pytest.mark.parametrize("how", [{"device": "cpu"}, {"copy": True}, {"copy": False}, {}], ids=str)
def test_R40_what_only_a_device_reads_is_refused_and_released(how):
    answer, made = forged(device=(2, 0))
    with pytest.raises(BufferError):
        mt.from_dlpack(Age3(answer, device=(2, 0)), **how)
    assert [f.deletions for f in made] == [1]


def test_R37_dlpack_device_is_a_pair_of_ints_without_side_effects():
    t = tensor()
    before = mt.live_bytes()
    for _ in range(100):
        pair = t.__dlpack_device__()
        assert pair == (1, 0) and type(pair) is tuple and [type(n) for n in pair] == [int, int]
    assert mt.live_bytes() == before


def test_R62_an_answer_that_is_given_twice_is_used_once():
    made = Forged()
    capsule = made.capsule()
    producer = Producer(lambda **_: capsule)
    t = mt.from_dlpack(producer)
    with pytest.raises(ValueError, match="consumed already"):
        mt.from_dlpack(producer)
    assert made.deletions == 0 and t.tolist() == VALUES


def test_R81_an_attribute_that_raises_comes_through():
    class Raises:
        @property
        def __dlpack__(self):
            raise Mine("mine")

    class Meta(type):
        @property
        def __dlpack__(cls):
            raise Mine("mine")

    for x in (Raises(), Meta("T", (), {})()):
        with pytest.raises(Mine):
            mt.from_dlpack(x)


class Forwards:
    def __init__(self, to):
        self.to = to

    def __getattr__(self, name):
        return getattr(self.to, name)


@pytest.mark.parametrize("how", [{}, {"copy": True}, {"copy": False}, {"device": "cpu"}], ids=str)
def test_R64_the_method_may_be_the_objects_own(how):
    t = tensor()
    own = type("Bare", (), {})()
    own.__dlpack__, own.__dlpack_device__ = t.__dlpack__, t.__dlpack_device__
    for x in (own, Forwards(t), Forwards(Forwards(t))):
        got = mt.from_dlpack(x, **how)
        assert got.tolist() == VALUES and (got.data_ptr == t.data_ptr) == (how != {"copy": True})
    with pytest.raises(TypeError, match="got Forwards"):
        mt.from_dlpack(Forwards(3))


def test_R81_an_error_of_getattr_comes_through():
    class Raises:
        def __getattr__(self, name):
            raise Mine(name)

    with pytest.raises(Mine, match="__dlpack__"):
        mt.from_dlpack(Raises())


def test_a_class_is_not_one_of_its_objects():
    for x in (mt.Tensor, type(Producer(None))):
        with pytest.raises(TypeError, match="expects an object with __dlpack__"):
            mt.from_dlpack(x)


def test_a_producer_may_import_and_export_while_it_is_asked():
    t = tensor()

    def answer(**keywords):
        inner = mt.from_dlpack(t, copy=True)
        with pytest.raises(TypeError):
            mt.from_dlpack(None)
        return inner.__dlpack__(**keywords)

    assert mt.from_dlpack(Producer(answer)).tolist() == VALUES


def test_R33_the_numbers_in_the_test_memory_are_still_what_they_were():
    assert (ctypes.c_int32 * 6).from_address(DATA)[:] == [0, 1, 2, 3, 4, 5]
