"""The second process: attaches the columns that demo.py shares, and prints the contents of each and how PyTorch imported it."""

import sys

import pyarrow as pa
import torch
from demo import hash_of

import minitensor as mt


def to_torch(column, array):
    """Imports a column as a tensor and compares the values; returns whether it was shared or copied."""
    try:
        tensor = torch.from_dlpack(column)
    except BufferError as e:
        why = "nulls" if column.null_count else "a dictionary" if column.dictionary else "not numbers"
        assert str(e)
        return f"refused: {why}"
    assert tensor.tolist() == array.to_pylist()
    data = array.buffers()[1].address + array.offset * tensor.element_size()
    return "shared" if tensor.data_ptr() == data else "copied: bits become bytes"


def main():
    frame = mt.ipc_attach(bytes.fromhex(sys.stdin.read()))
    frame.validate(full=True)
    batch = pa.record_batch(frame)
    for column, array in zip(frame.children, batch.columns, strict=True):
        print(column.name, f"{column.null_count} {hash_of(array)}", to_torch(column, array), sep="\t")


if __name__ == "__main__":
    main()
