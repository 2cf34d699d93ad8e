"""Runs one path of a Column with its n-th allocation failing, for n = 1, 2, 3, … until it succeeds. In a child of test_failures.py.

usage: failing_columns.py PATH KINDS     (1: C++, 2: Python)     prints the number of failures
"""

import ctypes
import os
import struct as pack
import sys

import forge
from arrow_forge import Chunks, Forged, Node, Tree, struct

import minitensor as mt

probe = ctypes.PyDLL(os.environ["LD_PRELOAD"])
call = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_int, ctypes.c_long)(("probe_call", probe))
RELEASE = {kind: ctypes.cast(getattr(probe, f"probe_release_{kind}"), ctypes.c_void_p).value for kind in ("schema", "array")}

NAMES = Node(b"u", 3, (None, pack.pack("<4i", 0, 1, 2, 3), b"abc"))
NUMBERS = Node(name=b"numbers", metadata=pack.pack("<ii1si2s", 1, 1, b"k", 2, b"vw"))
BITS = Node(b"b", 3, (None, b"\5"), name=b"bits")
NULLS = Node(buffers=(b"\5", NUMBERS.buffers[1]), name=b"nulls")
GOOD = struct(NUMBERS, Node(dictionary=NAMES, name=b"words", buffers=(None, pack.pack("<3i", 2, 0, 1))), BITS, NULLS, NAMES)
WANTED = struct(Node(b"l", 3, (None, bytes(24))), Node(b"U", 3, (None, bytes(32), b"")), BITS, NULLS, Node(b"vu", 3, (None, bytes(48), None)))
BAD = struct(NUMBERS, Node(length=-1))


def tree_of(node):
    """Its release callbacks need no Python."""
    tree = Tree(node)
    tree.schema.release, tree.array.release = RELEASE["schema"], RELEASE["array"]
    return tree


def import_of(node, device=None):
    def path():
        tree = tree_of(node)
        x = Answers(Forged(tree, device), "__arrow_c_array__" if device is None else "__arrow_c_device_array__")
        return (lambda: mt.Column.from_arrow(x)), [tree]

    return path


class Answers:
    """Pairs of capsules that were made before anything can fail."""

    def __init__(self, forged, name):
        self.answer = getattr(forged, name)()
        self.kept = forged
        setattr(self, name, lambda: self.answer)


def stream_of(*nodes):
    def path():
        trees = [tree_of(nodes[0]), *map(tree_of, nodes)]
        chunks = Chunks(trees[0], trees[1:])
        trees[0].array.release = None  # only its schema is in the stream, and of the others the arrays
        for tree in trees[1:]:
            tree.schema.release = None
        not_given.extend(trees)
        return (lambda: mt.Column.from_arrow(chunks)), trees

    return path


def on_column(work):
    def path():
        tree = tree_of(GOOD)
        column = mt.Column.from_arrow(Forged(tree))
        return (lambda: work(column)), [tree]

    return path


WANTED_SCHEMA = mt.Column.from_arrow(Forged(Tree(WANTED))).__arrow_c_schema__()


def refused():
    """Without a frame of Python's: CPython itself loses the error when it has no memory for the traceback of a second one."""
    tree = tree_of(GOOD)
    return mt.Column.from_arrow(Forged(tree)).children[3].__dlpack__, [tree]


PATHS = {
    "import": import_of(GOOD),
    "import_device": import_of(GOOD, (1, -1, None)),
    "import_refused": import_of(BAD),
    "stream": stream_of(GOOD),
    "stream_refused": stream_of(GOOD, BAD),
    "joined": stream_of(GOOD, GOOD, GOOD),
    "array": on_column(lambda c: c.__arrow_c_array__()),
    "device_array": on_column(lambda c: c.__arrow_c_device_array__()),
    "requested": on_column(lambda c: c.__arrow_c_array__(WANTED_SCHEMA)),
    "schema": on_column(lambda c: c.__arrow_c_schema__()),
    "numbers": on_column(lambda c: c.children[0].__dlpack__(max_version=(1, 1))),
    "numbers_legacy": on_column(lambda c: c.children[0].__dlpack__()),
    "bits": on_column(lambda c: c.children[2].__dlpack__(max_version=(1, 1))),
    "refused_nulls": refused,
    "slice": on_column(lambda c: c[1:]),
    "children": on_column(lambda c: c.children),
    "dictionary": on_column(lambda c: c.children[1].dictionary),
    "metadata": on_column(lambda c: c.children[0].metadata),
    "name": on_column(lambda c: (c.children[0].name, c.type)),
    "validate": on_column(lambda c: c.validate(full=True)),
}


not_given = []  # of whose two structs one is out of the game


def released(trees):
    return sum(not t.schema.release for t in trees) + sum(not t.array.release for t in trees)


def main():
    path, kinds = PATHS[sys.argv[1]], int(sys.argv[2])
    expected_error = (BufferError, ValueError) if "refused" in sys.argv[1] else ()
    for _ in range(3):  # what is made once is made now
        work, _ = path()
        try:
            work()
        except expected_error:
            pass
        del work
    probe.probe_install()
    failures = 0
    for n in range(1, 2000):
        before = probe.probe_deletions()
        work, trees = path()
        missing = sum(t in not_given for t in trees)
        outcome = result = None
        try:
            result = call(work, kinds, n)
        except MemoryError:
            outcome = MemoryError
        except expected_error:
            outcome = "refused"
        failed = probe.probe_has_failed()
        assert failed or outcome is not MemoryError, (n, outcome)
        assert not forge.error_is_set(), n
        del result, work
        # An imported tree was released once; the others are unchanged.
        assert probe.probe_deletions() - before == released(trees) - missing, (n, outcome)
        if not failed:
            print(failures)
            return
        failures += 1
    raise AssertionError("it never gets by")


main()
