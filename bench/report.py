"""Runs all benchmarks that need no device, and writes one table and one picture. Called by bench/run, which builds the programs.

usage: report.py <folder of the programs> [--quick] [--only NAMES] [--note TEXT] [--json FILE] [--write]
       report.py --page       # writes docs/performance.md again from docs/performance.json, without measuring

A ratio is the peer's time over ferry's, in the same run: above 1 ferry is faster. A spread is the quartiles of the ratios of measurements
that follow each other. A budget of the form "time <= 1.3 x the peer's" is a limit on ferry's time relative to the peer's. Rows without a
budget are informational. The exit status is 1 if a budget does not hold.
"""

import argparse
import datetime
import importlib.metadata
import json
import pathlib
import platform
import subprocess
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "performance.md"  # performance.json beside it has the figures

# The reason why a budget does not hold, by the start of the name of its row.
WHY = {
    "export, import, release": "An unchecked exchange of the same block, written by hand, also misses this budget. ferry also checks the view of the "
    "adapter and the imported struct, and negotiates the exchange. These steps cannot be disabled.",
    "np.from_dlpack(minitensor)": "NumPy's own export increments a non-atomic reference count and performs no checks. ferry's export negotiates the exchange "
    "and checks the view.",
    "typed_view<float": "Both times contain the call of a Python function around the call, about 25 ns, and the dispatch of pybind11.",
    "minitensor to torch through the exchange tables": "The export allocates and checks the struct, whereas the peer imports an existing struct.",
    "share: 1000 columns in 1000": "The difference is small compared with the time of 1000 shares, and varies by more than the budget from run to run.",
    "frame of": "A topic also looks up the slot, locks the cache of mappings, counts the reader, and allocates a tensor, whose pages are not in the caches of a process "
    "that has just been woken. Neither side makes a system call but for the futex.",
    "contiguous": "Both sides call the same `memcpy`. The faster side varies from run to run.",
}

# What the rows of a section measure, where it is not clear from their names.
ABOUT = {
    "Side by side: round trip in C++": "Each library exports an array that it shares by an atomic reference count, imports the struct, and releases it.",
    "Side by side: including a header": "The times are medians of the processor time of the compiler's front end.",
    "Exchange in C++": "The array is moved into the struct and has no reference count, so these rows take less time than the round trip above.",
    "Compile time": "Processor times with `-fsyntax-only`, from a different run than the times in the section about including a header.",
    "Arguments of bound functions": "The row \"NumPy's own versioned capsule\" compares two exports by NumPy; neither uses ferry.",
    "Copies on the host": "Processor times of one thread. *Executed*: an existing copy plan is executed, and its destination has been written before. "
    "*Planned and executed*: the plan is made for each copy. *Fresh*: the destination is newly allocated.",
    "Copies of columns": "pyarrow's `concat_arrays` and `combine_chunks` call Arrow's `Concatenate`. Both sides allocate the result with their default allocator. "
    "*With nulls*: every eighth item is null, and the validity is shifted by 3 bits. ferry also counts the nulls, sets their values to zero and checks the offsets.",
    "Conversions of columns": "The least processor times of one thread. A column of a million items, a tenth of which are null, is exported with a requested schema. Both "
    "sides allocate the result by malloc, which keeps freed memory. ferry also checks the offsets.",
    "Attaching a tensor in host memory": "Each row attaches a tensor, reads one element and releases the tensor. *Found in its session*: the session already maps "
    "the memory. *Mapped by its session*: the session maps the memory for this attach, and unmaps it on release.",
    "Tables in host memory": "Each table is shared in place, so nothing is copied. The peer shares or attaches a tensor of each allocation instead. A column is a "
    "buffer of 4 KiB. The budget is 5 µs, and 0.2 µs for each buffer. *Mapped* and *found*: by a session, as in the section above. Releasing is not measured.",
    "Frames of a topic": "The time from the call of `publish` until a reader in another process has the tensor; the readers wait for it. The peers are a C program "
    "with shared memory and a futex, without names, checks or locks, and `multiprocessing.shared_memory` with a `Pipe` for each reader.",
    "Frames between two Python processes": "*Attached before*: the producer writes to memory that it has already shared, and the consumer attaches it again. *First "
    "attach*: each frame is a separate share. The measurement ends when the consumer has read one byte of every page.",
}


def at_most(limit):
    """The text of a limit on ferry's time relative to the peer's; empty without a limit."""
    return f"time <= {limit} x the peer's" if limit else ""


def at_least(limit):
    """The text of a limit on the ratio; empty without a limit."""
    return f"ratio >= {limit}" if limit else ""


def row(section, what, ours, against, peer, ratio, budget="", holds=None, above_ns=None, spread=None):
    return dict(section=section, what=what, ours=ours, against=against, peer=peer, ratio=ratio, budget=budget, holds=holds, above_ns=above_ns, spread=spread)


def spoken(seconds):
    for limit, unit, scale in ((1e-6, "ns", 1e9), (1e-3, "µs", 1e6), (1.0, "ms", 1e3)):
        if seconds < limit:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def run(command, **more):
    return subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=False, **more).stdout


def medians(program, quick):
    report = json.loads(
        run(
            [
                program,
                f"--benchmark_repetitions={5 if quick else 31}",
                "--benchmark_min_time=0.02",
                "--benchmark_enable_random_interleaving=true",
                "--benchmark_report_aggregates_only=true",
                "--benchmark_format=json",
            ],
            stderr=subprocess.DEVNULL,
        )
    )
    return {r["run_name"]: r["cpu_time"] * 1e-9 for r in report["benchmarks"] if r["aggregate_name"] == "median"}


def arrow(programs, quick):
    time = medians(programs / "bench_arrow", quick)
    for columns, what in ((1, "a column"), (10, "a batch of ten columns")):
        for peer, against, budget in (("nanoarrow", "nanoarrow's C library", 1), ("pyarrow", "Arrow C++", None)):
            for steps in ("import_export_release", "import_and_release"):
                if (name := f"{peer}_{steps}/{columns}") not in time:
                    continue
                ours, limit = time[f"{steps}/{columns}"], budget if "export" in steps else None
                done = "import, export, release" if "export" in steps else "import, release"
                yield row("Arrow's C data interface", f"{what}: {done}", spoken(ours), against, spoken(time[name]), time[name] / ours,
                          at_most(limit), ours <= limit * time[name] if limit else None)  # fmt: skip
    if (name := "pyarrow_import_export_stream") in time:
        ours = time["import_export_stream"]
        yield row("Arrow's C data interface", "a stream of 16,000 batches of two rows: import, export, release", spoken(ours), "Arrow C++", spoken(time[name]), time[name] / ours,
                  at_most(1), ours <= time[name])  # fmt: skip
    for what, count in (("compact", "a slice"), ("concat", "ten slices")):
        for kind, items in (("i", "integers"), ("i_nulls", "integers with nulls"), ("u_nulls", "texts with nulls")):
            for size in (1_000, 100_000):
                if (name := f"pyarrow_{what}/{kind}/{size}") not in time:
                    continue
                ours = time[f"{what}/{kind}/{size}"]
                yield row("Copies of columns", f"{what}: {count} of {size} {items}", spoken(ours), "Arrow C++'s Concatenate", spoken(time[name]), time[name] / ours)
    for ours, against, what, peer, budget in (
        ("concat_dictionaries", "pyarrow_concat_dictionaries", "concat: 1600 chunks with dictionaries in seven orders", "Arrow C++'s Concatenate", None),
        ("join_stream", "pyarrow_combine_chunks", "import of a stream of 16,000 chunks of two rows, and concat", "Arrow C++'s CombineChunks alone", 3),
    ):
        if against in time:
            yield row("Copies of columns", what, spoken(time[ours]), peer, spoken(time[against]), time[against] / time[ours],
                      at_most(budget), time[ours] <= budget * time[against] if budget else None)  # fmt: skip


def exchange(programs, quick):
    time = medians(programs / "bench_exchange", quick)
    section, ours = "Exchange in C++", time["export_import_release"]

    def against(name, what, budget=None):
        return row(section, "export, import, release", spoken(ours), what, spoken(time[name]), time[name] / ours,
                   at_most(budget), ours <= budget * time[name] if budget else None)  # fmt: skip

    yield against("malloc_and_free", "malloc and free of the block", 1.3)
    for line in run([programs / "bench_allocations"]).splitlines():
        what, count = line.rsplit(": ", 1)
        limit = {"borrow": 0, "export, import, release": 1}[what]
        yield row(section, f"{what}: allocations", count, "", "", None, f"<= {limit}", int(count) <= limit)
    yield against("by_hand", "the same block by hand, unchecked")
    for name, what in (("torch", "at::toDLPackVersioned and back"), ("tvm_ffi", "tvm-ffi's ToDLPackVersioned and back")):
        if f"{name}_export_import_release" in time:
            yield against(f"{name}_export_import_release", what)
    for name, what in (("export_and_release", "export, release"), ("import_and_release", "import, release"), ("borrow", "borrow"), ("typed_view", "typed view")):
        yield row(section, what, spoken(time[name]), "malloc and free of the block", spoken(time["malloc_and_free"]), time["malloc_and_free"] / time[name])


def python(quick):
    for r in json.loads(run([sys.executable, HERE / "python.py", "--json", *(["--rounds", "11"] if quick else [])])):
        yield row("Exchange in Python", r["what"], spoken(r["ns"] * 1e-9), r["against"], spoken(r["against_ns"] * 1e-9), r["ratio"], r["budget"], r["holds"],
                  r["above_ns"] if "above" in r["budget"] else None)  # fmt: skip


def casters(programs, quick):
    command = [sys.executable, HERE / "casters" / "bench.py", programs.parent / "casters", "--json", *(["--rounds", "21"] if quick else [])]
    for r in json.loads(run(command)):
        yield row("Arguments of bound functions", r["what"], spoken(r["ns"] * 1e-9), r["against"], spoken(r["against_ns"] * 1e-9), r["ratio"], r["budget"], r["holds"])


def include_cost(quick):
    for r in json.loads(run([sys.executable, HERE / "include_cost.py", "--json", "--rounds", "3" if quick else "11"])):
        yield row("Compile time", r["what"], spoken(r["ours"]), r["against"], spoken(r["peer"]), r["ratio"], r["budget"], r["holds"])


def loops():
    for r in json.loads(run([sys.executable, HERE / "loops.py", "--json"])):
        what, against = f"{r['what']}, {r['compiler']}", "the loop by hand"
        yield row("Instructions of loops", what, str(r["ours"]), against, str(r["peer"]), r["peer"] / r["ours"], f"instructions <= {r['budget']} x by hand", r["holds"])  # fmt: skip


def host_copy(programs, quick):
    lines = run([sys.executable, HERE / "host_copy.py", programs / "bench_copy", "1" if quick else "3"]).splitlines()
    for line in lines[2:]:
        what, ours, peer, ratio, budget, holds, against = line.split("\t")
        yield row("Copies on the host", what.replace("/", ": "), spoken(float(ours) * 1e-6), against.replace("/", ": "),
                  spoken(float(peer) * 1e-6), float(ratio), "" if budget == "-" else at_least(budget), None if holds == "-" else holds == "yes")  # fmt: skip


def columns(quick):
    import columns as bench

    for what, ours, peer in bench.measure(5 if quick else 31):
        yield row("Conversions of columns", what, spoken(ours), "pyarrow's cast", spoken(peer), peer / ours)


def bits(programs, quick):
    for line in run([programs / "bench_bits", "5" if quick else "31"]).splitlines():
        what, ours, peer = line.split("\t")
        is_count = what.endswith("counted")
        yield row("Validity bitmaps and booleans of columns", what, spoken(float(ours)), "memcpy of the same size", spoken(float(peer)), float(peer) / float(ours),
                  at_least(0.8) if is_count else "", float(peer) / float(ours) >= 0.8 if is_count else None)  # fmt: skip


def attach(programs, quick):
    time = medians(programs / "bench_attach", quick)
    peer = time["by_hand"]
    for name, what, limit, budget in (("found", "found in its session", 2e-6, "<= 2 µs"), ("mapped", "mapped by its session", peer + 20e-6, "<= 20 µs above"),
                                      ("alone", "mapped without a session", None, "")):  # fmt: skip
        ours = time[name]
        yield row("Attaching a tensor in host memory", what, spoken(ours), "shm_open, mmap, munmap", spoken(peer), peer / ours, budget,
                  ours <= limit if limit else None, (ours - peer) * 1e9 if "above" in budget else None)  # fmt: skip


def tables(programs, quick):
    each = {"share": "a share of each allocation", "attach, mapped": "an attach of each allocation, mapped", "attach, found": "an attach of each allocation, found"}
    for line in run([programs / "bench_ipc_tables", "400" if quick else "2000"]).splitlines():
        what, columns, allocations, *micros = line.split("\t")
        ours, peer, above = (float(n) * 1e-6 for n in micros)
        limit = 5e-6 + 0.2e-6 * int(columns) if what == "share" else None
        name = f"{what}: {columns} column{'s' * (columns != '1')} in {allocations} allocation{'s' * (allocations != '1')}"
        yield row("Tables in host memory", name, spoken(ours), each[what], spoken(peer), peer / ours, f"<= {limit * 1e6:.3g} µs above" if limit else "",
                  above <= limit if limit else None, above * 1e9 if limit else None)  # fmt: skip


def topics(programs, quick):
    section, count, found = "Frames of a topic", "200" if quick else "1000", {}
    for line in (run([programs / "bench_ipc_topics", count]) + run([sys.executable, HERE / "ipc" / "pipes.py", count])).splitlines():
        what, readers, size, *micros = line.split("\t")
        found[what, int(readers), int(size)] = [float(n) * 1e-6 for n in micros]
    publish, begin = found["topic", 0, 64 << 10][2:]
    yield row(section, "publish, without readers", spoken(publish), "", "", None, "<= 3 µs", publish <= 3e-6)
    yield row(section, "begin, without readers", spoken(begin), "", "", None)
    peers = {"futex": "a futex in C", "pipes": "multiprocessing.shared_memory and pipes"}
    for (what, readers, size), (median, most, *_) in found.items():
        if what != "topic" or readers == 0:
            continue
        name = f"frame of {f'{size >> 20} MiB' if size >> 20 else f'{size >> 10} KiB'} to {readers} reader{'s' * (readers != 1)}"
        for peer, spoken_peer in peers.items():
            limit = 1.2 if peer == "futex" else None
            theirs = found[peer, readers, size]
            yield row(section, name, spoken(median), spoken_peer, spoken(theirs[0]), theirs[0] / median, at_most(limit), median <= limit * theirs[0] if limit else None)  # fmt: skip
        theirs = found["futex", readers, size][1]
        yield row(section, f"{name}, 99th percentile", spoken(most), peers["futex"], spoken(theirs), theirs / most)


def frames(quick):
    for r in json.loads(run([sys.executable, HERE / "ipc" / "frames.py", "--json", *(["--rounds", "20", "--seconds", "1"] if quick else [])])):
        yield row("Frames between two Python processes", r["what"], spoken(r["ns"] * 1e-9), r["against"], spoken(r["against_ns"] * 1e-9), r["ratio"])


def side_by_side(programs, quick):
    ours = {}
    for r in json.loads(run([sys.executable, HERE / "side_by_side" / "peers.py", programs, *(["--quick"] if quick else [])])):
        own = ours.setdefault((r["group"], r["what"]), r)  # the first one
        if own is not r:
            yield row(f"Side by side: {r['group']}", f"{own['who']}: {r['what']}", spoken(own["seconds"]), r["who"], spoken(r["seconds"]), r["ratio"],
                      spread=r["ratio_quartiles"])  # fmt: skip


def versions():
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    yield "Date", datetime.date.today().isoformat()
    yield "Processor", f"{cpu}, {len(open('/proc/cpuinfo').read().split('processor')) - 1} cores"
    yield "System", f"{platform.system()} {platform.release().split('-')[0]}, {' '.join(platform.libc_ver())}"
    for compiler in ("g++", "clang++-19"):
        try:
            yield "Compiler", run([compiler, "--version"]).splitlines()[0]
        except (FileNotFoundError, IndexError):
            pass
    yield "Python", platform.python_version()
    for package in ("numpy", "torch", "apache-tvm-ffi", "jax", "nanobind", "pybind11", "pyarrow", "nanoarrow"):
        try:
            yield package, importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass


def cells(r):
    verdict = {None: "", True: "yes", False: "no"}[r["holds"]]
    above = r["above_ns"]
    ratio = "" if r["ratio"] is None else f"{r['ratio']:.2f}" if above is None else f"{above:+.0f} ns" if abs(above) < 1e4 else f"{above * 1e-3:+.3g} µs"
    if r["spread"]:
        ratio += " ({:.2f}–{:.2f})".format(*r["spread"])
    return [r["what"], r["ours"], r["against"], r["peer"], ratio, r["budget"], verdict]


def wrapped(text):
    """The lines of a paragraph or an item of a list."""
    return textwrap.wrap(text, 150, subsequent_indent="  " if text.startswith("- ") else "", break_long_words=False, break_on_hyphens=False)


def page(rows, facts, parts=None):
    out = [
        "# Performance",
        "",
        "`bench/run --write` runs the benchmarks and generates this page in about 15 minutes. *Ours* is ferry's time, and *peer* is the time of the library or",
        "call in the column *against*, measured alternately in one run. **Ratio** is the peer's time divided by ferry's time; a ratio above 1 means that ferry",
        "is faster. It is the median of the ratios of the rounds, which may differ from the ratio of the two medians; its quartiles are in parentheses. Compare",
        "times only within a section. [performance.json](performance.json) contains the measurements.",
        "",
        "A *budget* is a target that the project sets: for ferry's own time or count (\"≤ 2 µs\"), for its time relative to the peer's (\"time ≤ 1.3 × the",
        "peer's\", \"ratio ≥ 3.0\"), or for the difference between the two times (\"≤ 100 ns above\"; the column *ratio* then shows the difference).",
        "Rows without a budget are informational. For measurements on a GPU, see [cuda.md](cuda.md#measurements).",
        "",
        "![The ratio of the peer's time to ferry's, for rows whose budget limits this ratio](images/ratios.svg)",
        "",
    ]
    out += [f"- {name}: {value}" for name, value in facts]
    out += ["", "![ferry and its peers side by side](images/side_by_side.svg)"]
    if parts:
        out += ["", "## Cost of each part", "", *wrapped(
                "\"Lines\" counts the part's own headers, rounded to ten, without the generated kernels in `ferry/cuda/detail/pack/fatbin.hpp` (about 740 lines); "
                f"those of IPC include `ferry/wire`. \"Front end\" is the processor time of {parts['compiler']} with `-std=c++20 -fsyntax-only` for a file that "
                "includes only the header, minus the time for the header in the column *without* or for an empty file: the minimum of "
                f"{parts['rounds']} rounds on {parts['date']}, in which `#include <memory>` took {parts['memory']:.2f} s. "
                "`bench/include_cost.py --parts` prints this table."), "",
                "| part | header | lines | front end | without |", "|---|---|---|---|---|"]
        for p in parts["rows"]:
            without = f"`{p['without']}`" if p["without"] else ""
            out.append(f"| {p['part']} | `ferry/{p['header']}` | {p['lines']} | {p['seconds']:.2f} s | {without} |")
        out += ["", "## Cost of a build", "", *wrapped(
                "`bench/compile_cost.py` compiles the programs that it contains, with `-O2` and in both [modes](install.md#compiled-once), and prints this "
                "table. Times are processor times; the code is the column `text` of `size`. The time for Python.h is not part of that for `ferry/python.hpp`. Other programs that run at the same time add to the times."),
                "", *parts["build"]]
    section = None
    for r in rows:
        if r["section"] != section:
            section = r["section"]
            about = f"{ABOUT.get(section, '')} Measured on {r['date']}.".strip() if r["date"] != facts[0][1] else ABOUT.get(section, "")
            out += ["", f"## {section}", "", *wrapped(about), *([""] if about else []), "| what | ours | against | peer | ratio | budget | met |", "|---|---|---|---|---|---|---|"]
        out.append(("| " + " | ".join(text.replace("<= ", "≤ ").replace(">= ", "≥ ").replace(" x", " ×") if n == 5 else text for n, text in enumerate(cells(r))) + " |").replace("<", "\\<"))
    missed = [r for r in rows if r["holds"] is False]
    if missed:
        out += ["", "## Missed budgets", ""]
        reasons = {}
        for r in missed:
            why = next((text for start, text in WHY.items() if r["what"].startswith(start)), "The reason is not known.")
            missing = f"against {r['against']}: ratio {cells(r)[4]}" if r["budget"].startswith(("time", "ratio")) else f"{r['ours']} with a budget of {r['budget'].replace('<=', 'at most')}"
            reasons.setdefault(why, []).append(f"{r['what']}, {missing}")
        for why, rows in reasons.items():
            out += wrapped(f"- {'; '.join(rows)}. {why}")
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", type=pathlib.Path, nargs="?")
    parser.add_argument("--page", action="store_true", help="write docs/performance.md and its picture again from docs/performance.json")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--only", metavar="NAMES", help="measure these sections, and keep the other rows of docs/performance.json: names with commas")
    parser.add_argument("--note", metavar="TEXT", help="what the page says after the date, such as: while other programs ran")
    parser.add_argument("--json", metavar="FILE", help="also write the rows to this file")
    parser.add_argument("--write", action="store_true", help="write docs/performance.md, performance.json and their pictures")
    arguments = parser.parse_args()
    if arguments.page:
        known = json.loads(PAGE.with_suffix(".json").read_text(encoding="utf-8"))
        PAGE.write_text(page(known["rows"], known["facts"], known["parts"]), encoding="utf-8")
        sys.exit(subprocess.run([sys.executable, str(PAGE.parent / "site" / "draw.py")], check=False).returncode)
    if arguments.programs is None:
        parser.error("the folder of the programs is missing")
    programs, quick = arguments.programs, arguments.quick
    sections = {"side_by_side": lambda: side_by_side(programs, quick), "exchange": lambda: exchange(programs, quick), "include": lambda: include_cost(quick),
                "loops": loops, "python": lambda: python(quick), "casters": lambda: casters(programs, quick), "copies": lambda: host_copy(programs, quick),
                "bits": lambda: bits(programs, quick), "arrow": lambda: arrow(programs, quick), "columns": lambda: columns(quick), "attach": lambda: attach(programs, quick),
                "tables": lambda: tables(programs, quick), "topics": lambda: topics(programs, quick), "frames": lambda: frames(quick)}  # fmt: skip
    wanted = arguments.only.split(",") if arguments.only else [*sections, "parts"]
    if unknown := set(wanted) - set(sections) - {"parts"}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; expected {', '.join([*sections, 'parts'])}")
    facts, rows, section = list(versions()), [], None
    for name in (name for name in sections if name in wanted):
        for r in sections[name]():
            r["date"] = facts[0][1] + (f", {arguments.note}" if arguments.note else "")
            if r["section"] != section:
                section = r["section"]
                print(f"\n{section}\n{'what':<52} {'ours':>8}  {'against':<44} {'peer':>8} {'ratio':>16}  {'budget':<15} holds")
            what, ours, against, peer, ratio, budget, verdict = cells(r)
            print(f"{what:<52} {ours:>8}  {against:<44} {peer:>8} {ratio:>16}  {budget:<15} {verdict}".rstrip(), flush=True)
            rows.append(r)
    known = json.loads(PAGE.with_suffix(".json").read_text(encoding="utf-8")) if arguments.only else {}
    if "parts" in wanted:
        parts = json.loads(run([sys.executable, HERE / "include_cost.py", "--parts", "--json", "--rounds", "3" if quick else "11"]))
        costs = [sys.executable, str(HERE / "compile_cost.py"), "--rounds", "3"]
        parts["build"] = subprocess.run(costs, check=False, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    else:
        parts = known["parts"]
    if arguments.only:  # a section that was measured takes the place of its former rows
        fresh = {r["section"] for r in rows}
        rows += [r for r in known["rows"] if r["section"] not in fresh]
        order = list(dict.fromkeys(r["section"] for r in [*known["rows"], *rows]))
        rows.sort(key=lambda r: order.index(r["section"]))
    figures = json.dumps({"facts": facts, "rows": rows, "parts": parts}, indent=1) + "\n"
    if arguments.json:
        pathlib.Path(arguments.json).write_text(figures)
    if arguments.write:
        PAGE.write_text(page(rows, facts, parts))
        PAGE.with_suffix(".json").write_text(figures)
        subprocess.run([sys.executable, str(PAGE.parent / "site" / "draw.py")], check=True)
    missed = sum(r["holds"] is False for r in rows)
    print(f"\n{sum(r['holds'] is True for r in rows)} budgets hold, {missed} do not")
    sys.exit(missed != 0)


if __name__ == "__main__":
    main()
