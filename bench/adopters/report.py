"""Measures the frameworks rebuilt on ferry (needs valgrind), and writes the tables of docs/adopters.md from docs/adopters.json.

usage: report.py BY_HAND ON_FERRY ARROW     measures, and writes both files
       report.py --page                     writes the tables again, without measuring

BY_HAND and ON_FERRY are build folders of examples/adopters/nanobind, the first configured with -DADOPTER_BY_HAND=ON; ARROW is one of
examples/adopters/arrow.
"""

import datetime
import importlib.util
import json
import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE, FIGURES = ROOT / "docs/adopters.md", ROOT / "docs/adopters.json"
BEGIN, END = "<!-- The tables from here on are written by bench/adopters/report.py. -->\n", "<!-- The end of the tables. -->\n"


def output(*command, **more):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True, **more).stdout


def size(object_file):
    """Bytes of code and data, as `size` counts them."""
    return sum(map(int, output("size", object_file).splitlines()[1].split()[:3]))


def compiled(folder, optimise, *more):
    """Size of nanobind's object for arrays with another optimisation, and more options."""
    source = next(c for c in json.loads(output("ninja", "-C", folder, "-t", "compdb")) if " -c " in c["command"] and c["file"].endswith("nb_ndarray.cpp"))
    made = pathlib.Path(folder).resolve() / "size.o"
    command = re.sub(r" -M(D|[TF] \S+)", "", re.sub(r"-O[0-9s]", optimise, source["command"]))
    command = re.sub(r"-o \S+\.o", f"-o {made}", command)
    subprocess.run([*shlex.split(command), *more], cwd=source["directory"], check=True)
    bytes_ = size(made)
    made.unlink()
    return bytes_


def measure(by_hand, on_ferry, arrow):
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import nanobind as measured  # nanobind.py beside this file

    hand, ferry = measured.best([by_hand, on_ferry])
    counts = [measured.instructions(folder) for folder in (by_hand, on_ferry)]
    rows = [
        {"framework": "nanobind", "what": what, "hand": ns, "ferry": ferry[what], "instructions": [c[what] for c in counts]} for what, ns in hand.items() if what != "an empty call"
    ]
    sizes = [
        {"framework": "nanobind", "what": " ".join([o, *more]), "hand": compiled(by_hand, o), "ferry": compiled(on_ferry, o, *more)}
        for more in ([], ["-DFERRY_TERSE_ERRORS"])
        for o in ("-O3", "-Os")
    ]
    library = next(pathlib.Path(importlib.util.find_spec("pyarrow").origin).parent.glob("libarrow.so.*"))
    for line in output(pathlib.Path(arrow) / "measure", library, pathlib.Path(arrow).resolve() / "libdlpack_on_ferry.so").splitlines()[1:]:
        what, own, ours, _ = re.split(r"\s{2,}", line.strip())
        rows.append({"framework": "Arrow C++", "what": what, "hand": float(own), "ferry": float(ours)})
    processor = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    return {
        "date": datetime.date.today().isoformat(),
        "command": "python bench/adopters/report.py BY_HAND ON_FERRY ARROW",
        "machine": f"{processor}, {os.cpu_count()} cores, {output('g++', '--version').splitlines()[0]}",
        "load": os.getloadavg()[0],
        "rows": rows,
        "sizes": sizes,
    }


def named(what):
    """A row's name; a call in code font."""
    return f"`{what}`" if "(" in what else what


def table(measured):
    """The tables, as Markdown."""
    about = (
        f"Measured on {measured['date']} by `{measured['command']}` ({measured['machine']}; load average {measured['load']:.0f}). A ratio is the number of "
        "instructions, the time or the size by hand, divided by that on ferry; if it is above 1, ferry is better. Each time is the minimum of several "
        "alternating rounds, and varies with other programs. Instructions are counted by callgrind, without those of the loop, and are exact."
    )
    lines = textwrap.wrap(about, 150, break_long_words=False, break_on_hyphens=False)
    lines += ["", "| nanobind | instructions: by hand | on ferry | ratio | ns: by hand | on ferry |", "|---|---|---|---|---|---|"]
    for r in measured["rows"]:
        if r["framework"] == "nanobind":
            hand, ferry = r["instructions"]
            lines += [f"| {named(r['what'])} | {hand:.0f} | {ferry:.0f} | {hand / ferry:.2f} | {r['hand']:.0f} | {r['ferry']:.0f} |"]
    lines += ["", "| Arrow C++, ns | by hand | on ferry | ratio |", "|---|---|---|---|"]
    lines += [f"| {r['what']} | {r['hand']:.0f} | {r['ferry']:.0f} | {r['hand'] / r['ferry']:.2f} |" for r in measured["rows"] if r["framework"] != "nanobind"]
    lines += ["", "| object for arrays, kB | by hand | on ferry | ratio |", "|---|---|---|---|"]
    lines += [f"| {r['framework']}, {r['what']} | {r['hand'] / 1000:.1f} | {r['ferry'] / 1000:.1f} | {r['hand'] / r['ferry']:.2f} |" for r in measured["sizes"]]
    return "\n".join(lines) + "\n"


def page(text):
    """The text of docs/adopters.md with the tables of docs/adopters.json."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + "\n" + table(json.loads(FIGURES.read_text(encoding="utf-8"))) + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    if sys.argv[1:] != ["--page"]:
        if len(sys.argv) != 4:
            sys.exit(__doc__)
        FIGURES.write_text(json.dumps(measure(*sys.argv[1:]), indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
