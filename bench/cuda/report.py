"""Writes one report of the results of bench.cpp, peers.py, frames.py and exchange.py in one run of bench/cuda/run.

usage: report.py FOLDER [--command TEXT] [--write]      # reads bench.json, peers.json, frames.json, exchange.json in FOLDER; writes cuda.json and cuda.md there
       report.py --self-test                            # needs neither a device nor figures

cuda.json has the facts of the run (date, GPU, driver, CUDA, cores, command) and every row; cuda.md has the tables. --write copies the
former to docs/, writes the latter into docs/cuda.md between its markers, and draws the pictures with docs/site/draw.py. A folder that has a cuda.json
may come from another machine. A ratio is the peer's time over ferry's, in brackets the quartiles of the rounds; each round measures each side once.
A budget limits the ratio from below, or, where `of_times` is set, ferry's time relative to the peer's from above.
"""

import argparse
import datetime
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- measured: bench/cuda/run --write -->\n", "<!-- end of measured -->\n"
KINDS, LAYOUTS = ("pinned", "touched", "fresh", "managed"), ("contiguous", "transposed", "pieces")


def size_of(n):
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if n >= 1 << power:
            return f"{n / (1 << power):.3g} {unit}"
    return ""


def spoken(seconds):
    return f"{seconds * 1e6:.3g} µs" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"


def rate_of(row):
    """GB/s; a time, where no bytes are counted."""
    if not row["bytes"]:
        return spoken(row["seconds"])
    rate = row["bytes"] / row["seconds"] / 1e9
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.1f}" if rate >= 1 else f"{rate:.2f}"


def short(x):
    return f"{x:.0f}" if x >= 20 else f"{x:.1f}" if x >= 2 else f"{x:.2f}"


def ratio_of(row):
    return short(row["ratio"]) + (f" ({short(row['low'])}–{short(row['high'])})" if "low" in row else "")


def table(head, rows):
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]]) + "\n"


def budgets(rows):
    """Every row with a budget, and the rows whose measurement has none at any size; other sizes and peers are in the matrix."""
    bound = {r["what"] for r in rows if r["budget"]}
    for r in rows:
        if not r["budget"] and r["what"] in bound:
            continue
        limit = (f"time ≤ {r['budget']:g} × the peer's" if r["of_times"] else f"ratio ≥ {r['budget']:g}") if r["budget"] else ""
        yield [r["what"], size_of(r["bytes"]), rate_of(r), r["peer"], ratio_of(r), limit, ("yes" if r["holds"] else "**no**") if limit else ""]


def matrix(rows, way):
    """Kinds and layouts by sizes: the rate, and the ratio to the plain call."""
    found = {(r["kind"], r["layout"], r["bytes"]): r for r in rows if r["way"] == way}
    sizes = sorted({n for _, _, n in found})
    body = []
    for kind in KINDS:
        for layout in LAYOUTS:
            cells = [found.get((kind, layout, n)) for n in sizes]
            if any(cells):
                body.append([f"{kind}, {layout}", *(f"{rate_of(r)} ({short(r['ratio'])})" if r else "" for r in cells)])
    return table(["to" if way == "down" else "from", *map(size_of, sizes)], body)


def ways(rows):
    for r in rows:
        yield [r["layout"], size_of(r["bytes"]), r["way"], rate_of(r), ratio_of(r)]


def peers(rows):
    names = list(dict.fromkeys(r["peer"] for r in rows))
    found = {(r["layout"], r["bytes"], r["peer"]): r for r in rows}
    body = []
    for layout, size in dict.fromkeys((r["layout"], r["bytes"]) for r in rows):
        cells = [found.get((layout, size, name)) for name in names]
        ours = next(r for r in cells if r)
        body.append([f"{layout}, {size_of(size)}", rate_of(ours), *(f"{rate_of({**r, 'seconds': r['peer_seconds']})} ({ratio_of(r)})" if r else "" for r in cells)])
    return table(["", "ferry", *names], body)


def page(measured):
    """The text between the markers of docs/cuda.md."""
    of, rows = measured["facts"], measured["rows"]
    by = {name: [r for r in rows if r["table"] == name] for name in ("budget", "matrix", "ways", "peers", "frames", "python")}
    bound = by["budget"] + [r for r in by["peers"] + by["frames"] if r["budget"]] + by["python"]
    missed = sum(not r["holds"] for r in rows)
    one_of = of["gpu"] + (f", one of {of['gpus']}" if of["gpus"] > 1 else "")
    part = [
        f"{one_of} (driver {of['driver']}, CUDA {of['cuda']}, {of['cores']} host cores), {of['date']}, `{of['command']}`.\n"
        "Rates are in GB/s. A cell with a unit of time is the duration of the operation. **Ratio** is the time of the call in the column *against* (the *peer*)\n"
        "divided by ferry's time in the same run. If the ratio is above 1, ferry is faster. Its quartiles, where available, are in parentheses. A *budget* is a\n"
        "performance target of the project; the form \"time ≤ 1.2 × the peer's\" is a limit on ferry's time relative to the peer's. A fixed time in the column\n"
        f"*against*, 20 µs or 2 µs, is part of the budget and is not measured. ferry misses {missed or 'none'} of the budgets.\n\n"
        "A *handshake* makes one stream wait for another (`order`). The *pinned link* is a plain copy of the same size between device and pinned memory. A\n"
        "*lane* is a host thread of the copier. *Found in its session*: the importer's session already maps the memory. *Mapped by its session*: the session\n"
        "maps the memory for this attach. [ipc.md](ipc.md#measurements) defines *shared slots* and *one share per frame*.\n",
        table(["what", "bytes", "rate", "against", "ratio", "budget", "met"], budgets(bound)),
    ]
    if by["matrix"]:
        part += [
            "The next table shows copies from the device to pinned memory, to pageable memory that was written before (touched) or is new (fresh), and to managed\n"
            "memory. The ratio to a plain CUDA copy of the same size is in parentheses. The plain copy is cudaMemcpy2D in the rows *pieces*, and a copy of one\n"
            "contiguous block in the other rows. The pieces are 4 KiB long with gaps of 4 KiB; in the column 4 KiB, both are 256 bytes. A plain copy to fresh\n"
            "memory includes the allocation.\n",
            matrix(by["matrix"], "down"),
            "Copies to the device, in the same form:\n",
            matrix(by["matrix"], "up"),
        ]
    if by["ways"]:
        part += [
            "The next table compares methods of copying strided tensors to pinned memory: the kernels in `pack.hpp` (PTX, used for the rows above), those in\n"
            "`pack.cuh` (compiled by nvcc), and, without kernels, pitched copies and loops on the host. The ratio is to a contiguous copy of the same size:\n",
            table(["layout", "bytes", "method", "rate", "ratio"], ways(by["ways"])),
        ]
    if by["peers"]:
        part += [
            "The next table compares `to_host`, using 8 lanes, with calls of Python libraries that also copy to newly allocated host memory. The ratio\n"
            "and its quartiles are in parentheses:\n",
            peers(by["peers"]),
        ]
    if by["frames"]:
        part += [
            "The next table shows the rate at which one process sends frames in GPU memory to another process, which copies each frame. Two slots are used\n"
            "alternately, except in the rows \"one at a time\", where the producer waits for the reply to each frame. The ratio and its quartiles are in\n"
            "parentheses:\n",
            peers(by["frames"]),
        ]
    return "\n".join(part)


def exchanged(rows):
    """The rows of exchange.py, in the form of the other rows."""
    for r in rows:
        if "theirs" in r:
            ratio = r["theirs"] / r["ours"]
            yield {"table": "python", "what": r.get("what", r["row"]), "bytes": 0, "seconds": r["ours"], "peer": r["against"], "peer_seconds": r["theirs"], "ratio": ratio,
                   "budget": r["budget"], "of_times": False, "holds": ratio >= r["budget"]}  # fmt: skip


def driver_version():
    try:
        return re.search(r"Kernel Module[^\n]*?\s(\d+\.\d+(?:\.\d+)?)\s", pathlib.Path("/proc/driver/nvidia/version").read_text())[1]
    except (OSError, TypeError):
        pass
    try:
        said = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True, timeout=20)
        return said.stdout.split()[0]
    except (OSError, IndexError, subprocess.SubprocessError):
        return "unknown"


def gathered(folder, command):
    bench = json.loads((folder / "bench.json").read_text(encoding="utf-8"))
    rows = bench.pop("rows")
    for name, as_rows in (("peers.json", list), ("frames.json", list), ("exchange.json", exchanged)):
        if (folder / name).exists():
            rows += as_rows(json.loads((folder / name).read_text(encoding="utf-8")))
        else:
            print(f"{name} does not exist: its rows are left out")
    return {"facts": {"date": datetime.date.today().isoformat(), **bench, "driver": driver_version(), "command": command}, "rows": rows}


def dumped(measured):
    rows = ",\n".join("  " + json.dumps(r, ensure_ascii=False) for r in measured["rows"])
    return f'{{"facts": {json.dumps(measured["facts"])}, "rows": [\n{rows}\n]}}\n'


def written_into(text, part):
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        sys.exit(f"docs/cuda.md: expected the lines {BEGIN.strip()} and {END.strip()} once each, in this order")
    return text[: text.index(BEGIN) + len(BEGIN)] + part + text[text.index(END) :]


def report(folder, command, docs=None):
    """Collects the results, unless the folder has a cuda.json: the facts of the machine that measured are kept."""
    kept = folder / "cuda.json"
    if not kept.exists():
        measured = gathered(folder, command)
        kept.write_text(dumped(measured), encoding="utf-8")
        (folder / "cuda.md").write_text(page(measured), encoding="utf-8")
    if docs is not None:
        text, target = kept.read_text(encoding="utf-8"), docs / "cuda.md"
        target.write_text(written_into(target.read_text(encoding="utf-8"), page(json.loads(text))), encoding="utf-8")
        (docs / "cuda.json").write_text(text, encoding="utf-8")


def self_test():
    """Writes and draws a complete report of invented figures in a temporary folder."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("draw", ROOT / "docs" / "site" / "draw.py")
    draw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw)
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import peers as by_peers

    def row(name, what, size, seconds, peer, ratio, budget=0, kind="", layout="", way="", of_times=False):
        holds = not budget or (1 / ratio <= budget if of_times else ratio >= budget)
        return {"table": name, "what": what, "kind": kind, "layout": layout, "way": way, "bytes": size, "seconds": seconds, "peer": peer, "peer_seconds": seconds * ratio,
                "ratio": ratio, "low": ratio * 0.9, "high": ratio * 1.1, "rounds": 3, "budget": budget, "of_times": of_times, "holds": holds}  # fmt: skip

    rows = [row("budget", "handshake, different streams", 0, 6e-7, "event record + wait", 0.9, 1.2, of_times=True)]
    for size in (4096, 1 << 20, 1 << 30):
        for peer in ("cudaMemcpy", "pinned link"):
            rows.append(row("budget", "device to host, touched pageable", size, size / 50e9, peer, 2.5, 2.8 if size > 1 << 20 else 0))
        rows.append(row("budget", "to_host, fresh memory, 16 lanes", size, size / 30e9, "pinned link", 0.5))
        for kind in KINDS:
            for layout in LAYOUTS:
                for way in ("down", "up"):
                    if (kind, way) != ("fresh", "up"):
                        rows.append(row("matrix", "m", size, size / 40e9, "cudaMemcpy", 1.5, kind=kind, layout=layout, way=way))
    rows.append(row("ways", "w", 1 << 24, 1e-3, "contiguous, same bytes", 1.04, kind="pinned", layout="transposed", way="kernels as PTX", of_times=True))

    ticks = iter(range(1, 10**6))
    seconds = by_peers.by_turns({"ferry": lambda: None, "torch .cpu()": lambda: None}, 5, clock=lambda: next(ticks))
    assert len(seconds["ferry"]) == len(seconds["torch .cpu()"]) >= 3 and set(seconds["ferry"]) == {1}

    class Result:
        def __del__(self):
            next(ticks)

    assert set(by_peers.by_turns({"ferry": Result}, 5, clock=lambda: next(ticks))["ferry"]) == {1}  # the release is not timed
    of_torch = list(by_peers.rows_of({"ferry": [1, 1, 1], "torch .cpu()": [19, 19, 19], "CuPy .get()": [2, 2, 2]}, 1 << 28, "contiguous"))
    assert [(r["peer"], r["budget"], r["holds"]) for r in of_torch] == [("torch .cpu()", 20, False), ("CuPy .get()", 0, True)]

    with tempfile.TemporaryDirectory() as name:
        folder, docs = pathlib.Path(name), pathlib.Path(name, "docs")
        (docs / "images").mkdir(parents=True)
        (folder / "bench.json").write_text(json.dumps({"gpu": "A GPU", "gpus": 2, "cuda": "13.0", "cores": 32, "rows": rows}))
        (folder / "peers.json").write_text(json.dumps(of_torch))
        (folder / "frames.json").write_text(json.dumps([row("frames", "frames, one share per frame", 2 << 20, 1e-4, "torch", 3, 1, layout="one share per frame"), row("frames", "alone", 2 << 20, 2e-4, "torch", 2, layout="one at a time")]))
        (folder / "exchange.json").write_text(json.dumps([{"row": "frame", "against": "a copy for each buffer", "ours": 1e-3, "theirs": 9e-3, "budget": 5}, {"row": "first", "ours": 1}]))
        (docs / "cuda.md").write_text(f"before\n{BEGIN}old\n{END}after\n", encoding="utf-8")
        report(folder, "bench/cuda/run")
        report(folder, "another command, elsewhere", docs)
        assert json.loads((docs / "cuda.json").read_text())["facts"]["command"] == "bench/cuda/run"
        text = (docs / "cuda.md").read_text(encoding="utf-8")
        assert text.startswith(f"before\n{BEGIN}A GPU, one of 2 (driver ") and text.endswith(f"{END}after\n") and "\nold\n" not in text
        for said in (
            "| handshake, different streams |  | 0.6 µs | event record + wait | 0.90 (0.81–0.99) | time ≤ 1.2 × the peer's | yes |",
            "| device to host, touched pageable | 1 GiB | 50.0 | cudaMemcpy | 2.5 (2.2–2.8) | ratio ≥ 2.8 | **no** |",
            "| to_host, fresh memory, 8 lanes, contiguous | 256 MiB | 0.27 | torch .cpu() | 19.0 (19.0–19.0) | ratio ≥ 20 | **no** |",
            "| frames, one share per frame | 2 MiB | 21.0 | torch | 3.0 (2.7–3.3) | ratio ≥ 1 | yes |",
            "| one share per frame, 2 MiB | 21.0 | 7.0 (3.0 (2.7–3.3)) |",
            "| one at a time, 2 MiB | 10.5 | 5.2 (2.0 (1.80–2.2)) |",
            "| frame |  | 1 ms | a copy for each buffer | 9.0 | ratio ≥ 5 | yes |",
            "| to | 4 KiB | 1 MiB | 1 GiB |",
            "| fresh, pieces | 40.0 (1.50) | 40.0 (1.50) | 40.0 (1.50) |",
            "| transposed | 16 MiB | kernels as PTX | 16.8 | 1.04 (0.94–1.14) |",
            "ferry misses 3 of the budgets.",
        ):
            assert said in text, f"{said}\n\n{text}"
        assert "| device to host, touched pageable | 4 KiB |" not in text and "| alone |" not in text and "| to_host, fresh memory, 16 lanes | 4 KiB |" in text
        assert text.count("| fresh, pieces |") == 1 and text.count("| managed, pieces |") == 2
        assert not re.search(r"^\|[^\n]*[^|\n]$", text, re.M)
        for line, after in re.findall(r"^(\|[^\n]*\|)\n(?=(\|[^\n]*\|)\n)", text, re.M):
            assert line.count("|") == after.count("|"), (line, after)
        draw.DOCS, draw.IMAGES = docs, docs / "images"
        picture = draw.rates()
        assert "A GPU" in picture and picture.count("<path") > 6 and "to_host, fresh memory, 16 lanes" in picture


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    parser.add_argument("--command", default="bench/cuda/run")
    parser.add_argument("--write", action="store_true", help="write docs/cuda.json, the tables of docs/cuda.md, and docs/images/rates.svg")
    parser.add_argument("--self-test", action="store_true")
    asked = parser.parse_args()
    if asked.self_test:
        return self_test()
    if asked.folder is None:
        parser.error("FOLDER is missing")
    report(asked.folder, asked.command, ROOT / "docs" if asked.write else None)
    if asked.write:
        subprocess.run([sys.executable, str(ROOT / "docs" / "site" / "draw.py")], check=True)
    print(f"{asked.folder / 'cuda.json'} and cuda.md written" + (", and docs" if asked.write else ""))


if __name__ == "__main__":
    main()
