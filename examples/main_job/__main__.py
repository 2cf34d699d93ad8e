"""The main job: sends photographs from NumPy through minitensor to PyTorch, JAX, tvm-ffi and Arrow, and back; with a GPU, also
through GPU memory.

usage: python examples/main_job [--libs numpy,torch,jax,tvm_ffi,pyarrow] [--out FOLDER] [--verbose] [--flip-after HOP]

Prints what was exchanged, with --verbose as a row for every exchange, and writes the resulting pictures. The exit status is 1 if a
bit has changed.
"""

import argparse
import gc
import pathlib
import sys
import textwrap
import time

import numpy as np
from journey import Journey
from libraries import LIBRARIES, ON_GPU, Minitensor
from pictures import aligned, load, save

MT = "minitensor"


def load_libraries(wanted):
    libraries, found = {}, []
    for name in (MT, *LIBRARIES):
        if name not in wanted and name not in (MT, "numpy"):
            libraries[name] = None
            continue
        try:
            libraries[name] = Minitensor() if name == MT else LIBRARIES[name]()
            found.append(f"{name} {libraries[name].module.__version__}")
        except (ImportError, OSError) as error:  # a library whose dependencies are missing raises OSError
            libraries[name] = None
            print(f"{name:>10}   MISSING: {error}")
    print(", ".join(found), flush=True)
    return libraries


def no_gpu(module):
    """Returns the reason why no GPU is available, or None."""
    if module.cuda_available():
        return None
    try:
        module.zeros(1, "uint8", "cuda")
    except BufferError as error:
        return str(error)
    return "minitensor reports that there is no GPU"


def seen(array, view):
    """Returns a view of an array, or None if there is no array."""
    return view(array) if array is not None else None


def chw_of(hwc):
    return hwc.transpose(2, 0, 1)


class Job:
    def __init__(self, journey, folder):
        self.journey = journey
        self.hop = journey.hop
        self.folder = folder
        self.written = []

    def module(self, name):
        library = self.journey.libraries[name]
        return library.module if library is not None else None

    def write(self, name, values):
        if values is not None:
            self.written.append(save(self.folder, name, np.asarray(values)))

    def via_minitensor(self, source, target, array, copy=False):
        there = self.hop(source, MT, array)
        return self.hop(MT, target, there, copy=copy)

    def there_and_back(self, what, array, view=lambda t: t):
        """NumPy → minitensor → every library in turn → minitensor → NumPy; `view` is taken in minitensor."""
        here = self.hop("numpy", MT, array)
        there = seen(here, view)
        for name in ("torch", "jax", "tvm_ffi", "pyarrow"):
            if name == "pyarrow" and array.ndim != 1:
                continue
            back = self.via_minitensor(name, "numpy", self.hop(MT, name, there))
            self.journey.round_trip(f"{what} through {name}", MT, there, "numpy", back)
        return there

    def filters(self, photo):
        """Blur and edges of a photograph: convolutions in PyTorch on float32 in CHW, tones and thresholds in JAX."""
        self.journey.heading("astronaut: HWC bytes, viewed as CHW without a copy; blur and edges in torch, tones in jax")
        here = self.hop("numpy", MT, photo)
        chw = self.hop(MT, "torch", seen(here, chw_of))
        blurred = edges = None
        if chw is not None:
            torch = self.module("torch")
            planes = chw.to(torch.float32).contiguous()[:, None] / 255
            bell = torch.exp(-(torch.arange(-9, 10, dtype=torch.float32) ** 2) / 18)
            kernel = torch.outer(bell, bell)[None, None] / bell.sum() ** 2
            blurred = torch.conv2d(torch.nn.functional.pad(planes, (9, 9, 9, 9), mode="reflect"), kernel)[:, 0].contiguous()
            sobel = torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]])
            slopes = torch.conv2d(planes.mean(0, keepdim=True), torch.stack([sobel, sobel.T])[:, None], padding=1)[0]
            edges = slopes.square().sum(0).sqrt()
        toned = self.via_minitensor("torch", "jax", blurred)
        outline = self.via_minitensor("torch", "jax", edges)
        pixels = mask = None
        if toned is not None:
            jnp = self.module("jax").numpy
            pixels = jnp.round(jnp.clip(toned, 0, 1) * 255).astype(jnp.uint8)
        if outline is not None:
            mask = outline > 0.5
        back = self.hop("jax", "numpy", pixels)
        self.journey.round_trip("the blurred picture, out of jax", "jax", pixels, "numpy", back)
        self.write("astronaut_blurred", back.transpose(1, 2, 0) if back is not None else None)
        back = self.via_minitensor("jax", "numpy", mask)
        self.journey.round_trip("the mask of edges, bool", "jax", mask, "numpy", back)
        self.write("astronaut_edges", back * np.uint8(255) if back is not None else None)

    def stereo(self, left, right, disparity):
        """Reconstructs the left photograph of the pair from the right one and its disparity map."""
        self.journey.heading("motorcycle: the left photograph, reconstructed in torch from the right one and the disparity map; mask from jax")
        depth = self.hop("numpy", MT, disparity)
        known = None
        offered = self.hop(MT, "jax", depth)
        if offered is not None:
            known = self.module("jax").numpy.isfinite(offered)
        mask = self.via_minitensor("jax", "torch", known)
        shift = self.hop(MT, "torch", depth)
        photo = self.via_minitensor("numpy", "torch", right)
        rebuilt = None
        if not any(x is None for x in (mask, shift, photo)):
            torch = self.module("torch")
            columns = torch.arange(shift.shape[1]) - torch.where(mask, shift, 0).round().to(torch.int64)
            inside = mask & (columns >= 0)
            taken = torch.gather(photo, 1, columns.clamp(0)[..., None].expand(-1, -1, 3))
            rebuilt = torch.where(inside[..., None], taken, 0).contiguous()
        back = self.via_minitensor("torch", "numpy", rebuilt)
        self.journey.round_trip("the rebuilt photograph", "torch", rebuilt, "numpy", back)
        if back is not None:
            inside = back.any(axis=2)
            error = np.abs(back[inside].astype(float) - left[inside]).mean()
            if self.journey.verbose:
                print(f"{'':>10}   {inside.mean():.0%} of the pixels are visible to both cameras; they differ by {error:.1f} of 255 on average")
            self.write("motorcycle_rebuilt", np.concatenate([left, back], axis=1))

    def layouts(self, photo):
        frozen = photo.view()
        frozen.flags.writeable = False
        small = photo[:50, :60, 0]
        for what, array, view in (
            ("transposed: HWC viewed as CHW", photo, chw_of),
            ("upside down: negative strides", photo, lambda t: t[::-1]),
            ("a crop, every other column", photo, lambda t: t[100:300, 200:600:2]),
            ("broadcast: one plane three times, zero strides", aligned(small), lambda t: t.broadcast_to((3, 50, 60))),
            ("read-only at its producer", frozen, lambda t: t),
        ):
            self.journey.heading(f"motorcycle, {what}")
            there = self.there_and_back(what, array, view)
            if what.startswith("upside"):
                self.write("motorcycle_upside_down", self.hop(MT, "numpy", there))
            if what.startswith("a crop"):
                self.write("motorcycle_crop", self.hop(MT, "numpy", there))

    def columns(self, photo, disparity, faces):
        """One-dimensional arrays, for Arrow as well."""
        self.journey.heading("the disparity map as a column of float32; it begins 20 bytes past a multiple of 64")
        self.there_and_back("the disparity map", disparity[1:].reshape(-1))
        self.journey.heading("face patches as a column of float64")
        self.there_and_back("the face patches", faces.reshape(-1))
        self.journey.heading("dark pixels: a column of bool")
        self.there_and_back("the dark pixels", aligned((photo.mean(axis=2) < 64).reshape(-1)))
        self.journey.heading("the histogram of a photograph, counted in torch: a column of int64")
        values = self.via_minitensor("numpy", "torch", photo.reshape(-1))
        if values is not None:
            torch = self.module("torch")
            histogram = self.via_minitensor("torch", "numpy", torch.bincount(values.to(torch.int64), minlength=256))
            if histogram is not None:
                self.there_and_back("the histogram", histogram)

    def faces(self, faces):
        self.journey.heading("face patches, float64: a batch for the mean face in torch, and a contact sheet of transposed views")
        patches = self.via_minitensor("numpy", "torch", faces)
        mean = patches[:100].mean(0) if patches is not None else None
        mean = self.via_minitensor("torch", "numpy", mean)
        sheet = self.hop("numpy", MT, faces[:100].reshape(10, 10, 25, 25))
        sheet = self.hop(MT, "numpy", seen(sheet, lambda t: t.transpose(0, 2, 1, 3)))
        if sheet is not None:
            self.write("faces", (sheet.reshape(250, 250) * 255).astype(np.uint8))
        if mean is not None:
            self.write("mean_face", np.kron(mean * 255, np.ones((8, 8))).astype(np.uint8))

    def copies(self, photo):
        self.journey.heading("astronaut, requested copies")
        self.hop("numpy", MT, photo, copy=True)
        here = self.hop("numpy", MT, photo)
        self.hop(MT, "numpy", here, copy=True)
        self.hop(MT, "torch", seen(here, chw_of), copy=True)

    def gpu(self, photo, disparity):
        """NumPy → minitensor on a GPU → PyTorch and CuPy there → minitensor → NumPy."""
        libraries = self.journey.libraries
        for name, library in ON_GPU.items():
            try:
                libraries[name] = library() if name != "torch cuda" or libraries["torch"] is not None else None
            except (ImportError, OSError) as error:
                libraries[name] = None
                print(f"{name:>10}   MISSING: {error}")
        for what, array, view in (
            ("astronaut", photo, lambda t: t),
            ("astronaut, HWC viewed as CHW", photo, chw_of),
            ("a crop of the disparity map", disparity, lambda t: t[100:300, 200:600:2]),
        ):
            self.journey.heading(f"{what}: through GPU memory, from minitensor to torch and CuPy and back to the host")
            there = seen(self.hop("numpy", "mt cuda", array), view)
            for name in ("torch cuda", "cupy"):
                again = self.hop(name, "mt cuda", self.hop("mt cuda", name, there))
                back = self.hop("mt cuda", "numpy cpu", again)
                self.journey.round_trip(f"{what} through {name}", "mt cuda", there, "numpy cpu", back)


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(prog="main_job", description=__doc__.split("\n")[0])
    parser.add_argument("--libs", default=",".join(LIBRARIES), help="comma-separated names of libraries")
    parser.add_argument("--out", type=pathlib.Path, default=here.parents[1] / "build" / "main_job", help="folder for the pictures")
    parser.add_argument("--verbose", action="store_true", help="print every exchange")
    parser.add_argument("--flip-after", type=int, metavar="HOP", help="flip a bit after this hop, to test that it is detected")
    arguments = parser.parse_args()
    wanted = arguments.libs.split(",")
    unknown = set(wanted) - set(LIBRARIES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; expected {', '.join(LIBRARIES)}")

    begin = time.perf_counter()
    journey = Journey(load_libraries(wanted), arguments.flip_after, arguments.verbose)
    if journey.libraries[MT] is None:
        sys.exit("minitensor is required: pip install ./examples/minitensor")
    if arguments.verbose:
        print("\nAn exchange shares if the address is the same on both sides. acc: rw, ro, or - for a library without read-only arrays.")
        print("ns: time of one exchange, median of many. own ns: time in which the receiver (the sender, if minitensor receives) imports its own array.")
        print(f"\n{journey.legend()}")

    job = Job(journey, arguments.out)
    photos = {name: load(name) for name in ("astronaut", "left", "right", "disparity", "faces")}
    for name, parts in (
        ("filters", ["astronaut"]),
        ("stereo", ["left", "right", "disparity"]),
        ("layouts", ["left"]),
        ("columns", ["left", "disparity", "faces"]),
        ("faces", ["faces"]),
        ("copies", ["astronaut"]),
    ):
        absent = [part for part in parts if photos[part] is None]
        if absent:
            journey.skip(f"{name}: this scikit-image does not bundle {', '.join(absent)}")
            continue
        getattr(job, name)(*(photos[part] for part in parts))

    module = journey.libraries[MT].module
    why = no_gpu(module)
    if why is None and photos["astronaut"] is not None and photos["disparity"] is not None:
        job.gpu(photos["astronaut"], photos["disparity"])

    if journey.flip_after is not None:
        journey.failures.append(f"no bit was flipped: hop {journey.flip_after} did not take place")
    gc.collect()
    if why is None:
        module.synchronize()  # GPU memory is released in the order of its stream
    left = module.live_bytes()
    if left:
        journey.failures.append(f"minitensor still has {left} bytes allocated after everything was released")
    exchanged = sum(r.shared + r.copied for r in journey.routes.values())
    journey.heading("")
    print("\nMedian times: time, of an exchange; own, of an import by the library of its own array.\n" if not arguments.verbose else "")
    print("\n".join(journey.table()))
    if why is not None:
        print(f"No exchanges with a GPU: {why}")
    if job.written:
        folder = arguments.out.resolve()
        folder = folder.relative_to(pathlib.Path.cwd()) if folder.is_relative_to(pathlib.Path.cwd()) else folder
        print(textwrap.fill(f"Pictures in {folder}: {', '.join(path.name for path in job.written)}", 100, subsequent_indent="  "))
    for failure in journey.failures:
        print(f"FAILED: {failure}")
    print(
        f"Every byte of {exchanged} exchanges compared by SHA-256; {journey.trips} round trips returned identical data; "
        f"{left} bytes left allocated; {time.perf_counter() - begin:.0f} s"
    )
    # + 1: the check that all memory was released
    print(f"{exchanged + journey.trips + (left == 0)} passed, {len(journey.failures)} failed, {journey.skipped} skipped")
    sys.exit(bool(journey.failures))


if __name__ == "__main__":
    main()
