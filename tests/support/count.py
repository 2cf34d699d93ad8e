"""Counts the test results of a JUnit file of ctest or pytest: prints `counts: PASSED FAILED SKIPPED`.

A doctest program is one test for ctest; here each of its test cases counts. Before this line, the ten slowest cases are printed:
`slowest: SECONDS s PROGRAM: CASE`.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

DOCTEST = re.compile(r"\[doctest\] test cases:\s*\d+ \|\s*(\d+) passed \|\s*(\d+) failed \|\s*(\d+) skipped")
DURATION = re.compile(r"^(\d+\.\d{6}) s: (.+)$", re.MULTILINE)


def outcome(case):
    failed = case.find("failure") is not None or case.find("error") is not None
    skipped = case.find("skipped") is not None
    if said := DOCTEST.findall(case.findtext("system-out") or ""):  # the last line: earlier ones are those of child processes
        passed, failures, skips = map(int, said[-1])
        return passed, max(failures, int(failed)), skips
    return int(not failed and not skipped), int(failed), int(skipped and not failed)


def durations(case):
    name = case.get("name")
    each = [(float(seconds), f"{name}: {of}") for seconds, of in DURATION.findall(case.findtext("system-out") or "")]
    return each or [(float(case.get("time") or 0), name)]


def main():
    cases = list(ElementTree.parse(sys.argv[1]).iter("testcase"))
    for seconds, name in sorted((d for case in cases for d in durations(case)), reverse=True)[:10]:
        print(f"slowest: {seconds:.2f} s {name}")
    print("counts:", *map(sum, zip((0, 0, 0), *map(outcome, cases))))


if __name__ == "__main__":
    main()
