"""Measures what ferry adds to a program's build: the rows of its budgets for compilation, header-only and with engines compiled elsewhere.

usage: compile_cost.py [--rounds N] [--compiler g++]

Prints for each program the processor time of `-O2 -c` and the code of the object (the column `text` of size), for each header the
time of `-fsyntax-only` minus that of an empty file or of Python.h, and the lines of the headers. Times are the minimum of all rounds.
DLPack's header is found through FERRY_DLPACK_INCLUDE_DIR. The exit status is 1 if a budget does not hold.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile

from include_cost import ROOT, seconds

SHARE = """#include <ferry/column.hpp>
#include <ferry/ipc.hpp>
#include <utility>
using namespace ferry;
ipc::shared one(managed_tensor t) { return ipc::share(std::move(t)); }
ipc::shared two(column const& c) { return ipc::share(c); }
managed_tensor three(wire::descriptor const& d) { return ipc::attach(d); }
column four(wire::descriptor const& d) { return ipc::attach_column(d); }
"""
# A back end whose operations are compiled elsewhere.
SECOND = (
    SHARE
    + """struct memory {
    memory(memory&&) noexcept;
    ~memory();
    void* data() const;
    ferry::device device() const;
    wire::memory const& description() const;
    void wait_ready(stream_token), record_ready(stream_token), wait_ready(wire::memory const&, stream_token);
    bool order_after(ipc::event_handle const&, stream_token), record_done(stream_token, ipc::event_handle&);
};
struct other {
    bool reaches(device) const, exports(device) const, opens(wire::memory const&) const;
    memory allocate(device, std::size_t, stream_token), allocate_exportable(device, std::size_t, stream_token);
    bool copy(copy_plan const&, void*, device, void const*, device, stream_token);
    void order(stream_token, stream_token), wait(stream_token);
    char const* refusal(ipc::byte_range const&, device);
    memory export_memory(ipc::byte_range const&, device, stream_token), open_memory(wire::memory const&, ipc::opening const&);
};
static_assert(ipc::handle_back_end<other>);
ipc::shared five(managed_tensor t, other& b) { return ipc::share(std::move(t), b); }
ipc::shared six(column const& c, other& b) { return ipc::share(c, b); }
managed_tensor seven(wire::descriptor const& d, other& b) { return ipc::attach(d, b); }
column eight(wire::descriptor const& d, other& b) { return ipc::attach_column(d, b); }
"""
)
PYTHON = """#include <ferry/python.hpp>
#include <utility>
struct array {
    float value;
    ferry::tensor_view ferry_view() const;
};
template <>
struct ferry::array_traits<array> {
    static array share(array const&);
    static array adopt(ferry::managed_tensor);
};
array* unwrap(PyObject*);
PyObject* wrap(array&&);
bool install(PyTypeObject* type) {
    return ferry::python::install_dlpack<array>(
        type, [](PyObject* o) { return unwrap(o); }, [](array&& a) { return wrap(std::move(a)); });
}
"""
MODES = {"header-only": [], "separate": ["-DFERRY_SEPARATE_COMPILATION"]}
# program: what it contains, and for each mode the seconds and the bytes that it may take.
PROGRAMS = {
    "share and attach a tensor and a column": (SHARE, {"header-only": (8, 170_000), "separate": (1.5, 8_000)}),
    "the same with a second back end, in addition": (SECOND, {"header-only": (None, 6_000), "separate": (None, 6_000)}),
    "a Python type by install_dlpack": (PYTHON, {"header-only": (None, 100_000), "separate": (None, 40_000)}),
}
HEADERS = {"memory": None, "ferry/python.hpp": 0.5, "ferry/column.hpp": 0.6, "ferry/arrow.hpp": 0.6}
PUBLIC_LINES, ALL_LINES = 20_000, 37_600


def lines(is_counted):
    files = (file for file in (ROOT / "include").rglob("*.*") if file.name != "fatbin.hpp" and is_counted(file))
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def measure(compiler, rounds, folder):
    """Yields (what, mode, measured, at most, unit)."""
    command = [compiler, "-std=c++20", f"-I{ROOT / 'include'}", "-isystem", os.environ["FERRY_DLPACK_INCLUDE_DIR"]]
    command += ["-isystem", sysconfig.get_path("include")]
    source, compiled = folder / "one.cpp", folder / "one.o"

    def least(text, options):
        source.write_text(text)
        return min(seconds([*command, *options, str(source), "-o", str(compiled)]) for _ in range(rounds))

    for mode, options in MODES.items():
        before = (0, 0)
        for name, (text, budgets) in PROGRAMS.items():
            spent = least(text, ["-O2", "-c", *options])
            size = int(subprocess.run(["size", str(compiled)], capture_output=True, text=True, check=True).stdout.splitlines()[1].split()[0])
            less = before if text is SECOND else (0, 0)
            before = (spent, size)
            yield name, mode, spent - less[0], budgets[mode][0], "s"
            yield name, mode, size - less[1], budgets[mode][1], "bytes"
        for header, most in HEADERS.items():
            without = "#include <Python.h>\n" if header == "ferry/python.hpp" else ""
            front = ["-fsyntax-only", *options]
            yield f"`#include <{header}>`", mode, least(f"#include <{header}>\n", front) - least(without, front), most, "s"
    yield "lines of public headers: those outside of detail/", "", lines(lambda file: "detail" not in file.parts and file.suffix in {".hpp", ".cuh"}), PUBLIC_LINES, "lines"
    yield "lines of all headers, without generated ones", "", lines(lambda _: True), ALL_LINES, "lines"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--compiler", default="g++")
    arguments = parser.parse_args()
    is_met = True
    print("| what | mode | measured | at most | met |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for what, mode, found, most, unit in measure(arguments.compiler, arguments.rounds, pathlib.Path(folder)):
            shown = [f"{value:.2f} s" if unit == "s" else f"{value / 1000:.1f} kB" if unit == "bytes" else str(value) for value in (found, most) if value is not None]
            verdict = "" if most is None else "yes" if found <= most else "no"
            is_met = is_met and verdict != "no"
            print(f"| {what} | {mode} | {shown[0]} | {shown[1] if most is not None else ''} | {verdict} |", flush=True)
    sys.exit(not is_met)


if __name__ == "__main__":
    main()
