"""The command line."""

import argparse
import concurrent.futures
import difflib
import json
import os
import pathlib
import platform
import re
import signal
import sys
import textwrap

from . import __version__, reproduction
from .case import CASES
from .loading import FILES, LoadError, file_of
from .rules import NOT_OBSERVABLE, RULES
from .running import run

WORST = ["failed", "broken", "departs", "kept", "n/a"]
WIDTH, CELL, AT_ONCE = 100, 10, 5  # columns of the output and of an outcome; libraries beside each other
EPILOGUE = f"""libraries:
{textwrap.fill(', '.join(FILES), WIDTH, initial_indent='  ', subsequent_indent='  ', break_on_hyphens=False)}
  FILE.py, or FILE.py:CLASS: a custom plug-in
outcomes:
  kept
  broken: the library violates a sentence of the header or of a specification
  departs: from a recommendation, or from a behaviour that several libraries share
  n/a: the rule does not apply
  failed: the plug-in
status: 0 no rule is broken, 1 a rule is broken, 2 a usage error, or a plug-in failed"""


def selected(only):
    keys = list(CASES)
    if not only:
        return keys
    words = [word.strip() for word in only.split(",") if word.strip()]
    unknown = [w for w in words if w not in RULES and w not in CASES]
    if unknown:
        sys.exit(usage(f"--only: unknown rule {', '.join(unknown)}; --list prints the rules"))
    return [key for key in keys if CASES[key].rule in words or key in words]


def usage(message):
    print(f"dlpack-conformance: {message}", file=sys.stderr)
    return 2


def unknown_library(spec):
    """Why an argument names no plug-in; nothing if it does."""
    if file_of(spec)[0].is_file():
        return ""
    if spec.partition(":")[0].endswith(".py"):
        return f"there is no file {spec.partition(':')[0]}"
    close = difflib.get_close_matches(spec, FILES, 1)
    return f"unknown library {spec!r}; " + (f"did you mean {close[0]}?" if close else "--help lists the libraries")


def list_rules():
    for rule, text in RULES.items():
        print(wrapped(f"{rule:4} {text}", 5))
        found = [case for case in CASES.values() if case.rule == rule]
        for case in found:
            print(wrapped(f"       {case.role:9} {case.name.replace('_', ' ')}  [{case.force}; {case.says}]", 17))
        if not found:
            print(wrapped(f"       not observable from Python here: {NOT_OBSERVABLE[rule]}", 17))


class Progress:
    """Reports progress: in one line on a terminal, otherwise in a line per library."""

    def __init__(self, total):
        self.total, self.now, self.live = total, {}, sys.stderr.isatty()

    def __call__(self, spec, done, key):
        self.now[spec] = done + 1
        if self.live:
            text = "  ".join(f"{name} {n}/{self.total}" for name, n in self.now.items())
            print(f"\r\033[K{text[: WIDTH - 1]}", end="", file=sys.stderr, flush=True)
        elif done % 25 == 0:
            print(f"{spec}: {done}/{self.total} {key}", file=sys.stderr, flush=True)

    def done(self, spec):
        if self.live:
            print("\r\033[K", end="", file=sys.stderr)
        print(f"{spec}: done", file=sys.stderr, flush=True)


def run_all(specs, keys, timeout, jobs, quiet):
    progress = Progress(len(keys))

    def one(spec):
        found = run(spec, keys, timeout, (lambda *_: None) if quiet else (lambda done, key: progress(spec, done, key)))
        if not quiet:
            progress.done(spec)
        return found

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return dict(zip(specs, pool.map(one, specs)))


def table(found, keys):
    """Returns a row for each rule, with the worst outcome of its cases for each library."""
    rules = [rule for rule in RULES if any(CASES[key].rule == rule for key in keys)]
    rows = []
    for rule in rules:
        cells = []
        for facts, results in found.values():
            outcomes = {r.outcome for r in results if r.rule == rule}
            cells.append(next((o for o in WORST if o in outcomes), "failed" if "error" in facts else "-"))
        rows.append([rule, RULES[rule], *cells])
    return rows


def library_of(found, result):
    """The library of a result, and the library that exchanges its arrays."""
    by = next(facts.get("by") for facts, _ in found.values() if facts["name"] == result.library)
    return f"{result.library} (by {by})" if by else result.library


def findings(found, outcome):
    return [result for _, results in found.values() for result in results if result.outcome == outcome]


def wrapped(text, indent):
    """Lines of at most WIDTH columns; what is longer is continued on indented lines, and nothing is cut off."""
    return textwrap.fill(text, WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False)


def print_table(heads, rows):
    """Prints a table of at most WIDTH columns: the names of the libraries and the texts of the rules take as many lines as they need."""
    broad = len(heads) * (CELL + 2)
    names = [re.findall(rf".{{1,{CELL - 1}}}[_-]|.{{1,{CELL}}}", head) for head in heads]
    for line in range(max(map(len, names))):
        cells = "  ".join((name[line] if line < len(name) else "").ljust(CELL) for name in names)
        print(f"{' ' * (WIDTH - broad)}{cells}".rstrip())
    for rule, text, *cells in rows:
        first, *more = textwrap.wrap(text, WIDTH - broad - 6)
        print(f"{rule:5}{first.ljust(WIDTH - broad - 5)}{'  '.join(c.ljust(CELL) for c in cells)}".rstrip())
        for line in more:
            print(f"     {line}")


def print_text(found, keys):
    heads, rows = [facts["name"] for facts, _ in found.values()], table(found, keys)
    for begin in range(0, len(heads), AT_ONCE):
        if begin:
            print()
        print_table(heads[begin : begin + AT_ONCE], [row[:2] + row[2 + begin : 2 + begin + AT_ONCE] for row in rows])
    print()
    for outcome in ("broken", "departs", "failed"):
        for r in findings(found, outcome):
            case = CASES[r.case]
            print(wrapped(f"{outcome}: {library_of(found, r)} {r.rule}, {case.role}: {case.name.replace('_', ' ')}: {r.evidence}", 4))
            for line in (r.call, case.says if outcome != "failed" else ""):
                if line:
                    print(textwrap.fill(line, WIDTH, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False))
    for facts, _ in found.values():
        if "error" in facts:
            print(wrapped(f"failed: {facts['name']}: {facts['error']}", 4))
    print(wrapped("  ".join(f"{facts['name']} {facts.get('version', '-')}" for facts, _ in found.values()), 0))
    counts = {o: len(findings(found, o)) for o in WORST}
    print(", ".join(f"{counts[o]} {o}" for o in ("kept", "broken", "departs", "n/a", "failed")))


def escaped(text):
    """Returns text for a cell: names with double underscores are code, and would be bold otherwise."""
    parts = text.replace("|", "\\|").replace("\n", " ").split("`")  # those with odd numbers are code
    parts[::2] = [re.sub(r"\b__\w+__", r"`\g<0>`", part) for part in parts[::2]]
    return "`".join(parts)


def print_markdown(found, keys):
    heads = [f"{facts['name']} {facts.get('version', '')}".strip() for facts, _ in found.values()]
    print(f"| rule | | {' | '.join(heads)} |\n|---|---|{'---|' * len(heads)}")
    shown = {"broken": "**broken**", "failed": "**failed**"}
    silences = [bool(results) and {r.outcome for r in results} == {"n/a"} for _, results in found.values()]
    for rule, text, *cells in table(found, keys):
        cells = ["" if c == "n/a" and not silent else shown.get(c, c) for c, silent in zip(cells, silences)]
        print(f"| {rule} | {escaped(text)} | {' | '.join(cells)} |")
    for silent, (facts, results) in zip(silences, found.values()):
        if silent:  # prints the reason for an empty column
            print(f"\nNo rule applies to {facts['name']}: {escaped('; '.join(dict.fromkeys(r.evidence for r in results)))}.")
    for facts, _ in found.values():
        if facts.get("by"):
            print(f"\n{facts['name']} passes imports and exports to {facts['by']}: its rows are those of {facts['by']}.")
    for title, outcome in (("Broken", "broken"), ("Departs", "departs"), ("Failed", "failed")):
        rows = findings(found, outcome)
        if rows:
            print(f"\n### {title}\n\n| rule | library | what | evidence | call | source |\n|---|---|---|---|---|---|")
        for r in rows:
            _, role, name = r.case.split("/")
            cells = [r.rule, library_of(found, r), f"{role}: {name.replace('_', ' ')}", r.evidence, f"`{r.call}`", CASES[r.case].says]
            print(f"| {' | '.join(map(escaped, cells))} |")
    for facts, _ in found.values():
        if "error" in facts:
            print(f"\n{facts['name']}: {facts['error']}")


def print_json(found, keys):
    libraries = [facts for facts, _ in found.values()]
    results = [r.as_dict() for _, results in found.values() for r in results]
    rows = {row[0]: dict(zip([f["name"] for f in libraries], row[2:])) for row in table(found, keys)}
    print(json.dumps({"version": __version__, "libraries": libraries, "table": rows, "results": results}, indent=1))


def unconfirmed(found, jobs):
    """Returns the violations that their reproduction script does not show."""
    claims = [
        (r, spec)
        for spec, (_, results) in found.items()
        for r in results
        if r.outcome in ("broken", "departs") and not CASES[r.case].alone
    ]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        shown = list(pool.map(lambda claim: reproduction.confirms(claim[0].case, claim[1]), claims))
    return [f"{r.case}:{r.library}" for (r, _), how in zip(claims, shown) if not how]


def reproduce(word, timeout):
    what, _, spec = word.partition(":")
    if not spec or (what not in RULES and what not in CASES):
        return usage("--reproduce expects RULE:LIBRARY, for example R24:jax, or CASE:LIBRARY with a case of --json")
    if why := unknown_library(spec):
        return usage(why)
    keys = [what] if what in CASES else []
    if not keys:
        facts, results = run(spec, [key for key in CASES if CASES[key].rule == what], timeout)
        if "error" in facts:
            return usage(facts["error"])
        keys = [r.case for r in results if r.outcome in ("broken", "departs")]
    if not keys:
        return usage(f"{spec} does not break {what}")
    for key in keys[1:]:
        print(f"# also: --reproduce {key}:{spec}", file=sys.stderr)
    try:
        print(reproduction.script(keys[0], spec), end="")
    except LoadError as error:
        return usage(str(error))
    return 0


def write_scripts(found, folder):
    """Writes a script for each violation; prints their names."""
    folder.mkdir(parents=True, exist_ok=True)
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    for spec, (facts, results) in found.items():
        for r in results:
            if r.outcome in ("broken", "departs"):
                rule, _, name = r.case.split("/")
                file = folder / f"{re.sub(r'[^A-Za-z0-9_-]+', '-', facts['name'])}-{rule}-{name}.py"
                seen = f"{facts['name']} {facts.get('version', '')} on {system}: {r.evidence}"
                file.write_text(reproduction.script(r.case, spec, seen), encoding="utf-8")
                print(file)


def arguments():
    parser = argparse.ArgumentParser(
        "dlpack-conformance", epilog=EPILOGUE, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs every rule of the DLPack exchange on live libraries and prints rule by library.",
    )  # fmt: skip
    add = parser.add_argument
    add("libraries", nargs="*", metavar="LIBRARY", help="a library of the list below, or a custom plug-in")
    add("--only", metavar="RULES", help="only these rules or cases, separated by commas, for example R24,R28")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the results of all cases as JSON")
    form.add_argument("--markdown", action="store_true", help="print tables in Markdown")
    form.add_argument("--list", action="store_true", help="print the rules, their cases, and the rules that Python cannot test")
    form.add_argument(
        "--reproduce", metavar="RULE:LIBRARY", help="print a script that shows a violation with the library alone, for its issue tracker"
    )
    add("--scripts", metavar="FOLDER", type=pathlib.Path, help="also write such a script for each violation to a folder")
    add("--verify", action="store_true", help="also run these scripts; one that does not show its violation is a failure")
    add("--timeout", type=float, default=120.0, metavar="S", help="seconds before a case is reported as a timeout (120)")
    add("--jobs", type=int, default=min(4, os.cpu_count() or 1), metavar="N", help="number of libraries tested in parallel (%(default)s)")
    add("--quiet", action="store_true", help="print no progress")
    add("--version", action="version", version=__version__, help="print the version")
    return parser


def main():
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    parser = arguments()
    asked = parser.parse_args()
    if asked.list:
        list_rules()
        return sys.exit(0)
    if asked.reproduce:
        sys.exit(reproduce(asked.reproduce, asked.timeout))
    if not asked.libraries:
        parser.error("no library is given")
    if asked.timeout <= 0 or asked.jobs < 1:
        parser.error("--timeout and --jobs must be positive")
    for spec in asked.libraries:
        if why := unknown_library(spec):
            sys.exit(usage(why))
    keys = selected(asked.only)
    found = run_all(list(dict.fromkeys(asked.libraries)), keys, asked.timeout, asked.jobs, asked.quiet)
    wrong = unconfirmed(found, asked.jobs) if asked.verify else []
    (print_json if asked.json else print_markdown if asked.markdown else print_text)(found, keys)
    if asked.scripts:
        write_scripts(found, asked.scripts)
    for claim in wrong:
        print(f"dlpack-conformance: the reproduction of {claim} does not show the violation", file=sys.stderr)
    if wrong or findings(found, "failed") or any("error" in facts for facts, _ in found.values()):
        sys.exit(2)
    sys.exit(bool(findings(found, "broken")))


if __name__ == "__main__":
    main()
