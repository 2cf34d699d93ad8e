"""Measures ferry and its peers with the same work, in turns, in one process. Called by bench/report.py.

usage: peers.py <folder of side_by_side's module> [--quick]

Prints JSON: for each row the median of its seconds, and the ratio of consecutive blocks, the peer's time over ours, as its median and
its quartiles.

- round trips: export, import and release of a float32 tensor of rank 4. In C++ each library exports an array that it shares by a
  reference count, takes the struct back and lets go; the loop is in C++. In Python each library takes its own array through DLPack.
- copies: one thread, from a strided view into memory at hand: ferry's plan made and executed, NumPy's copyto, torch's copy_.
- includes: processor time of a compiler's front end on one line that includes a header.
"""

import importlib
import importlib.util
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK_NS = 300_000


def optional(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        print(f"{name} is left out: {error}", file=sys.stderr)
        return None


def spread(values):
    first, middle, last = statistics.quantiles(values, n=4, method="inclusive")
    return middle, [first, last]


def by_turns(contestants, rounds, warm_up=True):
    """contestants: name -> function that runs once and gives its seconds. Gives name -> seconds of each round."""
    for once in contestants.values() if warm_up else ():
        once()  # what is done once for all: code and data come into the caches
    samples = {name: [] for name in contestants}
    for n in range(rounds):
        for name in list(contestants) if n % 2 else reversed(list(contestants)):
            samples[name].append(contestants[name]())
    return samples


def rows(group, what, samples, ours="ferry"):
    """One row for each peer, and ferry's own as the first of them."""
    for name, values in samples.items():
        ratio, quartiles = spread([b / a for a, b in zip(samples[ours], values)])
        seconds, own = spread(values)
        yield {"group": group, "what": what, "who": name, "seconds": seconds, "seconds_quartiles": own, "ratio": ratio, "ratio_quartiles": quartiles}


def in_blocks(call):
    """Blocks of a call from Python that are long enough for the clock."""

    def block(count):
        begin = time.perf_counter_ns()
        for _ in range(count):
            call()
        return (time.perf_counter_ns() - begin) / count

    block(20)
    count = max(1, int(BLOCK_NS / max(block(20), 1)))
    return lambda: block(count) * 1e-9


def round_trips(module, quick):
    rounds = 21 if quick else 201
    loops = {name: getattr(module, name) for name in ("ferry", "tvm-ffi", "ATen", "nanobind") if hasattr(module, name)}
    contestants = {}
    for name, loop in loops.items():
        loop(100)
        count = max(1, int(BLOCK_NS / loop(1000)))
        contestants[name] = lambda loop=loop, count=count: loop(count) * 1e-9
    yield from rows("round trip in C++", "export, import, release", by_turns(contestants, rounds))

    import minitensor as mt
    import numpy as np

    array = np.zeros((2, 3, 4, 5), np.float32)
    mine = mt.from_dlpack(array)
    contestants = {"minitensor, by ferry": lambda: mt.from_dlpack(mine), "NumPy": lambda: np.from_dlpack(array)}
    if (tvm := optional("tvm_ffi")) is not None:
        theirs = tvm.from_dlpack(array)
        contestants["tvm-ffi"] = lambda: tvm.from_dlpack(theirs)
    if (torch := optional("torch")) is not None:
        tensor = torch.zeros(2, 3, 4, 5)
        contestants["PyTorch"] = lambda: torch.from_dlpack(tensor)
    if (jax := optional("jax")) is not None:
        jaxs = jax.numpy.zeros((2, 3, 4, 5), np.float32)
        contestants["JAX"] = lambda: jax.dlpack.from_dlpack(jaxs)
    samples = by_turns({name: in_blocks(call) for name, call in contestants.items()}, rounds // 2)
    yield from rows("round trip in Python", "from_dlpack of its own array", samples, "minitensor, by ferry")


def layouts():
    """(what, the source's view): each is copied into compact memory of its shape."""
    import numpy as np

    wide = np.random.default_rng(0).integers(0, 255, (4096, 4096), np.uint32)
    image = wide.view(np.uint8)[:2160, : 3840 * 3].copy().reshape(2160, 3840, 3)
    yield "transpose, 4096 x 4096, 4 bytes", wide.T
    yield "transpose, 4096 x 8192, 2 bytes", wide.view(np.uint16).T
    yield "image HWC to CHW, 2160 x 3840 bytes", image.transpose(2, 0, 1)
    yield "image CHW to HWC, 2160 x 3840 bytes", image.reshape(3, 2160, 3840).transpose(1, 2, 0)
    yield "axes 2, 0, 1 of 200 x 200 x 200, 8 bytes", wide.reshape(-1)[: 2 * 200**3].view(np.uint64).reshape(200, 200, 200).transpose(2, 0, 1)
    yield "every other column, 4 bytes", wide[:, ::2]
    yield "4000 columns out of 4096, 4 bytes", wide[:, 48:4048]
    yield "one row repeated 4096 times, 4 bytes", np.broadcast_to(wide[0], wide.shape)
    yield "columns backwards, 4 bytes", wide[:, ::-1]


def copies(module, quick):
    import numpy as np

    torch = optional("torch")
    if torch is not None:
        torch.set_num_threads(1)

    def timed(work):
        begin = time.perf_counter()
        work()
        return time.perf_counter() - begin

    for what, source in layouts():
        into = {name: np.ones(source.shape, source.dtype) for name in ("ferry", "NumPy", "PyTorch")}
        elements = lambda a: [s // a.itemsize for s in a.strides]
        contestants = {
            "ferry": lambda: module.copy(
                into["ferry"].ctypes.data, elements(into["ferry"]), source.ctypes.data, elements(source), list(source.shape), source.itemsize * 8
            ),
            "NumPy": lambda: np.copyto(into["NumPy"], source),
        }
        if torch is not None and min(source.strides) >= 0:  # torch has no negative strides
            signed = np.dtype(f"i{source.itemsize}")
            base = torch.from_numpy(source.base.view(signed))
            view = torch.as_strided(base, source.shape, elements(source), (source.ctypes.data - source.base.ctypes.data) // source.itemsize)
            to = torch.from_numpy(into["PyTorch"].view(signed))
            contestants["PyTorch"] = lambda: to.copy_(view)
        samples = by_turns({name: lambda work=work: timed(work) for name, work in contestants.items()}, 5 if quick else 11)
        for name in contestants:
            assert np.array_equal(into[name], source), f"{name} copied {what} wrongly"
        yield from rows("copies on the host", what, samples)


def includes(quick):
    def folder(package, *below):
        found = importlib.util.find_spec(package)
        return pathlib.Path(found.submodule_search_locations[0], *below) if found else None

    headers = {"<ferry/ferry.hpp>": ("ferry/ferry.hpp", ROOT / "include"), "<memory>, for comparison": ("memory", ROOT / "include")}
    for name, header, where in (
        ("<tvm/ffi/container/tensor.h>", "tvm/ffi/container/tensor.h", folder("tvm_ffi", "include")),
        ("<nanobind/ndarray.h>", "nanobind/ndarray.h", folder("nanobind", "include")),
        ("<pybind11/numpy.h>", "pybind11/numpy.h", folder("pybind11", "include")),
        ("<ATen/DLConvertor.h>", "ATen/DLConvertor.h", folder("torch", "include")),
    ):
        if where is not None and where.exists():
            headers[name] = (header, where)
        else:
            print(f"{name} is left out: its package is not installed", file=sys.stderr)

    def spent():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    with tempfile.TemporaryDirectory() as work:

        def once(compiler, header, where):
            source = pathlib.Path(work, "one.cpp")
            source.write_text(f"#include <{header}>\n")
            command = [compiler, "-std=c++20", "-w", "-fsyntax-only", f"-I{where}", "-isystem", os.environ["FERRY_DLPACK_INCLUDE_DIR"], "-isystem",
                       sysconfig.get_path("include"), source]  # fmt: skip
            before = spent()
            subprocess.run(command, check=True)
            return spent() - before

        for compiler in ("g++", "clang++-19"):
            if shutil.which(compiler) is None:
                print(f"{compiler} is left out: it is not installed", file=sys.stderr)
                continue
            contestants = {name: lambda h=h, w=w, c=compiler: once(c, h, w) for name, (h, w) in headers.items()}
            yield from rows("including a header", compiler, by_turns(contestants, 2 if quick else 3, warm_up=False), "<ferry/ferry.hpp>")


def main():
    sys.path.insert(0, sys.argv[1])
    quick = "--quick" in sys.argv
    optional("torch")  # its libraries, before the module asks for them
    import side_by_side as module

    out = [*round_trips(module, quick), *copies(module, quick), *includes(quick)]
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
