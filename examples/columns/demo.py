"""Sends two tables from pyarrow to a second process and to PyTorch; prints which data of each column is shared or copied, and why.

usage: python examples/columns/demo.py

Uses the diabetes table of scikit-learn unchanged, and its wine table from a Parquet file, with strings, lists and nulls added. The exit
status is 1 if a value is wrong, or an unnecessary copy was made.
"""

import pathlib
import subprocess
import sys
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_diabetes, load_wine

import minitensor as mt

HERE = pathlib.Path(__file__).resolve().parent


def diabetes():
    """Numbers without nulls: eleven columns of 442 doubles."""
    data = load_diabetes(as_frame=False)
    columns = {name: pa.array(data.data[:, i].copy()) for i, name in enumerate(data.feature_names)}
    return pa.table({**columns, "progression": pa.array(data.target)})


def wine(folder):
    """Reads a Parquet file of three row groups, with names, lists of notes, booleans and nulls."""
    data = load_wine(as_frame=False)
    rows = len(data.target)
    columns = {name: pa.array(data.data[:, i].copy()) for i, name in enumerate(data.feature_names)}
    proline = [None if i % 11 == 3 else v for i, v in enumerate(data.data[:, -1].tolist())]
    names = [str(data.target_names[c]) for c in data.target]
    table = pa.table({
        **columns,
        "proline": pa.array(proline),
        "cultivar": pa.array(names).dictionary_encode(),
        "label": pa.array([f"{names[i]} n° {i}" if i % 7 else None for i in range(rows)]),
        "notes": pa.array([[w for w, on in (("dry", i % 2), ("fruity", i % 3), ("oak", i % 5 == 0)) if on] for i in range(rows)]),
        "sold": pa.array([i % 4 == 0 for i in range(rows)]),
    })  # fmt: skip
    path = pathlib.Path(folder) / "wine.parquet"
    pq.write_table(table, path, row_group_size=64)
    return pq.read_table(path)


def addresses(array):
    return [b.address for b in array.buffers() if b is not None and b.size > 0]


def shared_or_copied(yes, why=""):
    return "shared" if yes else f"copied: {why}"


def send(name, table):
    """Prints a row for each column; returns whether all checks passed."""
    column = mt.Column.from_arrow(table)
    here = pa.record_batch(column)
    chunks = max((table.column(n).num_chunks for n in table.column_names), default=0)
    with mt.ipc_share(column) as shared:
        receiver = subprocess.run(
            [sys.executable, str(HERE / "receive.py")], input=shared.descriptor.hex(), capture_output=True, text=True, timeout=120, check=False
        )
    if receiver.returncode != 0:
        print(receiver.stdout, receiver.stderr, sep="\n")
        return False
    print(f"\n{name}: {table.num_rows} rows, {table.nbytes} bytes, {chunks} chunk{'s' * (chunks != 1)}")
    print(f"{'column':30} {'type':22} {'nulls':>5}  {'pyarrow to Column':34} {'to the second process':26} there, to PyTorch")
    good = True
    answers = dict(line.split("\t", 1) for line in receiver.stdout.splitlines())
    for n in table.column_names:
        theirs = table.column(n)
        mine = here.column(n)
        is_shared = theirs.num_chunks == 1 and addresses(mine) == addresses(theirs.chunk(0))
        good &= is_shared == (chunks <= 1) and mine.equals(theirs.combine_chunks() if chunks != 1 else theirs.chunk(0))
        value, torch = answers[n].split("\t")
        good &= value == str(mine.null_count) + " " + str(hash_of(mine))
        sent = shared_or_copied(not shared.copied, "once, into shared memory")
        print(f"{n:30} {str(theirs.type):22.22} {mine.null_count:5}  {shared_or_copied(is_shared, 'several chunks'):34} {sent:26} {torch}")
    return good


def hash_of(array):
    """Returns a hash of the values, which is the same in each process."""
    import zlib

    return zlib.crc32(repr(array.to_pylist()).encode())


def main():
    with tempfile.TemporaryDirectory() as folder:
        good = send("diabetes", diabetes())
        good = send("wine, from a Parquet file", wine(folder)) and good
    print("\nall values are equal" if good else "\nFAILED")
    sys.exit(not good)


if __name__ == "__main__":
    main()
