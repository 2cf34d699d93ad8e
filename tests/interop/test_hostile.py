"""Misbehaving producers and arguments: nothing crashes, and no invalid tensor is accepted."""

import subprocess
import sys

import minitensor as mt
import numpy as np
import pytest
import torch
from test_threads import child


def test_R41_a_conjugated_tensor_of_torch_is_refused_with_the_error_of_torch():
    """R41, R81: torch's exchange table passes the stored numbers on; its __dlpack__ says no."""
    stored = torch.tensor([1 + 2j, 3 - 4j])
    assert mt.from_dlpack(stored).tolist() == [1 + 2j, 3 - 4j]
    for how in ({}, {"copy": True}, {"device": "cpu"}):
        with pytest.raises(BufferError, match="conj"):
            mt.from_dlpack(stored.conj(), **how)
    assert mt.from_dlpack(stored.conj().resolve_conj()).tolist() == [1 - 2j, 3 + 4j]


def test_R69_the_table_of_a_base_is_not_used_for_a_type_with_its_own_dlpack():
    class Own(torch.Tensor):
        def __dlpack__(self, **_):
            raise BufferError("not this one")

    with pytest.raises(BufferError, match="not this one"):
        mt.from_dlpack(torch.zeros(3).as_subclass(Own))

    class Inherits(torch.Tensor):
        pass

    x = torch.zeros(3).as_subclass(Inherits)
    assert mt.from_dlpack(x).data_ptr == x.data_ptr()


@pytest.mark.parametrize("argument", ["dl_device", "max_version"])
def test_R52_a_list_that_is_emptied_while_it_is_read(argument):
    class Clears:
        def __index__(self):
            pair.clear()
            return 1

    pair = [Clears(), 0]
    mt.zeros(4).__dlpack__(**{argument: pair})
    pair.extend([Clears(), 0])
    assert mt.from_dlpack(mt.zeros(4), device=pair).tolist() == [0] * 4


class Key(str):
    """A key of a class that compares as a test wants it to when the exchange table is looked up."""

    def __hash__(self):
        return hash("__dlpack_c_exchange_api__")

    def __eq__(self, other):
        return self.compare()


def test_a_class_that_changes_its_bases_while_it_is_inspected():
    """In a process of its own, with memory that is overwritten when it is freed: it crashed."""
    child("""
        from test_hostile import Key
        import minitensor as mt

        class One:
            pass

        for _ in range(40):
            One = type("One", (One,), {})

        class Other:
            pass

        def change():
            Changes.__bases__ = (Other,) if Changes.__bases__ == (One,) else (One,)
            return False

        key = Key("key")
        Changes = type("Changes", (One,), {key: 1})
        key.compare = change
        try:
            mt.from_dlpack(Changes())
        except TypeError as e:
            assert "__dlpack__" in str(e)
    """, python_malloc="debug")


@pytest.mark.parametrize("method", ["functools.partialmethod(export, 'plain')", "PerClass()"])
def test_a_method_that_is_created_at_each_look_up(method):
    """The cache of methods kept one that had died: it crashed, or called another class's function."""
    child(f"""
        import functools
        import minitensor as mt

        def export(self, flavour, **how):
            return self.array.__dlpack__(**how)

        class PerClass:
            def __get__(self, instance, owner):
                if instance is None:
                    return lambda self, **how: mt.zeros(2).__dlpack__(**how)
                return functools.partial(export, instance, "plain")

        class P:
            __slots__ = ("array",)
            __dlpack__ = {method}
            def __init__(self, array):
                self.array = array
            def __dlpack_device__(self):
                return 1, 0

        x = P(mt.asarray([1, 2]))
        for _ in range(5):
            assert mt.from_dlpack(x).tolist() == [1, 2]
            junk = [(lambda *a, **k: None) for _ in range(50)]
    """)


def test_an_error_of_a_key_comparison_is_raised():
    key = Key("key")
    key.compare = lambda: False
    Raises = type("Raises", (), {key: 1, "__dlpack__": lambda self, **_: mt.zeros(3).__dlpack__()})

    def compare():
        raise Mine

    key.compare = compare
    with pytest.raises(Mine):
        mt.from_dlpack(Raises())


class Mine(Exception):
    pass


def test_an_array_interface_that_is_emptied_while_it_is_read():
    """In a process of its own, with memory that is overwritten when it is freed: it crashed."""
    child("""
        import minitensor as mt

        class Clears:
            def __index__(self):
                facts.clear()
                return 4096

        class Flag:
            pass

        facts = {"shape": (3,), "typestr": "<f4", "version": 3, "data": tuple([Clears(), Flag()])}
        try:
            mt.from_dlpack(type("X", (), {"__cuda_array_interface__": facts})())
        except (BufferError, ValueError) if hasattr(mt.Tensor, "__cuda_array_interface__") else TypeError:
            pass  # no device, no such memory, or the missing shape; without CUDA, minitensor does not read the dict
    """, python_malloc="debug")


def test_errors_of_an_index_are_raised():
    class Interrupts:
        def __index__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mt.zeros(4).__dlpack__(max_version=(1, Interrupts()))


def test_R54_a_copied_capsule_needs_no_copy():
    capsule = mt.zeros(4).__dlpack__(copy=True, max_version=(1, 0))
    assert mt.from_dlpack(capsule, copy=False).copied


@pytest.mark.parametrize("body", ["t.__dlpack__(copy=True, max_version=(1, 0))", "mt.from_dlpack(a, copy=True)", "t.copy()", "t.fill(1)"])
def test_R66_threads_that_work_when_the_interpreter_ends(body):
    """R66: a thread that wants the GIL back after the end of the interpreter waits; the process ends as it should."""
    program = (
        "import minitensor as mt, numpy as np, threading\n"
        "a = np.arange(1000000); t = mt.from_dlpack(a)\n"
        "at_work = threading.Barrier(5)\n"
        f"def work():\n    {body}\n    at_work.wait()\n    while True: {body}\n"
        "for _ in range(4): threading.Thread(target=work, daemon=True).start()\n"
        "at_work.wait()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
