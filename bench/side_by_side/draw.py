"""Draws ferry and its peers side by side: draw.py FILE.png < figures of report.py. matplotlib is in build/bench-draw.

Draws on a white background, which is also readable on a dark page.
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "build" / "bench-draw"))
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OURS, INK, QUIET = "#c2410c", "#1f2937", "#6b7280"
PEERS = ["#1d4ed8", "#0f766e", "#7e22ce", "#a16207", "#475569"]


def spoken(seconds):
    for limit, unit, scale in ((1e-6, "ns", 1e9), (1e-3, "µs", 1e6), (1.0, "ms", 1e3)):
        if seconds < limit:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def title(axes, text, below):
    axes.set_title(text, loc="left", fontsize=11, fontweight="bold", color=INK, pad=8)
    axes.set_xlabel(below, fontsize=9, color=INK)
    axes.tick_params(labelsize=9, colors=INK)
    axes.grid(axis="x", color="#e5e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def bars(axes, rows, text, below):
    """A bar for each library, from the fastest down; whiskers are quartiles."""
    rows = sorted(rows, key=lambda r: r["seconds"])
    ours = rows[[r["ratio_quartiles"] == [1, 1] for r in rows].index(True)]
    for at, r in enumerate(rows):
        low, high = r["seconds_quartiles"]
        axes.barh(at, r["seconds"], color=OURS if r is ours else "#94a3b8", height=0.65)
        axes.plot([low, high], [at, at], color=INK, linewidth=1.5)
        ratio = "" if r is ours else f"  = {r['ratio']:{'.0f' if r['ratio'] > 10 else '.2g'}} ×"
        axes.text(high * 1.08, at, spoken(r["seconds"]) + ratio, va="center", fontsize=9, color=INK)
    axes.set_xscale("log")
    axes.set_xlim(min(r["seconds"] for r in rows) / 3, max(r["seconds"] for r in rows) * 15)
    axes.set_yticks(range(len(rows)), [r["who"] for r in rows])
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(lambda x, _: spoken(x))
    title(axes, text, below)


def ratios(axes, rows, text, below):
    """A line for each layout, a point for each peer: how many times as long as ferry it takes."""
    whats = list(dict.fromkeys(r["what"] for r in rows))
    whos = [who for who in dict.fromkeys(r["who"] for r in rows) if who != "ferry"]
    for n, who in enumerate(whos):
        label = who
        for r in (r for r in rows if r["who"] == who):
            at = whats.index(r["what"]) + 0.14 * (2 * n - len(whos) + 1)
            low, high = r["ratio_quartiles"]
            axes.plot([low, high], [at, at], color=PEERS[n], linewidth=2)
            axes.plot(r["ratio"], at, "o", color=PEERS[n], markersize=6, label=label)
            label = None
    axes.axvline(1, color=OURS, linewidth=1.5, label="ferry")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g} ×")
    axes.set_yticks(range(len(whats)), whats)
    axes.set_ylim(len(whats) - 0.4, -0.7)
    axes.legend(fontsize=9, loc="lower right", frameon=True)
    title(axes, text, below)


def main():
    figures = json.load(sys.stdin)
    groups = {}
    for r in figures["side by side"]:
        groups.setdefault(r["group"], []).append(r)
    facts = dict(figures["facts"])
    figure, all_axes = plt.subplots(3, 2, figsize=(13, 12.5), height_ratios=[1, 1.7, 1.2], facecolor="white")
    bars(all_axes[0, 0], groups["round trip in C++"], "Export, import and release in C++", "a call: median, and quartiles as a line; logarithmic")
    bars(all_axes[0, 1], groups["round trip in Python"], "from_dlpack of its own array, in Python", "a call: median, and quartiles as a line; logarithmic")
    grid = all_axes[1, 0].get_gridspec()
    for axes in all_axes[1]:
        axes.remove()
    ratios(figure.add_subplot(grid[1, :]), groups["copies on the host"], "Strided copies on the host, one thread",
           "time of the peer over ferry's: to the right ferry is faster; lines: quartiles")  # fmt: skip
    for axes, compiler in zip(all_axes[2], ("g++", "clang++-19")):
        rows = [r for r in groups["including a header"] if r["what"] == compiler]
        if rows:
            bars(axes, rows, f"Including a header, {compiler}", "the front end's processor time, median; logarithmic")
        else:
            axes.set_visible(False)
    figure.text(0.01, 0.005, f"{facts['Date']}; {facts['Processor']}; " + ", ".join(f"{n} {facts[n]}" for n in ("numpy", "torch", "apache-tvm-ffi", "jax", "nanobind") if n in facts),
                fontsize=8.5, color=QUIET)  # fmt: skip
    figure.tight_layout(rect=(0, 0.02, 1, 1), h_pad=2)
    figure.savefig(sys.argv[1], dpi=110)


if __name__ == "__main__":
    main()
