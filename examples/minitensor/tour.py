"""Runs the code of README.md; the part for a GPU only if there is one."""

import subprocess
import sys

import numpy as np
import pyarrow

# [views]
import minitensor as mt

t = mt.arange(12).copy()
t[::-2].tolist()                              # views on the same memory
mt.asarray([[1.5, 2.5]], dtype="float8_e4m3fn").tolist()
u = mt.from_dlpack(np.arange(3.0))            # an array of another library: shares its memory
# [/views]
assert t[::-2].tolist() == [11, 9, 7, 5, 3, 1] and u.tolist() == [0, 1, 2]

OTHER = """
import sys
send = print
# [attach]
import minitensor as mt

u = mt.ipc_attach(bytes.fromhex(sys.argv[1])) # in another process: the same Tensor, or the same Column
# [/attach]
send(u.tolist())
"""


def send(text):
    done = subprocess.run([sys.executable, "-c", OTHER, text], capture_output=True, text=True, check=True)
    seen.append(done.stdout.strip())


seen = []
# [share]
with mt.ipc_share(t) as s:                    # copies host memory once, into a segment in /dev/shm
    s.tensor.fill(1)                          # visible in every process that has attached it
    send(s.descriptor.hex())                  # a few hundred bytes
# [/share]
assert seen == [str([1] * 12)]

table = pyarrow.table({"a": list(range(30))})
# [columns]
c = mt.Column.from_arrow(table)               # from pyarrow, polars, DuckDB, …: shares its memory
c.children[0][10:20].null_count               # slices and children are columns on the same buffers
mt.from_dlpack(c.children[0])                 # numbers without nulls are tensors, read-only
pyarrow.record_batch(c)                       # and back, through the same interface
# [/columns]


def on_a_gpu(s):
    # [stream]
    with mt.stream(s):                            # an int, or a stream of CuPy, PyTorch, cuda.core, …
        a = mt.zeros((1024, 1024), device="cuda") # queued on s; does not block
        a.fill(1.5)
    a.copy("cpu").tolist()                        # finished data
    # [/stream]


if mt.cuda_available():
    on_a_gpu(2)
print("the code of README.md works")
