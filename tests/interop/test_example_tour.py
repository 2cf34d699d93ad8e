"""The examples of minitensor's README.md."""

import pathlib
import subprocess
import sys

TOUR = pathlib.Path(__file__).resolve().parents[2] / "examples" / "minitensor" / "tour.py"


def test_the_results_of_the_tour_are_those_of_the_page():
    """examples/minitensor/tour.py: part by part."""
    done = subprocess.run([sys.executable, str(TOUR)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "the code of README.md works\n"
