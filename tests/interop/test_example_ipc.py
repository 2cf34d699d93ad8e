"""The example of a table that is sent to another process."""

import pathlib
import subprocess
import sys

import without_gil

TABLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "ipc" / "table.py"


def test_a_table_is_read_in_another_process():
    without_gil.need("pyarrow")
    done = subprocess.run([sys.executable, str(TABLE)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "3 rows; the mean price is 3.0\n"), done.stderr
