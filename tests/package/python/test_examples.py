"""The programs of examples/package, which docs/python-package.md shows."""

import pathlib
import subprocess
import sys

import pytest

EXAMPLES = sorted((pathlib.Path(__file__).resolve().parents[3] / "examples/package").glob("*.py"))


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_ends_without_an_error(program):
    subprocess.run([sys.executable, str(program)], check=True, timeout=60)
