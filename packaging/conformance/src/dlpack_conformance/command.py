"""The command line."""

import argparse
import concurrent.futures
import json
import os
import re
import signal
import sys

from . import __version__, reproduction
from .case import CASES
from .loading import FILES, LoadError
from .rules import NOT_OBSERVABLE, RULES
from .running import run

WORST = ["failed", "broken", "departs", "kept", "n/a"]
EPILOGUE = f"""libraries: {', '.join(FILES)}; or FILE.py, or FILE.py:CLASS, a custom plug-in
outcomes:  kept; broken; departs (from a recommendation, or from a behaviour that several libraries share); n/a; failed (the plug-in)
status:    0 no rule is broken, 1 a rule is broken, 2 a usage error, or a plug-in failed"""


def selected(only):
    keys = list(CASES)
    if not only:
        return keys
    words = [word.strip() for word in only.split(",") if word.strip()]
    unknown = [w for w in words if w not in RULES and w not in CASES]
    if unknown:
        sys.exit(usage(f"--only: unknown rule {', '.join(unknown)}"))
    return [key for key in keys if CASES[key].rule in words or key in words]


def usage(message):
    print(f"dlpack-conformance: {message}", file=sys.stderr)
    return 2


def list_rules():
    for rule, text in RULES.items():
        print(f"{rule:4} {text}")
        found = [case for case in CASES.values() if case.rule == rule]
        for case in found:
            print(f"       {case.role:9} {case.name.replace('_', ' ')}  [{case.force}: {case.says}]")
        if not found:
            print(f"       not observable from Python here: {NOT_OBSERVABLE[rule]}")


class Progress:
    """Reports progress: in one line on a terminal, otherwise in a line per library."""

    def __init__(self, total):
        self.total, self.now, self.live = total, {}, sys.stderr.isatty()

    def __call__(self, spec, done, key):
        self.now[spec] = done + 1
        if self.live:
            text = "  ".join(f"{name} {n}/{self.total}" for name, n in self.now.items())
            print(f"\r\033[K{text[:150]}", end="", file=sys.stderr, flush=True)
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


def findings(found, outcome):
    return [result for _, results in found.values() for result in results if result.outcome == outcome]


def print_text(found, keys):
    heads = [facts["name"] for facts, _ in found.values()]
    rows = table(found, keys)
    widths = [max(len(h), 7) for h in heads]
    print(f"{'':5}{'':62}" + "  ".join(h.ljust(w) for h, w in zip(heads, widths)))
    for rule, text, *cells in rows:
        print(f"{rule:5}{text[:60]:62}" + "  ".join(c.ljust(w) for c, w in zip(cells, widths)))
    print()
    for title, outcome in (("broken", "broken"), ("departs", "departs"), ("failed", "failed")):
        for r in findings(found, outcome):
            print(f"{title}: {r.library} {r.case.replace('_', ' ')}: {r.evidence}" + (f"  [{r.call}]" if r.call else ""))
    for facts, _ in found.values():
        if "error" in facts:
            print(f"failed: {facts['name']}: {facts['error']}")
    print("  ".join(f"{facts['name']} {facts.get('version', '-')}" for facts, _ in found.values()))
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
    for title, outcome in (("Broken", "broken"), ("Departs", "departs"), ("Failed", "failed")):
        rows = findings(found, outcome)
        if rows:
            print(f"\n### {title}\n\n| rule | library | what | evidence | call | source |\n|---|---|---|---|---|---|")
        for r in rows:
            _, role, name = r.case.split("/")
            cells = [r.rule, r.library, f"{role}: {name.replace('_', ' ')}", r.evidence, f"`{r.call}`", CASES[r.case].says]
            print(f"| {' | '.join(map(escaped, cells))} |")
    for facts, _ in found.values():
        if "error" in facts:
            print(f"\n{facts['name']}: {facts['error']}")


def print_json(found, keys):
    libraries = [facts for facts, _ in found.values()]
    results = [r.as_dict() for _, results in found.values() for r in results]
    rows = {row[0]: dict(zip([f["name"] for f in libraries], row[2:])) for row in table(found, keys)}
    print(json.dumps({"version": __version__, "libraries": libraries, "table": rows, "results": results}, indent=1))


def unconfirmed(found):
    """Returns the violations that their reproduction script does not show."""
    wrong = []
    for spec, (_, results) in found.items():
        for r in results:
            if r.outcome in ("broken", "departs") and not CASES[r.case].alone and not reproduction.confirms(r.case, spec):
                wrong.append(f"{r.case}:{r.library}")
    return wrong


def reproduce(word, timeout):
    what, _, spec = word.partition(":")
    if not spec or (what not in RULES and what not in CASES):
        return usage("--reproduce expects RULE:LIBRARY, for example R24:jax, or CASE:LIBRARY with a case of --json")
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


def arguments():
    parser = argparse.ArgumentParser(
        "dlpack-conformance", description=__doc__, epilog=EPILOGUE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.description = "Runs every rule of the DLPack exchange on live libraries and prints rule by library."
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY")
    parser.add_argument("--only", metavar="RULES", help="comma-separated rules, for example R24,R28")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true")
    form.add_argument("--markdown", action="store_true")
    form.add_argument("--list", action="store_true", help="the rules, their cases, and the rules that cannot be tested from Python")
    form.add_argument("--reproduce", metavar="RULE:LIBRARY", help="print a script that reproduces the violation without this package")
    parser.add_argument("--verify", action="store_true", help="also run the reproduction of every violation; one that does not reproduce it is a failure")
    parser.add_argument("--timeout", type=float, default=120.0, metavar="S", help="seconds before a case is reported as a timeout (120)")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1), metavar="N", help="number of libraries tested in parallel")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--version", action="version", version=__version__)
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
    keys = selected(asked.only)
    found = run_all(list(dict.fromkeys(asked.libraries)), keys, asked.timeout, asked.jobs, asked.quiet)
    wrong = unconfirmed(found) if asked.verify else []
    (print_json if asked.json else print_markdown if asked.markdown else print_text)(found, keys)
    for claim in wrong:
        print(f"dlpack-conformance: the reproduction of {claim} does not show the violation", file=sys.stderr)
    if wrong or findings(found, "failed") or any("error" in facts for facts, _ in found.values()):
        sys.exit(2)
    sys.exit(bool(findings(found, "broken")))


if __name__ == "__main__":
    main()
