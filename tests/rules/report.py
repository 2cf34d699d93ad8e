"""Prints which header obeys each rule of rules.txt and which test holds it; a `host` rule without both is a gap.

usage: report.py [--markdown] [--self-test]
A header or a test names a rule as R24; ranges (R16-R21) count for every rule in them.
"""

import pathlib
import re
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
HEADERS = TESTS.parent / "include" / "ferry"
NAMED = re.compile(r"\bR(\d+)(?:\s*(?:-|–|to|\.\.)\s*R(\d+))?\b")
SUFFIXES = {".hpp", ".cuh", ".cpp", ".cu", ".py", ".toml"}


def rules_in(text):
    found = set()
    for match in NAMED.finditer(text):
        first, last = int(match[1]), int(match[2] or match[1])
        found.update(f"R{number}" for number in range(first, last + 1))
    return found


def kinds(text):
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {rule: kind for rule, kind in lines}


def scan(root, known, skip=()):
    where = {rule: [] for rule in known}
    for file in sorted(root.rglob("*")):
        path = file.relative_to(root)
        if file.suffix in SUFFIXES and path.parts[0] not in skip:
            for rule in rules_in(file.read_text(encoding="utf-8")) & known.keys():
                where[rule].append(path.as_posix())
    return where


def gaps(known, headers, tests):
    return [rule for rule, kind in known.items() if kind == "host" and not (headers[rule] and tests[rule])]


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
    known = kinds("# a comment\nR1 host\nR2 host\nR3 cuda\nR4 info\n")
    assert known == {"R1": "host", "R2": "host", "R3": "cuda", "R4": "info"}
    held, none = {rule: ["x"] for rule in known}, {rule: [] for rule in known}
    assert gaps(known, held, held) == []
    assert gaps(known, none, held) == ["R1", "R2"]
    assert gaps(known, held, {**held, "R2": []}) == ["R2"]
    print("the report finds what it should")


def main():
    if "--self-test" in sys.argv:
        return self_test()
    known = kinds((TESTS / "rules" / "rules.txt").read_text(encoding="utf-8"))
    headers, tests = scan(HEADERS, known), scan(TESTS, known, skip=("rules", "layers", "mutants"))
    render(known, headers, tests, "--markdown" in sys.argv)
    missing = gaps(known, headers, tests)
    if missing:
        print(f"\ngaps: {', '.join(missing)}")
    held = sum(kind == "host" for kind in known.values()) - len(missing)
    print(f"\n{held} rules held, {len(missing)} gaps")
    sys.exit(bool(missing))


if __name__ == "__main__":
    main()
