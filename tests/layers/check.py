"""Checks that the folders of include/ferry are layers, and that each header has tests and follows the rules that a script can check.

usage: check.py [--self-test]
"""

import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The headers of the library, and those of the kit that tests adapters.
TREES = (ROOT / "include", ROOT / "packaging/conformance/include")

# A header includes only its own folder and the folders before it. Back ends come last and never include each other.
CORE = ["abi", "base", "tensor", "space", "exchange", "column", "lease", "wire", "arrow", "ipc", "adapters"]
KIT = "conformance"  # may include the core, and nothing includes it
BACK_ENDS = ["cuda", "python"]
# Headers beside the folders: what they may include.
BOTTOM = {"version.hpp", "config.hpp", "fwd.hpp"}
UMBRELLAS = {
    "ferry.hpp": CORE[: CORE.index("exchange") + 1],
    "cuda.hpp": [*CORE, "cuda"],
    "python.hpp": [*CORE, "python"],
    "column.hpp": CORE[: CORE.index("column") + 1],
    "lease.hpp": CORE[: CORE.index("lease") + 1],
    "arrow.hpp": CORE[: CORE.index("arrow") + 1],
    "ipc.hpp": CORE[: CORE.index("ipc") + 1],
    "conformance.hpp": [*CORE, KIT],
    "src.hpp": CORE,
}
# The only includer of each foreign header.
FOREIGN = {
    r"dlpack/.*": "abi/dlpack.hpp",
    r"Python\.h": "python/api.hpp",
    r"(unsupported/)?Eigen/.*": "adapters/eigen.hpp",
    r"opencv2/.*": "adapters/opencv.hpp",
    r"xtensor/.*": "adapters/xtensor.hpp",
    r"(ATen|c10|torch)/.*": "adapters/torch.hpp",
    r"nanobind/.*": "python/nanobind.hpp",
    r"pybind11/.*": "python/pybind11.hpp",
    r"cuda(_runtime|_runtime_api|_fp16|)?\.h": "cuda/api.hpp",
}
# Macros that a foreign header requires before it.
ASKED_FOR = {("python/api.hpp", "PY_SSIZE_T_CLEAN")}
# Macros that guard the structs of a specification; the first declaration of the structs defines them.
ASKED_FOR_ALL = {"abi/arrow.hpp": "ARROW_"}
# The core is portable: except for foreign headers it includes only those of C++, whose names have no `.h`.
SYSTEM = {"ipc"}
# Standard headers whose cost a core header must justify on the same line.
COSTLY = {"memory", "functional", "iostream", "ranges", "stdexcept", "string", "vector", "atomic", "complex", "mutex"}
COMPILER_TEST = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b.*\b(__GNUC__|__clang__|_MSC_VER|__cplusplus|__cpp_\w+)")
# Extensions of GNU C++, which MSVC lacks: config.hpp has macros for them, or the header has code for both.
EXTENSION = re.compile(r"\bgnu::|\b__(builtin_\w+|attribute__|int128|extension__|asm__)\b")
DEFINE = re.compile(r"^\s*#\s*define\s+(\w+)")
INCLUDES = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"](.*)')
NAMESPACE = re.compile(r"^\s*namespace ferry\b(?! *=)")
# Headers of a public folder that declare only names of namespaces `detail`: callers of column::to include its body.
ONLY_DETAIL = {"column/to.hpp"}
OPENS_NAMESPACE = re.compile(r"\bnamespace\b[^;={]*\{")
NO_CODE = re.compile(r"""//.*|R"(\w*)\((?s:.*?)\)\1"|"(\\.|[^"\\])*"|\b'.|'(\\.|[^'\\])+'|^\s*#(?!\s*define FERRY).*""", re.MULTILINE)
LONG, TOO_LONG = 150, 300
# Why a header has more lines than that.
REASONS = {
    "column/detail/as.ipp": "one function for each kind of conversion",
    "column/detail/concat.ipp": "one function for each of Arrow's layouts",
    "column/view.hpp": "each function that may fail throws, or returns a result",
    "cuda/detail/copier.ipp": "one short function for each method",
    "cuda/ipc.hpp": "export and import of a handle belong together",
    "ipc/detail/new_share.hpp": "the ways to find memory for a range depend on the same state",
    "ipc/detail/open_group.hpp": "one call, whose ways to open a memory exclude each other",
    "ipc/detail/segment.hpp": "one object, whose functions depend on its files",
    "lease/detail/spill_core.ipp": "one object, whose functions share its lock",
    "python/detail/published.hpp": "their cache differs between builds of CPython with and without the GIL",
    "python/detail/import.ipp": "the imports through the exchange table, __dlpack__ and another protocol, and their order",
    "tensor/typed_view.hpp": "one class",
}
WIDE = 120  # columns, as .clang-format has it; messages are not broken


# An engine, detail/NAME.ipp: included by its door, the header NAME.hpp of the same layer, and by src.hpp.
ENGINE = ".ipp"
COMPILED = ("src.hpp", "cuda/src.hpp", "python/src.hpp")


def layer(path):
    return path.split("/")[0] if "/" in path else ""


def may_include(includer, included):
    own, other = layer(includer), layer(included)
    if included in UMBRELLAS:
        return included == "ferry.hpp" and includer in UMBRELLAS and includer != included
    if included in BOTTOM:
        return includer not in BOTTOM or included != includer
    if includer in BOTTOM:
        return False
    if includer in UMBRELLAS:
        return other in UMBRELLAS[includer]
    if own == other:
        return True
    if own in BACK_ENDS:
        join = own == "python" and pathlib.PurePath(includer).name.startswith("cuda_") and other == "cuda"
        return other in CORE or join
    if own == KIT:
        return other in CORE
    return own in CORE and other in CORE and CORE.index(other) < CORE.index(own)


def check_line(path, line, portable):
    if NAMESPACE.match(line):
        yield "opens ferry without its binary interface: write `namespace FERRY_NAMESPACE`"
    if match := DEFINE.match(line):
        if not match[1].startswith(("FERRY_", ASKED_FOR_ALL.get(path, "FERRY_"))) and (path, match[1]) not in ASKED_FOR:
            yield f"defines {match[1]}: only FERRY_ macros"
    if COMPILER_TEST.match(line) and path != "config.hpp":
        yield "asks the compiler what it is: only config.hpp does"
    if (match := EXTENSION.search(line.partition("//")[0])) and layer(path) in {*CORE, KIT, "python"} - SYSTEM and not portable:
        yield f"uses {match[0]}, which MSVC does not have: a macro of config.hpp, or both ways and FERRY_HAS_GNU"
    if not (match := INCLUDES.match(line)):
        return
    target, rest = match[1], match[2]
    if target.startswith("ferry/"):
        if not may_include(path, target.removeprefix("ferry/")):
            yield f"includes <{target}>, which is not below it"
    for pattern, owner in FOREIGN.items():
        if re.fullmatch(pattern, target) and path != owner:
            yield f"includes <{target}>: only {owner} does"
    known = any(re.fullmatch(pattern, target) for pattern in FOREIGN)
    if target.endswith(".h") and layer(path) in {*CORE, KIT} - SYSTEM - {"adapters"} and not known:
        yield f"includes <{target}>: the core has no system of its own, only ipc/ and back ends do"
    if target in COSTLY and layer(path) not in BACK_ENDS and not re.search(r"//\s*\S+", rest):
        yield f"includes <{target}> without saying why on the same line"


def check_header(path, text):
    lines = text.splitlines()
    known = layer(path) in [*CORE, KIT, *BACK_ENDS] or path in BOTTOM or path in UMBRELLAS
    if not known:
        yield f"{path}: not in a folder that is a layer, and not an umbrella"
    if "#pragma once" not in lines:
        yield f"{path}: no #pragma once"
    if len(lines) > TOO_LONG and path not in REASONS and "// Generated" not in text:
        yield f"{path}: {len(lines)} lines, and no reason among REASONS"
    for number, line in enumerate(lines, 1):
        if len(line) > WIDE and '"' not in line and "// clang-format off" not in lines[number - 2]:
            yield f"{path}:{number}: {len(line)} columns; {WIDE} are the most"
        for problem in check_line(path, line, "FERRY_HAS_GNU" in text):
            yield f"{path}:{number}: {problem}"


def declares_public(text):
    """Whether a header declares a name outside of namespaces `detail`, or opens no namespace: it includes others or defines macros."""
    rest = NO_CODE.sub("", text)
    if not OPENS_NAMESPACE.search(rest):
        return True
    while found := re.search(r"\bnamespace\b[^;={]*\bdetail\b[^;={]*\{", rest):
        end, depth = found.end(), 1
        while depth and end < len(rest):
            depth += {"{": 1, "}": -1}.get(rest[end], 0)
            end += 1
        rest = rest[: found.start()] + rest[end:]
    return re.search(r"\w", OPENS_NAMESPACE.sub("", rest)) is not None


def check_engines(graph):
    """Each engine has one door, which it includes first. src.hpp, or that of cuda/ or python/, includes all engines and nothing else."""
    engines = {path for path in graph if path.endswith(ENGINE)}
    for source in COMPILED:
        own = {path for path in engines if (f"{layer(path)}/src.hpp" if layer(path) in BACK_ENDS else "src.hpp") == source}
        compiled = {target for target in graph.get(source, []) if target not in BOTTOM}
        for path in sorted(own ^ compiled):
            yield f"{source}: {'does not include the engine' if path in engines else 'includes, although no engine,'} {path}"
    for path in sorted(engines):
        doors = [includer for includer, targets in graph.items() if path in targets and includer not in COMPILED]
        names = [path.replace("/detail/", "/").replace(ENGINE, ".hpp"), path.replace(ENGINE, ".hpp")]
        if len(doors) != 1 or doors[0] not in names or graph[path][:1] != doors or "/detail/" not in path:
            yield f"{path}: an engine of {doors}, expected detail/NAME.ipp, included by NAME.hpp alone, which it includes first"


def cycles(graph):
    done, open_ = set(), []

    def visit(node):
        if node in open_:
            yield "a cycle: " + " -> ".join([*open_[open_.index(node) :], node])
        elif node not in done:
            open_.append(node)
            for target in graph.get(node, []):
                yield from visit(target)
            open_.pop()
            done.add(node)

    for node in sorted(graph):
        yield from visit(node)


def check_tree(*trees):
    roots = [tree / "ferry" for tree in trees]
    graph, problems, warnings = {}, [], []
    for root, file in sorted((root, file) for root in roots for end in ("hpp", "ipp", "cuh") for file in root.rglob(f"*.{end}")):
        path, text = file.relative_to(root).as_posix(), file.read_text(encoding="utf-8")
        problems += check_header(path, text)
        found = [match[1] for match in map(INCLUDES.match, text.splitlines()) if match]
        graph[path] = [target.removeprefix("ferry/") for target in found if target.startswith("ferry/")]
        if not graph[path] and path not in {"version.hpp", "config.hpp"} and "// Generated" not in text:
            problems.append(f"{path}: without <ferry/config.hpp>, which says first what compiler is too old")
        if "detail" not in path.split("/") and declares_public(text) == (path in ONLY_DETAIL):
            problems.append(f"{path}: " + ("remove it from ONLY_DETAIL" if path in ONLY_DETAIL else "declares only names of detail: move it to detail/"))
        for target in graph[path]:
            if not any((other / target).is_file() for other in roots):
                problems.append(f"{path}: includes <ferry/{target}>, which does not exist")
        if LONG < (lines := text.count("\n")) <= TOO_LONG:
            warnings.append(f"{path}: {lines} lines; {LONG} is the aim")
    below = {path: [target for target in targets if not target.endswith(ENGINE)] for path, targets in graph.items()}
    problems += [*check_engines(graph), *cycles(below)]
    return problems, warnings, len(graph)


def check_tested(tests, *trees):
    """Each public header has tests: those of its name, or those of a row of tests/unit/README.md."""
    rows = re.findall(r"^\| `([^`]+)` \| (.*) \|$", (tests / "unit/README.md").read_text(encoding="utf-8"), re.M)
    used = set()
    for tree, file in sorted((tree, file) for tree in trees for end in ("hpp", "cuh") for file in tree.rglob(f"*.{end}")):
        header = file.relative_to(tree / "ferry")
        name = header.with_suffix("")
        if "detail" in header.parts:
            continue
        known = [*(tests / folder / f"{name}.cpp" for folder in ("unit", "static", "conformance")), *tests.glob(f"gpu/{header.stem}.c*"), tests / f"interop/test_{header.stem}.py"]
        listed = {pattern for pattern, _ in rows if len(header.parts) == pattern.count("/") + 1 and header.match(pattern)}
        used |= listed
        if not listed and not any(path.is_file() for path in known):
            yield f"{header}: no tests of its name, and no row in tests/unit/README.md"
    for pattern, files in rows:
        if pattern not in used:
            yield f"tests/unit/README.md: `{pattern}` is no public header"
        for test in re.findall("`([^`]+)`", files):
            if not (tests.parent / test).is_file():
                yield f"tests/unit/README.md: `{pattern}`: {test} does not exist"


PLANTED = {
    "an upper layer": ("base/a.hpp", "#include <ferry/tensor/b.hpp>", "not below it"),
    "another back end": ("cuda/a.hpp", "#include <ferry/python/b.hpp>", "not below it"),
    "a back end from python": ("python/a.hpp", "#include <ferry/cuda/b.hpp>", "not below it"),
    "the kit from a back end": ("cuda/a.hpp", "#include <ferry/conformance/b.hpp>", "not below it"),
    "the kit from the core": ("base/a.hpp", "#include <ferry/conformance/b.hpp>", "not below it"),
    "a back end from the kit": ("conformance/a.hpp", "#include <ferry/cuda/b.hpp>", "not below it"),
    "an umbrella": ("tensor/a.hpp", "#include <ferry/ferry.hpp>", "not below it"),
    "an umbrella that goes too far": ("ferry.hpp", "#include <ferry/column/b.hpp>", "not below it"),
    "a layer from the bottom": ("config.hpp", "#include <ferry/base/b.hpp>", "not below it"),
    "DLPack elsewhere": ("base/a.hpp", "#include <dlpack/dlpack.h>", "only abi/dlpack.hpp"),
    "Python elsewhere": ("python/a.hpp", "#include <Python.h>", "only python/api.hpp"),
    "Eigen elsewhere": ("adapters/a.hpp", "#include <Eigen/Core>", "only adapters/eigen.hpp"),
    "PyTorch elsewhere": ("adapters/a.hpp", "#include <ATen/ATen.h>", "only adapters/torch.hpp"),
    "nanobind elsewhere": ("python/a.hpp", "#include <nanobind/nanobind.h>", "only python/nanobind.hpp"),
    "pybind11 elsewhere": ("python/a.hpp", "#include <pybind11/stl.h>", "only python/pybind11.hpp"),
    "CUDA elsewhere": ("cuda/a.hpp", "#include <cuda_runtime.h>", "only cuda/api.hpp"),
    "a costly header": ("base/a.hpp", "#include <memory>", "without saying why"),
    "a system's header": ("space/a.hpp", "#include <sys/mman.h>", "the core has no system"),
    "a header of C": ("conformance/a.hpp", "#include <string.h>", "the core has no system"),
    "no config": ("base/a.hpp", "#include <cstdint>", "without <ferry/config.hpp>"),
    "a foreign macro": ("base/a.hpp", "#define NOT_OURS 1", "only FERRY_"),
    "an extension": ("base/a.hpp", "[[gnu::cold]] void f();", "uses gnu::"),
    "a compiler test": ("base/a.hpp", "#if defined(__clang__)", "only config.hpp"),
    "a name outside the binary interface": ("base/a.hpp", "namespace ferry {", "write `namespace FERRY_NAMESPACE`"),
    "a layer outside of it": ("cuda/a.hpp", "namespace ferry::cuda {", "write `namespace FERRY_NAMESPACE`"),
    "a fixed binary interface": ("base/a.hpp", "namespace ferry::inline v0::cuda {", "write `namespace FERRY_NAMESPACE`"),
    "an unknown folder": ("misc/a.hpp", "", "not in a folder"),
    "a missing header": ("base/a.hpp", "#include <ferry/base/none.hpp>", "does not exist"),
    "a long header": ("base/a.hpp", "\n" * TOO_LONG, "no reason among REASONS"),
    "a wide line": ("base/a.hpp", "// " + "x" * WIDE, "columns; "),
    "internals among public headers": (
        "base/a.hpp", "namespace FERRY_NAMESPACE {\nnamespace detail {\nstruct a {};\n}\n}", "declares only names of detail"
    ),
    "a folder's own detail": ("cuda/a.hpp", "namespace FERRY_NAMESPACE::cuda::detail {\nstruct a {};\n}", "only names of detail"),
    "an engine without a door": ("base/detail/a.ipp", "#include <ferry/config.hpp>", "an engine of []"),
    "an engine that is not compiled": ("base/detail/a.ipp", "#include <ferry/config.hpp>", "src.hpp: does not include the engine"),
    "a compiled header": ("src.hpp", "#include <ferry/base/a.hpp>", "although no engine"),
    "a cycle": ("base/a.hpp", "#include <ferry/base/a.hpp>", "a cycle: base/a.hpp -> base/a.hpp"),
}
ALLOWED = {
    "base/a.hpp": "#include <ferry/config.hpp>\n#include <atomic> // reference counts cross threads",
    "ipc/a.hpp": "#include <ferry/config.hpp>\n#include <unistd.h>",
    "base/detail/b.hpp": "#include <ferry/config.hpp>\nnamespace FERRY_NAMESPACE::detail {\nusing namespace ferry::wire;",
    "base/d.hpp": "#include <ferry/config.hpp>\nnamespace FERRY_NAMESPACE {\nnamespace detail {\nvoid f();\n}\nvoid g();\n}",
    "base/c.hpp": "#include <ferry/config.hpp>\n#if FERRY_HAS_GNU\n[[gnu::cold]]\n#endif",
    "config.hpp": "#if defined(__GNUC__)\n#endif\n#define FERRY_X 1",
    "python/cuda_a.hpp": "#include <ferry/cuda/b.hpp>",
    "conformance/a.hpp": "#include <ferry/ipc/a.hpp>",
    "cuda/b.hpp": "#include <ferry/base/a.hpp>\n#include <memory>",
    "abi/dlpack.hpp": "#include <ferry/config.hpp>\n#include <dlpack/dlpack.h>",
    "python/api.hpp": "#define PY_SSIZE_T_CLEAN\n#include <Python.h>\n#include <ferry/config.hpp>",
    "cuda/detail/long.hpp": "// Generated\n" * TOO_LONG,
    "ferry.hpp": "#include <ferry/base/a.hpp>",
    "base/door.hpp": "#include <ferry/config.hpp>\n#include <ferry/base/detail/door.ipp>",
    "base/detail/door.ipp": "#include <ferry/base/door.hpp>",
    "src.hpp": "#include <ferry/base/detail/door.ipp>",
}


def check_planted(files):
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            file = pathlib.Path(folder, "ferry", path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return check_tree(pathlib.Path(folder))[0]


def self_test():
    pragma = "\n#pragma once\n"
    problems = check_planted({path: text + pragma for path, text in ALLOWED.items()})
    assert not problems, problems
    assert "no #pragma once" in str(check_planted({"base/a.hpp": "// #pragma once, they said\n"}))
    for what, (path, text, message) in PLANTED.items():
        problems = check_planted({path: text + pragma})
        assert any(message in problem for problem in problems), f"{what} went unnoticed: {problems}"
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {"include/ferry/base/a.hpp": "", "tests/unit/README.md": "| `base/b.hpp` | `tests/b.cpp` |\n"}.items():
            file = pathlib.Path(folder, name)
            file.parent.mkdir(parents=True)
            file.write_text(text, encoding="utf-8")
        found = str([*check_tested(pathlib.Path(folder, "tests"), pathlib.Path(folder, "include"))])
        assert all(part in found for part in ("base/a.hpp: no tests", "is no public header", "tests/b.cpp does not exist")), found
    print(f"{len(PLANTED) + 3} planted trees judged as they should be")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    problems, warnings, count = check_tree(*TREES)
    problems += check_tested(ROOT / "tests", *TREES)
    for line in warnings:
        print(f"warning: {line}")
    for line in problems:
        print(f"error: {line}")
    print(f"{count} headers, {len(problems)} errors")
    sys.exit(bool(problems) or not count)


if __name__ == "__main__":
    main()
