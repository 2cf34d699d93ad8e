"""Tests each way to get ferry by a separate consumer project outside of the tree, and the errors for missing dependencies.

usage: run.py --compiler COMPILER --clang COMPILER --dlpack INCLUDE_DIR [--python PYTHON] [--all-wheels] [NAME...]

A way is a folder of consumers/: its build.sh runs in a copy of it, with main.cpp and CMakeLists.txt from above where it has
none, and ends with `ferry VERSION` if a program of ferry's has run. It knows FERRY (this tree), DLPACK, CXX, PYTHON, after
find_package PREFIX (an installed ferry that was moved), after release RELEASE (what a release would publish), and leaves what it packaged in RESULT. `// [part]` and `# [part]` mark
what docs/install.md shows. PYTHON has scikit-build-core and conan beside it. The last line: `N passed, N failed, N skipped`.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "package"
CONSUMERS = HERE / "consumers"
CMAKE_FILES = {f"ferry-{part}.cmake" for part in ("config", "config-version", "targets", "components", "dlpack")}


class Failed(Exception):
    pass


def read(path):
    return pathlib.Path(path).read_text(encoding="utf-8")


def version_of_header():
    return ".".join(re.findall(r"#define FERRY_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", read(ROOT / "include/ferry/version.hpp")))


def expect(condition, text):
    if not condition:
        raise Failed(text)


class Package:
    """State of the tests: paths, and the results of earlier checks."""

    def __init__(self, arguments, work):
        self.compiler, self.clang, self.dlpack, self.work = arguments.compiler, arguments.clang, arguments.dlpack, work
        self.python = os.path.abspath(arguments.python)
        self.all_wheels = arguments.all_wheels
        self.version = version_of_header()
        nvcc = shutil.which("nvcc", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
        tools = os.path.dirname(self.python)
        self.environment = {
            **os.environ,
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "FERRY": str(ROOT),
            "DLPACK": self.dlpack,
            "CXX": self.compiler,
            "PYTHON": self.python,
            "PREFIX": str(self.result("find_package")),
            "RELEASE": str(self.result("release")),
            "FERRY_PY": self.python,
            "WITH": "cuda;kernels" if nvcc else "",
            "CMAKE_GENERATOR": "Ninja",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            **({"CUDACXX": nvcc} if nvcc else {}),
        }
        for name in ("PIP_FIND_LINKS", "CMAKE_PREFIX_PATH", "PKG_CONFIG_PATH", "PYTHONPATH", "ferry_DIR"):
            self.environment.pop(name, None)

    def result(self, name):
        return self.work / "results" / name

    def folder(self, name):
        return self.work / name

    def run(self, *command, fails=False, env=None, stderr=subprocess.STDOUT, cwd=None):
        """The output. With `fails` the command must not succeed."""
        result = subprocess.run(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=stderr, stdin=subprocess.DEVNULL, text=True, check=False,
            env=self.environment | (env or {}), cwd=cwd
        )
        expect((result.returncode != 0) == fails, f"{' '.join(map(str, command))}: exit {result.returncode}\n{result.stdout}")
        return result.stdout

    def consumer(self, name):
        """A copy of a consumer, outside of the tree."""
        folder = self.folder(name)
        folder.mkdir(parents=True)
        for file in ("main.cpp", "CMakeLists.txt"):
            shutil.copy(CONSUMERS / file, folder)
        if (CONSUMERS / name).is_dir():
            shutil.copytree(CONSUMERS / name, folder, dirs_exist_ok=True)
        return folder

    def build(self, name):
        folder = self.consumer(name)
        self.result(name).parent.mkdir(exist_ok=True)
        output = self.run("bash", "-eu", "-o", "pipefail", "build.sh", cwd=folder, env={"RESULT": str(self.result(name))})
        return output


def way(name):
    def check(package):
        output = package.build(name)
        expect(f"ferry {package.version}" in output.splitlines(), f"no `ferry {package.version}`:\n{output}")

    return check


def quickstart(package):
    """Its own output is what it is compared with."""
    package.build("quickstart")


def release(package):
    """The files of a release depend on the tree alone."""
    if not (ROOT / ".git").exists():
        return "left out: the tree is no git repository"
    sums = [package.run("bash", ROOT / "packaging/release", "--dry-run", package.result(name)).splitlines() for name in ("again", "release")]
    sums = [[line for line in lines if re.match(r"[0-9a-f]{64} ", line)] for lines in sums]
    expect(sums[0] == sums[1] and len(sums[0]) == 6, f"two runs made different files: {sums}")


def python_wheel(package):
    """A program that uses ferry-config, and an extension module with the wheel as a build requirement."""
    lines = package.build("python").splitlines()
    expect(f"ferry {package.version}" in lines and lines[-1] == "6.0", "\n".join(lines))


def wheels(package):
    """The wheel of ferry-dlpack for this Python, repaired, in an empty environment."""
    package.run("bash", ROOT / "packaging/python/wheels", *([] if package.all_wheels else [package.python]))


def components(package):
    way("components")(package)
    return None if package.environment["WITH"] else "without cuda and kernels: there is no nvcc"


# The messages for missing dependencies: the options that hide the dependency, and text that the message must contain. The first
# word is the method to add ferry. `after_project` is CMake code that runs after project().
NOWHERE = ["-DCMAKE_DISABLE_FIND_PACKAGE_dlpack=ON", "-DCMAKE_IGNORE_PATH=/usr/include;/usr/local/include"]
BAD = {
    "no DLPack": ("package", NOWHERE, "", "dlpack/dlpack.h was not found. Set FERRY_DLPACK_INCLUDE_DIR"),
    "no DLPack, from source": ("source", [*NOWHERE, "-DFERRY_FETCH_DLPACK=OFF"], "", "set FERRY_FETCH_DLPACK=ON to download it"),
    "another folder than DLPack's": ("package", ["-DFERRY_DLPACK_INCLUDE_DIR=/"], "", "(/) does not contain dlpack/dlpack.h"),
    "DLPack 0.8": ("package", ["-DFERRY_DLPACK_INCLUDE_DIR={old}"], "", "requires DLPack 1.0 or newer"),
    "no toolkit": ("package cuda", ["{dlpack}", "-DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON"], "", "component cuda is not available: find_package(CUDAToolkit 12.6) failed: install"),
    "no toolkit, from source": ("source cuda", ["{dlpack}", "-DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON"], "", "component cuda is not available"),
    "no nvcc": ("package kernels", ["{dlpack}"], "", "component kernels is not available: {no_nvcc}"),
    "no Python headers": ("package python", ["{dlpack}", "-DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON"], "", "component python is not available: {any}install CPython's headers"),
    "ipc on another system": ("package ipc", ["{dlpack}", "-DCMAKE_SYSTEM_NAME=FreeBSD"], "", "component ipc is not available: it requires Linux"),
    "a component that was not requested": ("package", ["{dlpack}"], "", "ferry::python requires find_package(ferry COMPONENTS python)"),
    "a component that was not requested, from source": ("source", ["{dlpack}"], "", "ferry::python requires set(FERRY_COMPONENTS python) before ferry is added"),
    "a component that is none": ("package arow", ["{dlpack}"], "", "unknown component; expected one of ferry, arrow, ipc, cuda, kernels, python, conformance, compiled"),
    "a package of headers only": ("package compiled", ["{dlpack}"], "", "component compiled is not available: the package contains headers only: install ferry with FERRY_COMPONENTS=compiled"),
    "an old GCC": ("package", ["{dlpack}"], "set(CMAKE_CXX_COMPILER_ID GNU)\nset(CMAKE_CXX_COMPILER_VERSION 11.4.0)", "requires GCC 12 or Clang 16, or newer, but {any}is GNU 11.4.0. Set CMAKE_CXX_COMPILER"),
    "an old Clang, from source": ("source", ["{dlpack}"], "set(CMAKE_CXX_COMPILER_ID Clang)\nset(CMAKE_CXX_COMPILER_VERSION 15.0.7)", "is Clang 15.0.7. Set CMAKE_CXX_COMPILER"),
}


def words(text):
    """Normalises white space, because CMake wraps messages."""
    return re.sub(r"\s+", " ", text)


def bad_input(package):
    """CMake reports missing dependencies and the fix."""
    work = package.folder("bad_input")
    (work / "old/dlpack").mkdir(parents=True)
    (work / "old/dlpack/dlpack.h").write_text("#define DLPACK_VERSION 80\n", encoding="utf-8")
    has_toolkit = bool(package.environment["WITH"])
    known = {
        "old": str(work / "old"),
        "dlpack": f"-DFERRY_DLPACK_INCLUDE_DIR={package.dlpack}",
        "no_nvcc": "nvcc is required: use project(... LANGUAGES CXX CUDA)" if has_toolkit else "find_package(CUDAToolkit 12.6)",
        "any": "{any}",
    }

    def check(name):
        how, options, after_project, message = BAD[name]
        how, *asked = how.split()
        source = work / name.replace(" ", "_")
        source.mkdir()
        come_in = {
            "package": f"find_package(ferry CONFIG REQUIRED COMPONENTS {' '.join(asked)})",
            "source": f'set(FERRY_COMPONENTS {" ".join(asked)})\nadd_subdirectory("{ROOT}" ferry)',
        }[how]
        (source / "after.cmake").write_text(after_project, encoding="utf-8")
        (source / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.25)\nproject(app LANGUAGES CXX)\n{come_in}\n"
            "add_library(app INTERFACE)\ntarget_link_libraries(app INTERFACE ferry::python)\n"
            "add_executable(main after.cmake)\nset_target_properties(main PROPERTIES LINKER_LANGUAGE CXX)\n"
            "target_link_libraries(main PRIVATE app)\n",
            encoding="utf-8",
        )
        output = package.run(
            "cmake", "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={package.environment['PREFIX']}",
            f"-DCMAKE_PROJECT_INCLUDE={source}/after.cmake", *(option.format_map(known) for option in options), fails=True
        )
        wanted = ".*".join(re.escape(part) for part in words(message.format_map(known)).split("{any}"))
        expect(re.search(wanted, words(output)), f"{name}: not `{message}` in:\n{output}")

    for name in BAD:
        check(name)


def bad_input_without_cmake(package):
    """The headers report missing requirements with #error."""
    include = ["-std=c++20", f"-I{ROOT}/include", "-fsyntax-only", "-x", "c++", "-include", "ferry/ferry.hpp", "/dev/null"]
    dlpack = ["-isystem", package.dlpack]
    old = package.folder("old_header")
    (old / "dlpack").mkdir(parents=True)
    (old / "dlpack/dlpack.h").write_text("#define DLPACK_VERSION 80\n", encoding="utf-8")
    for compiler, options, message in (
        (package.compiler, [], "DLPack header of version 1.0 or later|dlpack.h not found"),  # /usr/include may have an old one
        (package.compiler, [f"-I{old}"], "needs a DLPack header of version 1.0 or later"),
        (package.compiler, ["-std=c++17", *dlpack], r"needs C\+\+20: compile with -std=c\+\+20"),
        (package.compiler, ["-U__GNUC__", "-D__GNUC__=11", *dlpack], "select one; with CMake, set CMAKE_CXX_COMPILER"),
        (package.clang, ["-U__clang_major__", "-D__clang_major__=15", *dlpack], "select one; with CMake, set CMAKE_CXX_COMPILER"),
    ):
        output = package.run(compiler, *include[:1], *options, *include[1:], fails=True)
        expect(re.search(message, output), f"{compiler} {options}: not `{message}` in:\n{output}")


def headers_in_tree():
    """The headers, as they are included, and their paths in the tree."""
    trees = (ROOT / "include", ROOT / "packaging/conformance/include")
    files = [(tree, file) for tree in trees for end in ("*.*pp", "*.cuh") for file in tree.rglob(end)]
    return {file.relative_to(tree).as_posix(): file.relative_to(ROOT).as_posix() for tree, file in files}


def contents(package):
    """Each package has the headers, the CMake files and the licence only, and no path of its build."""
    sdist = package.folder("sdist")
    sdist.mkdir()
    package.run(package.python, "-c", "import sys, scikit_build_core.build as b; b.build_sdist(sys.argv[1])", sdist, cwd=ROOT)
    (archive,) = sdist.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(sdist / "tree", filter="data")
    (source,) = (sdist / "tree").iterdir()
    wheel = package.folder("wheel")
    with zipfile.ZipFile(package.result("python")) as file:
        file.extractall(wheel)
    info = f"ferry_headers-{package.version}.dist-info"

    cmake = {f"share/cmake/ferry/{name}" for name in CMAKE_FILES}
    pkgconfig = "share/pkgconfig/ferry.pc"
    expected = {
        "find_package": (package.result("find_package"), "include", {*cmake, pkgconfig, "share/licenses/ferry/LICENSE"}),
        "conan": (package.result("conan"), "include", {*cmake, pkgconfig, "licenses/LICENSE", "conaninfo.txt", "conanmanifest.txt"}),
        "vcpkg": (package.result("vcpkg"), "include",
                  {*(f"share/ferry/{name}" for name in (*CMAKE_FILES, "copyright", "usage")), pkgconfig}),
        "wheel": (wheel, "ferry_headers/include", {
            *(f"ferry_headers/{name}" for name in (*cmake, "__init__.py", "__main__.py")),
            *(f"{info}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")),
        }),
        "sdist": (source, "include", {
            "CMakeLists.txt", "LICENSE", "PKG-INFO", "pyproject.toml", "cmake/ferry.pc.in", "cmake/ferry-compiled.pc.in",
            *(f"cmake/ferry-{part}.cmake" for part in ("config", "components", "compiled", "dlpack")),
            *(f"packaging/python/{name}" for name in ("README.md", "ferry_headers/__init__.py", "ferry_headers/__main__.py")),
        }),
    }
    for name, (folder, include, more) in expected.items():
        headers = {path if name == "sdist" else f"{include}/{header}" for header, path in headers_in_tree().items()}
        wanted = headers | more
        found = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
        expect(found == wanted, f"{name}: missing {sorted(wanted - found)}, unneeded {sorted(found - wanted)}")
        for file in found - headers:
            for path in (str(ROOT), str(package.work)):
                expect(path not in read(folder / file), f"{name}: {file} names {path}: it cannot be moved")
    # The wheel can be built from the sdist.
    package.run(package.python, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", sdist, archive)
    (again,) = sdist.glob("*.whl")
    with zipfile.ZipFile(again) as one, zipfile.ZipFile(package.result("python")) as other:
        expect(sorted(one.namelist()) == sorted(other.namelist()), "the wheel of the sdist has other files")


def versions(package):
    """All files that state the version agree with include/ferry/version.hpp."""
    prefix = package.result("find_package")
    conan_home = {"CONAN_HOME": str(package.folder("conan-inspect"))}
    inspected = package.run("conan", "inspect", ROOT, "--format=json", env=conan_home, stderr=subprocess.DEVNULL)
    with zipfile.ZipFile(package.result("python")) as file:
        metadata = file.read(f"ferry_headers-{package.version}.dist-info/METADATA").decode()
    said = {
        "ferry-config-version.cmake": re.search(r'set\(PACKAGE_VERSION "([^"]+)"\)', read(prefix / "share/cmake/ferry/ferry-config-version.cmake"))[1],
        "ferry.pc": re.search(r"^Version: (\S+)$", read(prefix / "share/pkgconfig/ferry.pc"), re.M)[1],
        "ferry-dlpack": re.search(r'__version__ = "([^"]+)"', read(ROOT / "packaging/python/ferry/python/ferry/__init__.py"))[1],
        "ports/ferry/vcpkg.json": json.loads(read(ROOT / "ports/ferry/vcpkg.json"))["version"],
        "the wheel": re.search(r"^Version: (\S+)$", metadata, re.M)[1],
        "conanfile.py": json.loads(inspected)["version"],
    }
    wrong = {where: version for where, version in said.items() if version != package.version}
    expect(not wrong, f"include/ferry/version.hpp has {package.version}, but {wrong}")
    # Version literals that no check compares: the files that build packages have none.
    for file in ("CMakeLists.txt", "conanfile.py", "pyproject.toml", *(f"cmake/{f.name}" for f in (ROOT / "cmake").iterdir())):
        expect(package.version not in read(ROOT / file), f"{file} contains the version")


def headers(task, compiler):
    def check(package):
        output = package.run(package.python, HERE / "headers.py", task, getattr(package, compiler), package.dlpack)
        return "; ".join(line for line in output.splitlines() if line.startswith("left out")) or None

    return check


# The checks, the checks that they need, and their names in the table. The slowest are first.
CHECKS = {
    "python": (python_wheel, [], "a Python wheel, and an extension that requires it"),
    "find_package": (way("find_package"), [], "find_package, from a moved prefix"),
    "one_program": (way("one_program"), ["find_package"], "parts built with different options in one program, with -Werror=odr"),
    "warnings_clang": (headers("warnings", "clang"), [], "no warning in any header: Clang, -Weverything"),
    "warnings_gcc": (headers("warnings", "compiler"), [], "no warning in any header: GCC"),
    "components": (components, ["find_package"], "every component, installed and from source"),
    "compiled": (way("compiled"), [], "the engines compiled once: installed static and shared, from source, and by hand"),
    "conan": (way("conan"), [], "Conan 2"),
    "wheels": (wheels, [], "wheels of ferry-dlpack, in an empty environment"),
    "release": (release, [], "packaging/release makes the same files again"),
    "vcpkg": (way("vcpkg"), ["release"], "vcpkg's port, as an overlay and of a release"),
    "copy": (way("copy"), [], "a copy of include/"),
    "add_subdirectory": (way("add_subdirectory"), [], "add_subdirectory"),
    "fetch_content": (way("fetch_content"), [], "FetchContent"),
    "pkg_config": (way("pkg_config"), [], "pkg-config"),
    "fetched_dlpack": (way("fetched_dlpack"), [], "a fetched DLPack"),
    "quickstart": (quickstart, ["find_package"], "the quickstart, against the installed package"),
    "bad_input": (bad_input, ["find_package"], "CMake reports missing dependencies"),
    "bad_input_without_cmake": (bad_input_without_cmake, [], "the headers report missing dependencies"),
    "same_text": (headers("same-text", "compiler"), [], "the text of the headers does not depend on options"),
    "contents": (contents, ["find_package", "conan", "vcpkg", "python"], "packages contain the required files, and no others"),
    "versions": (versions, ["find_package", "python"], "one version"),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--clang", default="clang++-19")
    parser.add_argument("--dlpack", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--all-wheels", action="store_true", help="wheels for all CPythons that are found")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CHECKS))
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(CHECKS):
        parser.error(f"unknown check {', '.join(sorted(unknown))}; expected {', '.join(CHECKS)}")
    wanted = set(arguments.names or CHECKS)
    wanted |= {need for name in wanted for need in CHECKS[name][1]}

    with tempfile.TemporaryDirectory(prefix="ferry-package-") as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        package = Package(arguments, pathlib.Path(folder).resolve())
        (package.work / "results").mkdir()
        futures = {}

        def one(name):
            check, needs, _ = CHECKS[name]
            for need in needs:
                if futures[need].result()[0] != "passed":
                    return "failed", 0.0, f"it needs {need}, which failed"
            start = time.monotonic()
            try:
                result = "passed", check(package)
            except Failed as failure:
                result = "failed", str(failure)
            return result[0], time.monotonic() - start, result[1]

        # A check is submitted after the checks that it needs, so that no check waits for one that never starts.
        for name in sorted(wanted, key=lambda name: (bool(CHECKS[name][1]), list(CHECKS).index(name))):
            futures[name] = pool.submit(one, name)
        rows = {name: futures[name].result() for name in CHECKS if name in wanted}

    for name, (result, _, text) in rows.items():
        if result == "failed":
            print(f"== {name} failed\n{text}\n")
    width = max(len(CHECKS[name][2]) for name in rows)
    for name, (result, seconds, text) in rows.items():
        print(f"{CHECKS[name][2]:{width}}  {result}  {seconds:5.1f} s  {text or '' if result == 'passed' else name}")
    results = [result for result, _, _ in rows.values()]
    left_out = sum(result == "passed" and bool(text) for result, _, text in rows.values())
    print(f"{results.count('passed')} passed, {results.count('failed')} failed, {left_out} skipped")
    sys.exit("failed" in results)


if __name__ == "__main__":
    main()
