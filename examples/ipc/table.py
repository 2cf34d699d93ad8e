"""Sends a table to another Python process, which reads it in place.

usage: python examples/ipc/table.py
"""

import subprocess
import sys

import pyarrow as pa
import pyarrow.compute as pc

import minitensor as mt


def reader():
    # [reader]
    batch = pa.record_batch(mt.ipc_attach(sys.stdin.buffer.read()))  # no copy; valid after the sender has closed its share
    # [/reader]
    print(f"{batch.num_rows} rows; the mean price is {pc.mean(batch['price'])}")


def main():
    table = pa.table({"city": ["Oslo", "Lima", None], "price": [1.5, 2.5, 5.0]})
    # [sender]
    with mt.ipc_share(mt.Column.from_arrow(table)) as shared:  # copies the table once, into shared memory
        subprocess.run([sys.executable, __file__, "reader"], input=shared.descriptor, check=True)
    # [/sender]


reader() if sys.argv[1:] == ["reader"] else main()
