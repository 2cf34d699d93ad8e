"""Prints which header implements each rule of rules.txt and which test covers it; a `host` rule without both is a gap.

usage: report.py [--markdown] [--self-test]
A header names a rule as R24; ranges (R16-R21) are listed for each of their rules, and count as implementing it up to a length of three.
A test covers a rule that it names by number, not by a range, in its description:
  - the name of a doctest TEST_CASE: "R24: a null shape is refused"
  - the name or the docstring of a Python test: test_R24_a_null_shape_is_refused
  - the comment at the top of a file in static/ or compile_fail/
Tests that need a device are listed, and do not cover a `host` rule.
"""

import ast
import pathlib
import re
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
HEADERS = TESTS.parent / "include" / "ferry"
NAMED = re.compile(r"(?<![A-Za-z0-9])R(\d+)(?:\s*(?:-|–|to|\.\.)\s*R?(\d+))?(?![A-Za-z0-9])")
TEST_CASE = re.compile(r'^[ \t]*TEST_CASE\w*\(\s*(?:\w+,\s*)?((?:"(?:[^"\\\n]|\\.)*"\s*)+)', re.MULTILINE)
TOP = re.compile(r"(?:[ \t]*//.*\n)*")
SHORT = 3


def rules_in(text, longest=sys.maxsize):
    """The rules in ranges of at most `longest`; a single number is a range of one."""
    found = set()
    for match in NAMED.finditer(text):
        first, last = int(match[1]), int(match[2] or match[1])
        if last - first < longest:
            found.update(f"R{number}" for number in range(first, last + 1))
    return found


def stated_in_cpp(text):
    return "\n".join(re.sub(r'"\s*"', "", match[1]) for match in TEST_CASE.finditer(text))


def stated_in_python(text):
    stated = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
            stated += [node.name.replace("_", " "), ast.get_docstring(node) or ""]
    return "\n".join(stated)


def stated(path, text):
    """The descriptions of the tests of a file."""
    if path.suffix == ".py":
        return stated_in_python(text)
    if path.parts[0] in ("static", "compile_fail"):
        return TOP.match(text)[0]
    return stated_in_cpp(text) if path.suffix in (".cpp", ".cu", ".hpp") else ""


def kinds(text):
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {rule: kind for rule, kind in lines}


def scan(root, known, suffixes, rules_of):
    where = {rule: [] for rule in known}
    for file in sorted(root.rglob("*")):
        if file.suffix in suffixes:
            path = file.relative_to(root)
            for rule in rules_of(path, file.read_text(encoding="utf-8")) & known.keys():
                where[rule].append(path.as_posix())
    return where


def scan_headers(root, known, longest=sys.maxsize):
    return scan(root, known, {".hpp", ".ipp", ".cuh"}, lambda path, text: rules_in(text, longest))


def scan_tests(root, known):
    return scan(root, known, {".cpp", ".cu", ".hpp", ".py"}, lambda path, text: rules_in(stated(path, text), 1))


def needs_device(path):
    return path.startswith("gpu/") and not path.startswith("gpu/without_device/")


def gaps(known, headers, tests):
    def is_held(rule):
        return headers[rule] and not all(map(needs_device, tests[rule]))

    return [rule for rule, kind in known.items() if kind == "host" and not is_held(rule)]


def render(known, headers, tests, markdown):
    cell = " | " if markdown else "  "
    edge = "|" if markdown else ""
    if markdown:
        print("| rule | kind | headers | tests |\n|---|---|---|---|")
    for rule, kind in known.items():
        held = [", ".join(where[rule]) or "none" for where in (headers, tests)]
        print(edge, cell.join([rule.ljust(3), kind.ljust(4), *held]), edge)


def self_test():
    assert rules_in("// R2, R16–R18, (R24); R30-R31.") == {"R2", "R16", "R17", "R18", "R24", "R30", "R31"}
    assert rules_in("R2D2 PR24 R") == set()
    assert rules_in("R2, R16-R18, R20..R23, R30 to R31, R40-43.", 3) == {"R2", "R16", "R17", "R18", "R30", "R31"}
    assert rules_in("R2 (R16-R18), R60–R63, R70-72: R9", 1) == {"R2", "R9"}

    def rules_of(path, text):
        return rules_in(stated(pathlib.PurePath(path), text), 1)

    case = '// R1\nTEST_CASE("R2: one, "\n          "R3: two") {}  // R4\n// TEST_CASE("R5")\nSUBCASE("R6") CHECK("R7");\n'
    assert rules_of("unit/a.cpp", case) == {"R2", "R3"}
    assert rules_of("unit/a.cpp", 'TEST_CASE_FIXTURE(a_server, "R8") {}') == {"R8"}
    assert rules_of("unit/a.cpp", 'TEST_CASE_TEMPLATE("R8 \\"and\\" R9", T, int, long) {}') == {"R8", "R9"}
    test = '"""R1"""\n# R2\ndef test_R3_x():\n    """R4, R5-R6"""\n    x = "R7"\ndef helper_R8():\n    """R9"""\n'
    assert rules_of("interop/a.py", test) == {"R3", "R4"}
    assert rules_of("interop/a.py", "class A:\n    async def test_x_R3_R4(self): pass\ndef test_R34b(): pass\n") == {"R3", "R4"}
    for folder in ("static", "compile_fail"):
        assert rules_of(f"{folder}/a.cpp", "// expect: x\n// (R1)\n#include <x>\n// R2\n") == {"R1"}
    assert rules_of("fuzz/a.cpp", "// R1\n") == rules_of("rules/a.toml", "R1") == set()

    known = kinds("# a comment\nR1 host\nR2 host\nR3 cuda\nR4 info\n")
    assert known == {"R1": "host", "R2": "host", "R3": "cuda", "R4": "info"}
    held, none = {rule: ["x"] for rule in known}, {rule: [] for rule in known}
    assert gaps(known, held, held) == []
    assert gaps(known, none, held) == ["R1", "R2"]
    assert gaps(known, held, {**held, "R2": []}) == ["R2"]
    assert gaps(known, held, {**held, "R1": ["gpu/x.cpp", "unit/x.cpp"], "R2": ["gpu/x.cpp"]}) == ["R2"]
    assert gaps(known, held, {**held, "R1": ["gpu/without_device/x.cu"]}) == []
    print("the report finds what it should")


def main():
    if "--self-test" in sys.argv:
        return self_test()
    known = kinds((TESTS / "rules" / "rules.txt").read_text(encoding="utf-8"))
    headers, tests = scan_headers(HEADERS, known), scan_tests(TESTS, known)
    render(known, headers, tests, "--markdown" in sys.argv)
    missing = gaps(known, scan_headers(HEADERS, known, SHORT), tests)
    if missing:
        print(f"\ngaps: {', '.join(missing)}")
    held = sum(kind == "host" for kind in known.values()) - len(missing)
    print(f"\n{held} rules held, {len(missing)} gaps")
    sys.exit(bool(missing))


if __name__ == "__main__":
    main()
