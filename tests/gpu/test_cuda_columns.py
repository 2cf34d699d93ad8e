"""Columns on a GPU: copies, Arrow's device interface, DLPack, and other processes."""

import ctypes
import json
import pathlib
import subprocess
import sys

import pytest

import minitensor as mt

if not mt.cuda_available():
    pytest.skip("NO CUDA DEVICE", allow_module_level=True)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
from arrow_forge import Forged, Node, Tree, array_in, device_array_in, struct  # noqa: E402

DEVICES = {"cuda": (2, 0), "cuda_host": (3, 0), "cuda_managed": (13, 0)}
TEXT = Node(b"u", 3, (None, b"\0\0\0\0\1\0\0\0\3\0\0\0\6\0\0\0", b"abbccc"), name=b"text")
NUMBERS = Node(name=b"numbers", buffers=(b"\5", b"\1\0\0\0\2\0\0\0\3\0\0\0"))
PLAIN = Node(name=b"plain")
BITS = Node(b"b", 3, (None, b"\5"), name=b"bits")


def host():
    return mt.Column.from_arrow(Forged(Tree(struct(TEXT, NUMBERS, PLAIN, BITS))))


def bytes_of(column):
    """Type, length and the bytes of the buffers of a column of the host, which the items use."""
    a = array_in(column.__arrow_c_array__()[1])
    sizes = {"u": (1, 4 * (a.length + 1), 6), "i": (1, 4 * a.length), "b": (1, 1), "+s": (1,)}[column.type]
    own = [a.buffers[i] and ctypes.string_at(a.buffers[i], n) for i, n in enumerate(sizes)]
    return [column.type, column.name, a.length, own, *map(bytes_of, column.children)]


@pytest.mark.parametrize("device", DEVICES)
def test_there_and_back(device):
    c = host()
    there = c.to(device)
    assert there.device == DEVICES[device] and [x.device for x in there.children] == [DEVICES[device]] * 4
    assert (there.type, there.length, there.offset) == ("+s", 3, 0)
    back = there.to("cpu")
    back.validate(full=True)
    assert bytes_of(back) == bytes_of(c.to("cuda_host").to("cpu"))
    assert mt.from_dlpack(back.children[2]).tolist() == [1, 2, 3] and back.children[1].null_count == 1


def test_slices_are_compacted_on_the_way():
    part = host()[1:].to("cuda")
    assert (part.offset, part.length, part.children[2].length) == (0, 2, 2)
    assert mt.from_dlpack(part.children[2]).tolist() == [2, 3]
    again = part[1:].to("cpu")
    assert again.length == 1 and mt.from_dlpack(again.children[2]).tolist() == [3]


def test_a_device_array_says_where_it_is_and_an_array_is_refused():
    c = host().to("cuda")
    with pytest.raises(BufferError):
        c.__arrow_c_array__()
    pair = c.__arrow_c_device_array__()
    d = device_array_in(pair[1])
    assert (d.device_type, d.device_id, d.sync_event, list(d.reserved)) == (2, 0, None, [0, 0, 0])
    again = mt.Column.from_arrow(c)  # by the device's protocol, since the host's refuses
    assert again.device == (2, 0) and mt.from_dlpack(again.children[2]).tolist() == [1, 2, 3]
    with pytest.raises(BufferError):
        c.validate(full=True)
    c.validate()


def test_a_device_stream_shares_the_memory_of_its_chunk():
    c = host().to("cuda")
    address = array_in_device(c.children[2]).buffers[1]
    with pytest.raises(BufferError):
        c.__arrow_c_stream__()
    (chunk,) = mt.Column.chunks_from_arrow(c)  # by the device's stream, since the host's refuses
    again = mt.Column.from_arrow(c)
    del c
    for got in (chunk, again):
        assert got.device == (2, 0) and array_in_device(got.children[2]).buffers[1] == address
        assert bytes_of(got.to("cpu")) == bytes_of(host().to("cuda_host").to("cpu"))


def test_a_requested_schema_leaves_a_column_of_a_device_as_it_is():
    text, large = host().children[0], mt.Column.from_arrow(Forged(Tree(Node(b"U", 0, (None, b"\0" * 8, b"")))))
    requested = large.__arrow_c_schema__()
    there = text.to("cuda")
    schema, array = there.__arrow_c_device_array__(requested)
    assert device_array_in(array).array.buffers[2] == array_in_device(there).buffers[2]
    assert mt.Column.from_arrow(Pair(schema, array)).type == "u"
    assert mt.Column.from_arrow(Pair(*text.__arrow_c_device_array__(requested))).type == "U"


class Pair:
    def __init__(self, *capsules):
        self.capsules = capsules

    def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
        return self.capsules


@pytest.mark.parametrize("extension", (False, True))
def test_fixed_size_lists_on_a_device_are_tensors_of_more_dimensions(extension):
    values = [[[6 * i + 2 * j + k for k in range(2)] for j in range(3)] for i in range(4)]
    t = mt.asarray(values, "int32", "cuda")
    c = mt.Column.from_dlpack(t, fixed_shape_tensor=extension)
    assert (c.device, c.length, c.type) == ((2, 0), 4, "+w:6" if extension else "+w:3")
    back = mt.from_dlpack(c)
    assert (back.device, back.shape, back.data_ptr, back.copied) == ((2, 0), (4, 3, 2), t.data_ptr, False)
    assert back.tolist() == values
    assert mt.from_dlpack(c[1:3], device="cpu").tolist() == values[1:3]


def test_numbers_share_and_booleans_are_copied():
    c = host().to("cuda")
    t = mt.from_dlpack(c.children[2])
    assert (t.device, t.readonly, t.copied, t.tolist()) == ((2, 0), True, False, [1, 2, 3])
    assert t.data_ptr == array_in_device(c.children[2]).buffers[1]
    bits = mt.from_dlpack(c.children[3])
    assert (bits.device, bits.copied, bits.tolist()) == ((2, 0), True, [True, False, True])
    with pytest.raises(BufferError):
        c.children[3].__dlpack__(copy=False)
    with pytest.raises(BufferError):
        c.children[1].__dlpack__(max_version=(1, 0))
    assert mt.from_dlpack(c.children[2], device="cpu").tolist() == [1, 2, 3]


def test_numbers_have_the_cuda_array_interface_with_validity_as_the_mask():
    c = host().to("cuda")
    numbers, plain = c.children[1], c.children[2]
    validity, values = array_in_device(numbers).buffers[:2]
    facts = numbers.__cuda_array_interface__
    assert (facts["version"], facts["shape"], facts["typestr"], facts["data"]) == (3, (3,), "<i4", (values, True))
    assert facts["strides"] is None and facts["stream"] is None
    mask = facts["mask"]
    del c, numbers
    bits = mask.__cuda_array_interface__
    assert (bits["shape"], bits["typestr"], bits["data"]) == ((3,), "<t1", (validity, True))
    assert plain.__cuda_array_interface__["mask"] is None
    for other in (host().children[1], host().to("cuda").children[0], host().to("cuda").children[3]):
        assert not hasattr(other, "__cuda_array_interface__")


def array_in_device(column):
    return device_array_in(column.__arrow_c_device_array__()[1]).array


def test_the_base_is_released_once():
    t = mt.arange(3, "int32", "cuda")
    tree = Tree(Node(buffers=(None, t.data_ptr)))
    c = mt.Column.from_arrow(Forged(tree, (2, 0, None)))
    assert mt.from_dlpack(c).tolist() == [0, 1, 2] and c.device == (2, 0)
    part = c[1:]
    del c
    assert tree.released["array"] == 0
    assert mt.from_dlpack(part.to("cpu")).tolist() == [1, 2]
    del part
    assert tree.released == {"schema": 1, "array": 1}


def test_devices_that_are_not_there_are_refused():
    tree = Tree(Node(buffers=(None, mt.arange(3, "int32", "cuda").data_ptr)))
    with pytest.raises((BufferError, ValueError)):
        mt.Column.from_arrow(Forged(tree, (2, 99, None)))
    assert tree.is_untouched_or_released_once()
    with pytest.raises(BufferError):
        host().to("cuda:99")


def test_another_process_attaches_it():
    code = "import json, sys\nimport minitensor as mt\nc = mt.ipc_attach(bytes.fromhex(sys.stdin.read()))\nprint(json.dumps([c.device, mt.from_dlpack(c.children[2]).tolist(), c.to('cpu').children[1].null_count]))"
    with mt.ipc_share(host().to("cuda")) as shared:
        done = subprocess.run([sys.executable, "-c", code], input=shared.descriptor.hex(), capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == [[2, 0], [1, 2, 3], 1]
