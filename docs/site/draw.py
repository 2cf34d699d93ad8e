"""Draws the pictures of docs/images for light and dark themes: draw.py [--check]

decisions.svg is drawn from decisions.txt, the output of examples/decisions.cpp, and the plots from the figures of the benchmarks.
--check fails if a picture differs from the output of this script.
"""

import json
import math
import pathlib
import sys

DOCS = pathlib.Path(__file__).resolve().parents[1]
IMAGES = DOCS / "images"
# On the site the theme selects light or dark; for a picture alone, the system of the reader does.
STYLE = """<style>
.ferry-drawing { --ink: #1f2328; --soft: #6e7781; --line: #d0d7de; --paper: #f6f8fa; --good: #1a7f37; --mid: #9a6700; --bad: #cf222e; --blue: #0969da; }
@media (prefers-color-scheme: dark) { .ferry-drawing { --ink: #e6edf3; --soft: #8d96a0; --line: #3d444d; --paper: #1c2128; --good: #3fb950; --mid: #d29922; --bad: #f85149; --blue: #4493f8; } }
body[data-theme="light"] .ferry-drawing { --ink: #1f2328; --soft: #6e7781; --line: #d0d7de; --paper: #f6f8fa; --good: #1a7f37; --mid: #9a6700; --bad: #cf222e; --blue: #0969da; }
body[data-theme="dark"] .ferry-drawing { --ink: #e6edf3; --soft: #8d96a0; --line: #3d444d; --paper: #1c2128; --good: #3fb950; --mid: #d29922; --bad: #f85149; --blue: #4493f8; }
.ferry-drawing text { font: 13px system-ui, sans-serif; fill: var(--ink); }
.ferry-drawing .soft { fill: var(--soft); font-size: 11px; }
.ferry-drawing .head { font-weight: 600; }
.ferry-drawing .mid { text-anchor: middle; }
.ferry-drawing .end { text-anchor: end; }
.ferry-drawing .line { stroke: var(--line); fill: none; }
.ferry-drawing .box { stroke: var(--line); fill: var(--paper); }
.ferry-drawing .good { stroke: var(--good); fill: var(--good); fill-opacity: 0.18; }
.ferry-drawing .copy { stroke: var(--mid); fill: var(--mid); fill-opacity: 0.18; }
.ferry-drawing .bad { stroke: var(--bad); fill: var(--bad); fill-opacity: 0.16; }
.ferry-drawing .blue { stroke: var(--blue); fill: var(--blue); fill-opacity: 0.18; }
.ferry-drawing .arrow { stroke: var(--blue); fill: none; stroke-width: 2; }
.ferry-drawing .tip { fill: var(--blue); }
.ferry-drawing .wait { stroke: var(--mid); stroke-width: 2; stroke-dasharray: 4 3; fill: none; }
</style>"""


class Drawing:
    def __init__(self, width, height, title):
        self.parts = []
        self.head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n<title>{title}</title>\n'

    def add(self, text):
        self.parts.append(text)

    def text(self, x, y, words, kind=""):
        words = str(words).replace("&", "&amp;").replace("<", "&lt;")
        self.add(f'<text x="{x:g}" y="{y:g}" class="{kind}">{words}</text>')

    def box(self, x, y, width, height, kind="box", words="", round_by=4):
        self.add(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{round_by}" class="{kind}"/>')
        if words:
            self.text(x + width / 2, y + height / 2 + 4.5, words, "mid")

    def line(self, x1, y1, x2, y2, kind="line"):
        self.add(f'<path d="M{x1:g} {y1:g}L{x2:g} {y2:g}" class="{kind}"/>')

    def arrow(self, x1, y1, x2, y2):
        angle = math.atan2(y2 - y1, x2 - x1)
        points = [(x2, y2)] + [(x2 - 9 * math.cos(angle + s), y2 - 9 * math.sin(angle + s)) for s in (0.4, -0.4)]
        self.line(x1, y1, x2 - 6 * math.cos(angle), y2 - 6 * math.sin(angle), "arrow")
        self.add('<path class="tip" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + 'Z"/>')

    def svg(self):
        return self.head + STYLE + '\n<g class="ferry-drawing">\n' + "\n".join(self.parts) + "\n</g>\n</svg>\n"


def exchange():
    """One exchange: the input of the producer, the steps of ferry, the result of the consumer, and the release."""
    d = Drawing(860, 292, "One exchange: producer, ferry, consumer")
    boxes = [
        (8, 190, "Producer", ["an array of any library,", "described by an adapter", "of one function"]),
        (318, 224, "ferry", ["checks the struct and its layout", "decides: share, copy or refuse", "orders the streams of both sides"]),
        (662, 190, "Consumer", ["a typed view, an array", "of its own library,", "a Python object"]),
    ]
    for x, wide, title, lines in boxes:
        d.box(x, 12, wide, 106, "blue" if title == "ferry" else "box")
        d.text(x + wide / 2, 38, title, "mid head")
        for n, line in enumerate(lines):
            d.text(x + wide / 2, 62 + 19 * n, line, "mid")
    d.arrow(204, 52, 312, 52)
    d.text(258, 42, "tensor_view", "mid soft")
    d.arrow(548, 52, 656, 52)
    d.text(602, 42, "DLPack struct", "mid soft")
    d.line(757, 124, 757, 156, "wait")
    d.line(757, 156, 103, 156, "wait")
    d.arrow(103, 156, 103, 124)
    d.text(430, 148, "the deleter runs once, on any thread, when the consumer releases the tensor", "mid soft")
    d.box(8, 192, 844, 44, "good", "the elements stay where they are: producer and consumer use the same address")
    d.line(40, 118, 40, 192)
    d.line(820, 118, 820, 192)
    d.text(48, 184, "owns", "soft")
    d.text(812, 184, "reads or writes", "end soft")
    d.text(430, 262, "If the memory cannot be shared, for example with another device, ferry copies the elements and sets IS_COPIED;", "mid soft")
    d.text(430, 279, "with copy=False the exchange fails with an error instead.", "mid soft")
    return d.svg()


def waits():
    """Streams and synchronisation: four cases, each with the producer's stream, the consumer's and the host."""
    d = Drawing(860, 560, "Streams and synchronisation")
    cases = [
        ("One stream for both", "no wait: work on one stream runs in order", None),
        ("Two streams", "the consumer's stream waits; the host continues", "order"),
        ("Target: host memory", "the host waits; the data is ready on return", "host"),
        ("no_sync", "no wait: the consumer must synchronise", "none"),
    ]
    for i, (title, words, how) in enumerate(cases):
        x, y = (i % 2) * 435, (i // 2) * 285
        d.text(x + 8, y + 24, title, "head")
        d.text(x + 8, y + 42, words, "soft")
        lanes = ["producer's stream", "consumer's stream", "host"]
        for n, lane in enumerate(lanes):
            top = y + 62 + n * 68
            d.text(x + 8, top + 26, lane.split()[0], "")
            if " " in lane:
                d.text(x + 8, top + 41, "stream", "soft")
            d.line(x + 8, top + 50, x + 415, top + 50)
        p, c, h = (y + 66 + n * 68 for n in range(3))
        d.box(x + 92, h + 4, 74, 30, "blue", "exchange")
        d.box(x + 92, p + 4, 110, 30, "box", "writes")
        if how is None:
            d.box(x + 212, p + 4, 110, 30, "good", "reads")
        elif how == "order":
            d.box(x + 212, c + 4, 110, 30, "good", "reads")
            d.arrow(x + 203, p + 34, x + 213, c + 3)
            d.line(x + 92, c + 19, x + 206, c + 19, "wait")
            d.text(x + 222, p + 24, "event", "soft")
        elif how == "host":
            d.box(x + 212, p + 4, 60, 30, "copy", "copy")
            d.line(x + 168, h + 19, x + 278, h + 19, "wait")
            d.arrow(x + 273, p + 34, x + 283, h + 3)
            d.box(x + 284, h + 4, 110, 30, "good", "reads")
        else:
            d.box(x + 172, c + 4, 122, 30, "bad", "reads too soon")
            d.text(x + 302, c + 24, "without its own wait", "soft")
        if how != "host":
            d.box(x + 172, h + 4, 140, 30, "box", "continues")
    return d.svg()


def owners():
    """Ownership and lifetime: from the export to the deleter."""
    d = Drawing(860, 330, "Ownership and lifetime")
    steps = [(190, "to_dlpack"), (330, "release"), (470, "from_dlpack"), (640, "last use"), (770, "deleter")]
    for x, words in steps:
        d.line(x, 34, x, 300)
        d.text(x, 24, words, "mid head")
    rows = [
        ("elements", [(110, 780, "good", "stay in place; freed with the last owner")]),
        ("the array", [(110, 395, "box", "one owner; may be destroyed")]),
        ("managed_tensor", [(190, 330, "blue", "the producer's side")]),
        ("the raw struct", [(330, 470, "copy", "one deleter call")]),
        ("managed_tensor", [(470, 770, "blue", "the consumer's side: checked, sole owner")]),
    ]
    for n, (name, bars) in enumerate(rows):
        y = 50 + n * 50
        d.text(8, y + 21, name)
        for begin, end, kind, words in bars:
            d.box(begin, y, end - begin, 32, kind, words)
    d.text(110, 320, "If from_dlpack rejects a struct, it calls the deleter once and throws. A borrow is valid for one call and owns nothing.", "soft")
    return d.svg()


def decisions():
    """The matrix that examples/decisions.cpp prints, in two rows of two requests each."""
    rows = [line.split("; ") for line in (IMAGES / "decisions.txt").read_text(encoding="utf-8").splitlines()]
    producers, targets, policies = (list(dict.fromkeys(row[i] for row in rows)) for i in range(3))
    left, cell, tall, at_once = 150, 94, 46, 2
    half = 62 + tall * len(producers)
    d = Drawing(left + cell * at_once * len(policies) + 8, half * (len(targets) // at_once) + 24, "Share, copy or refuse")
    short = {"no wait": "", "streams are ordered": "streams wait"}
    for w, target in enumerate(targets):
        x, top = left + w % at_once * cell * len(policies), w // at_once * half
        d.text(x + cell * len(policies) / 2, top + 20, target.split(", ")[-1] if "legacy" in target else f"target: {target}", "mid head")
        d.line(x, top + 8, x, top + half - 6)
        for p, policy in enumerate(policies):
            d.text(x + cell * p + cell / 2, top + 42, policy, "mid soft")
        for n, producer in enumerate(producers):
            y = top + 54 + n * tall
            for k, part in enumerate(producer.split(", ") if w % at_once == 0 else []):
                d.text(8, y + (24 if "," not in producer else 18) + 16 * k, part, "" if k == 0 else "soft")
            for _, _, policy, act, how in (row for row in rows if row[:2] == [producer, target]):
                left_of = x + policies.index(policy) * cell
                d.box(left_of + 3, y + 3, cell - 6, tall - 8, {"share": "good", "copy": "copy", "refuse": "bad"}[act])
                below = short.get(how, how)
                d.text(left_of + cell / 2, y + (19 if below else 26), act, "mid")
                if below:
                    d.text(left_of + cell / 2, y + 34, below.replace("_", " "), "mid soft")
    d.text(left, half * (len(targets) // at_once) + 14, "Printed by examples/decisions.cpp, which calls ferry::negotiate. The consumer passes no stream.", "soft")
    return d.svg()


def bars(title, rows, below):
    """A bar for the ratio of each row of performance.json, from 1."""
    d = Drawing(860, 82 + 30 * len(rows), title)
    middle, scale = 560, 68  # where both take the same time; pixels for each doubling
    bottom = 40 + 30 * len(rows)

    def at(ratio):
        return middle + max(-1.9, min(3.4, math.log2(ratio))) * scale

    d.text(middle - 10, 22, "ferry is slower", "end soft")
    d.text(middle + 10, 22, "ferry is faster", "soft")
    for tick in (0.5, 1, 2, 4, 8):
        d.line(at(tick), 28, at(tick), bottom)
        d.text(at(tick), bottom + 15, f"{tick:g}×", "mid soft")
    for n, r in enumerate(rows):
        y, x = 34 + 30 * n, at(r["ratio"])
        d.text(8, y + 18, f"{r['what']}, against {r['against']}"[:90], "soft")
        d.box(min(middle, x), y + 4, max(abs(x - middle), 1.5), 20, "good" if r["ratio"] >= 1 else "copy", "", 2)
        d.text(max(x, middle) + 6, y + 18, f"{r['ratio']:.2g}×{' (budget missed)' if r['holds'] is False else ''}", "soft")
    d.text(8, bottom + 34, f"Ratio of the peer's time to ferry's, in the same run, on a logarithmic scale that ends at 10. {below}", "soft")
    return d.svg()


def performance():
    return json.loads((DOCS / "performance.json").read_text(encoding="utf-8"))["rows"]


def side_by_side():
    """The sections of performance.json in which libraries do the same."""
    return bars("Side by side: the ratio of the peer's time to ferry's", [r for r in performance() if r["section"].startswith("Side by side")], "Above 1, ferry is faster.")


def ratios():
    """The rows of performance.json that have a budget relative to a peer, with the ratio of the times."""
    rows = [r for r in performance() if r["budget"].startswith(("time ", "ratio ")) and "planned" not in r["what"]]
    return bars("The ratio of the peer's time to ferry's", rows, "A budget may allow a ratio below 1.")


def rates():
    """The rates of copies from device to host by size, from cuda.json."""
    measured = json.loads((DOCS / "cuda.json").read_text(encoding="utf-8"))
    facts, lines = measured["facts"], {}
    for row in measured["rows"]:
        if row["bytes"] and row["peer"] in ("cudaMemcpy", "pinned link") and row["what"] == "device to host, touched pageable":
            lines.setdefault("ferry, touched pageable", {})[row["bytes"]] = row["bytes"] / row["seconds"] / 1e9
            name = {"cudaMemcpy": "cudaMemcpy, touched pageable", "pinned link": "the pinned link"}[row["peer"]]
            lines.setdefault(name, {})[row["bytes"]] = row["bytes"] / row["peer_seconds"] / 1e9
        if row["what"] == "to_host, fresh memory, 16 lanes":
            lines.setdefault("to_host, fresh memory, 16 lanes", {})[row["bytes"]] = row["bytes"] / row["seconds"] / 1e9
    d = Drawing(860, 400, "Device to host: rate by size")
    left, top, wide, tall = 56, 20, 560, 320
    sizes = sorted({b for line in lines.values() for b in line})
    low, high = math.log2(sizes[0]), math.log2(sizes[-1])

    def at(size, rate):
        return left + (math.log2(size) - low) / (high - low) * wide, top + tall - rate / 60 * tall

    for rate in range(0, 61, 10):
        _, y = at(sizes[0], rate)
        d.line(left, y, left + wide, y)
        d.text(left - 8, y + 4, rate, "end soft")
    for power in range(12, 33, 4):
        x, _ = at(2**power, 0)
        d.text(x, top + tall + 20, f"{2 ** (power % 10)} {'KiB MiB GiB'.split()[power // 10 - 1]}", "mid soft")
    d.text(left, top - 6, "GB/s, more is better", "soft")
    colours = {"ferry, touched pageable": "--blue", "cudaMemcpy, touched pageable": "--bad", "the pinned link": "--soft", "to_host, fresh memory, 16 lanes": "--good"}
    ends = []
    for name, line in sorted(lines.items(), key=lambda item: -item[1][max(item[1])]):
        points = [at(size, rate) for size, rate in sorted(line.items())]
        d.add(f'<path d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in points)}" style="fill: none; stroke-width: 2; stroke: var({colours[name]})"/>')
        y = max(points[-1][1], ends[-1] + 18 if ends else 0)
        ends.append(y)
        d.add(f'<text x="{left + wide + 12}" y="{y + 4:.1f}" style="fill: var({colours[name]})">{name}</text>')
    d.text(left, 392, f"{facts['gpu']}, driver {facts['driver']}, {facts['date']}; docs/cuda.json, written by bench/cuda/run.", "soft")
    return d.svg()


DIAGRAMS = {"exchange": exchange, "waits": waits, "owners": owners, "decisions": decisions}
PLOTS = {"side_by_side": side_by_side, "ratios": ratios, "rates": rates}


def main():
    wrong = 0
    for name, draw in (DIAGRAMS | PLOTS).items():
        path, fresh = IMAGES / f"{name}.svg", draw()
        if "--check" not in sys.argv:
            path.write_text(fresh, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != fresh:
            print(f"{path.relative_to(DOCS.parent)} differs from the output of docs/site/draw.py: run it again")
            wrong += 1
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
