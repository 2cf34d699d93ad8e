"""A registry of arrays and tables: python registry.py (needs NumPy and pyarrow)."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa

import ferry

NAME = f"example/{os.getpid()}"
table = pa.table({"score": [0.25, 0.5, None]})

# [registry]
results = ferry.Registry(NAME, most_bytes=8 << 30)
results.put("scores", table)
results.put("weights", np.ones(3))
# in another process: pa.record_batch(ferry.find(NAME, "scores"))
# [/registry]

program = "import sys, ferry, pyarrow as pa; print(pa.record_batch(ferry.find(sys.argv[1], 'scores')).to_pydict())"
done = subprocess.run([sys.executable, "-c", program, NAME], check=True, capture_output=True, text=True)
assert done.stdout.strip() == str(table.to_pydict()) and list(results) == ["scores", "weights"]
