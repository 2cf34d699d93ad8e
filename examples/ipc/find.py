"""Finds a table in the registry of another program, such as examples/topic.cpp, and reads it in place.

usage: python examples/ipc/find.py REGISTRY NAME
"""

import os
import pathlib
import sys

import pyarrow as pa

import minitensor as mt


def find(registry, name):
    # [find]
    run = os.environ.get("XDG_RUNTIME_DIR", "")
    directory = f"{run}/ferry" if os.path.isabs(run) and os.path.isdir(run) else f"/dev/shm/ferry-{os.geteuid()}"
    entry = pathlib.Path(directory, f"{registry}.names".replace("/", "!"), name.replace("/", "!")).read_bytes()
    length = int.from_bytes(entry[16:20], "little")  # of the descriptor, which begins at byte 32
    batch = pa.record_batch(mt.ipc_attach(entry[32 : 32 + length]))
    # [/find]
    return batch


if __name__ == "__main__":
    print(find(*sys.argv[1:]).to_pydict())
