"""The command reports faults, passes correct libraries, and handles crashes, hangs and libraries that do not load."""

import concurrent.futures
import importlib
import importlib.metadata
import inspect
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import mutants
import pytest
from dlpack_conformance import reproduction
from dlpack_conformance.case import CASES, NotApplicable, verdict
from dlpack_conformance.command import arguments, table
from dlpack_conformance.handshake import driver
from dlpack_conformance.rules import NOT_OBSERVABLE, RULES
from dlpack_conformance.running import Worker, run

MUTANTS = pathlib.Path(mutants.__file__)
ROOT = MUTANTS.parents[3]
ENDINGS = {"Crashes", "Hangs", "HangingDeleter", "BadPlugin"}
WRONG = [
    (name, *re.match(r"(R\d+)( departs)?:", mutant.__doc__).groups())
    for name, mutant in vars(mutants).items()
    if inspect.isclass(mutant) and issubclass(mutant, mutants.Right) and re.match(r"R\d", mutant.__doc__) and name not in ENDINGS
]


def of_rule(rule):
    return [key for key, case in CASES.items() if case.rule == rule]


def command(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "dlpack_conformance", *arguments], capture_output=True, text=True, timeout=600, **options
    )


def test_there_are_enough_wrong_ones():
    assert len(WRONG) >= 60


@pytest.fixture(scope="session")
def wrong_ones():
    """The findings of each library; runs two at a time."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda wrong: run(f"{MUTANTS}:{wrong[0]}", of_rule(wrong[1])), WRONG)
        return dict(zip([name for name, *_ in WRONG], found))


@pytest.mark.parametrize("name, rule, departs", WRONG, ids=[name for name, *_ in WRONG])
def test_a_wrong_library_is_caught_by_its_rule(wrong_ones, name, rule, departs):
    facts, results = wrong_ones[name]
    assert "error" not in facts
    outcomes = {r.outcome for r in results}
    assert ("departs" if departs else "broken") in outcomes, [(r.case, r.outcome, r.evidence) for r in results]
    assert "failed" not in outcomes, [r.evidence for r in results if r.outcome == "failed"]


def test_a_right_library_keeps_every_rule():
    facts, results = run(f"{MUTANTS}:Right", list(CASES))
    assert "error" not in facts and len(results) == len(CASES)
    assert [(r.case, r.outcome, r.evidence) for r in results if r.outcome not in ("kept", "n/a")] == []
    assert sum(r.outcome == "kept" for r in results) > 90


def test_a_library_of_one_kind_of_array_is_asked_what_that_kind_can_show():
    facts, results = run(f"{MUTANTS}:OneKind", list(CASES))
    assert "error" not in facts
    assert [(r.case, r.outcome, r.evidence) for r in results if r.outcome not in ("kept", "n/a")] == []
    by_case = {r.case: r for r in results}
    for key in ("R1/producer/struct_has_the_layout_of_the_header", "R7/producer/data_is_valid_until_the_deleter_is_called", "R12/producer/copy_is_flagged",
                "R24/producer/strides_are_not_null_if_the_version_requires_them", "R53/producer/copy_true_never_shares", "R55/producer/host_is_a_target"):  # fmt: skip
        assert by_case[key].outcome == "kept" and "uint8 (24,)" in by_case[key].call
    for key in ("R24/producer/transposed_and_stepped_views_have_the_right_strides", "R25/producer/a_tensor_without_dimensions_has_one_element", "R23/producer/byte_offset_is_zero"):
        assert by_case[key].outcome == "n/a" and by_case[key].evidence == "it makes arrays of uint8 (24,) alone"


def test_a_column_without_a_word_says_why():
    text = command("--only", "R12,R23,R44", "--markdown", "--quiet", f"{MUTANTS}:NoExchange", f"{MUTANTS}:Right").stdout
    assert re.findall(r"^\| (R\d+) \|[^|]*\| (\S*) +\| *(\S*) *\|$", text, re.M) == [("R12", "n/a", "kept"), ("R23", "n/a", "kept"), ("R44", "n/a", "")]
    assert "No rule applies to no-exchange: its arrays have no `__dlpack__`." in text and text.count("No rule applies") == 1


def test_a_crash_is_reported_and_the_rest_still_runs():
    _, results = run(f"{MUTANTS}:Crashes", of_rule("R23") + of_rule("R24"))
    by_case = {r.case: r for r in results}
    crashed = by_case["R23/consumer/byte_offset_is_added"]
    assert crashed.outcome == "broken" and "SIGABRT" in crashed.evidence and "byte_offset=8" in crashed.call
    assert by_case["R24/consumer/strides_are_respected"].outcome == "kept"


@pytest.fixture
def impatient(monkeypatch):
    """Waits one second for the first case, which always hangs, and the normal time for the others."""
    first, ask = [], Worker.ask

    def ask_impatiently(self, key):
        first.append(key)
        if key == first[0]:
            self.timeout = 1.0
        return ask(self, key)

    monkeypatch.setattr(Worker, "ask", ask_impatiently)


def test_a_hang_is_reported_and_the_rest_still_runs(impatient):
    _, results = run(f"{MUTANTS}:Hangs", ["R23/consumer/byte_offset_is_added", "R24/consumer/strides_are_respected"])
    assert results[0].outcome == "broken" and "timeout" in results[0].evidence
    assert results[1].outcome == "kept"


def test_a_hung_deleter_is_reported(impatient):
    _, results = run(f"{MUTANTS}:HangingDeleter", of_rule("R65")[:1])
    assert results[0].outcome == "broken" and "timeout" in results[0].evidence


def test_what_does_not_load_is_reported_and_the_others_still_run():
    done = command("--only", "R23", "--quiet", f"{MUTANTS}:DoesNotLoad", f"{MUTANTS}:Right")
    assert done.returncode == 2
    assert "no library of this name" in " ".join(done.stdout.split())
    assert re.search(r"^R23 .*failed +kept", done.stdout, re.M)


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["numpy", "nunpy"], "unknown library 'nunpy'; did you mean numpy?"),
        (["--reproduce", "R5:jaxx"], "unknown library 'jaxx'; did you mean jax?"),
        (["xyzzy"], "unknown library 'xyzzy'; --help lists the libraries"),
        (["numpy", "./nowhere.py:Mine"], "there is no file ./nowhere.py"),
        (["--only", "R999", "numpy"], "--only: unknown rule R999; --list prints the rules"),
    ],
)
def test_a_misspelt_name_is_a_usage_error_in_one_line(arguments, told):
    done = command(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"dlpack-conformance: {told}\n")


def test_the_output_has_at_most_100_columns_and_nothing_is_cut_off():
    libraries = [f"{MUTANTS}:{name}" for name in ("CopyNotFlagged", "LongName", "Right", "UnknownFlag", "TrueShares", "NoExchange", "OneKind")]
    done = command("--only", "R12,R14,R58", "--quiet", *libraries)
    for text in (done.stdout, command("--help").stdout, command("--list").stdout):
        assert [line for line in text.splitlines() if len(line) > 100] == []
    words = " ".join(done.stdout.split())
    assert "the returned name and version are checked; after" in words and "the call is repeated" in words and "…" not in words
    for r in json.loads(command("--only", "R12,R14", "--json", "--quiet", *libraries[:4]).stdout)["results"]:
        if r["outcome"] in ("broken", "departs"):
            assert " ".join(r["evidence"].split()) in words and r["call"] in words and r["says"] in words
    assert re.search(r"an_array_ +.*\n.*library_", done.stdout)  # the head of LongName


def test_every_option_has_help():
    assert [action.dest for action in arguments()._actions if not action.help] == []


def test_what_is_required_quotes_its_sentence():
    header = pathlib.Path(os.environ.get("FERRY_DLPACK_INCLUDE_DIR") or importlib.import_module("tvm_ffi.libinfo").find_dlpack_include_path())
    text = re.sub(r"^\s*\*+ ?", "", (header / "dlpack/dlpack.h").read_text(encoding="utf-8"), flags=re.M)
    text = " ".join(text.replace('"', "").split())
    for key, case in CASES.items():
        quoted = re.match(r'(header|Python specification|array API): "([^"]+)"', case.says)
        assert quoted or case.force == "should", f"{key} rests on no sentence: {case.says}"
        if quoted and quoted[1] == "header":
            assert quoted[2] in text, f"{key}: the header does not say {quoted[2]!r}"


def test_a_sentence_of_the_array_api_does_not_bind_a_library_that_does_not_follow_it():
    rules = {case.rule for case in CASES.values()}
    assert verdict("R53/producer/copy_true_never_shares", standard=True) == "broken"
    assert verdict("R53/producer/copy_true_never_shares", standard=False) == "departs"
    assert verdict("R2/consumer/another_major_version_is_refused_and_released", standard=False) == "broken"
    assert verdict("R44/handshake/stream_zero_is_refused", standard=True) == verdict("R44/handshake/negative_streams_are_refused", standard=True) == "departs"
    assert "R35/consumer/the_id_of_the_host_is_ignored" not in CASES and "R35" in rules


def test_a_table_without_the_member_that_may_be_null_is_used():
    _, results = run("tvm_ffi", ["R71/consumer/the_member_that_may_be_null_is_not_called"])
    assert [(r.outcome, r.evidence) for r in results] == [("kept", "")]


def test_a_library_that_another_one_serves_says_so():
    text = command("--only", "R32", "--markdown", "--quiet", "array_api_strict").stdout
    assert "array_api_strict passes imports and exports to numpy: its rows are those of numpy." in text
    assert "| array_api_strict (by numpy) |" in text


def test_a_plugin_that_fails_is_a_failure_and_no_break():
    done = command("--only", "R16", "--json", f"{MUTANTS}:BadPlugin")
    assert done.returncode == 2
    outcomes = {r["outcome"] for r in json.loads(done.stdout)["results"]}
    assert "failed" in outcomes and "broken" not in outcomes
    assert "R16" in done.stderr


def test_the_status_says_what_was_found():
    assert command("--only", "R12", f"{MUTANTS}:Right").returncode == 0
    assert command("--only", "R14", f"{MUTANTS}:UnknownFlag").returncode == 0
    assert command("--only", "R12", f"{MUTANTS}:CopyNotFlagged").returncode == 1
    for wrong in ([], ["--only", "R999", "numpy"], ["--reproduce", "R24", "numpy"], ["--timeout", "0", "numpy"]):
        done = command(*wrong)
        assert done.returncode == 2 and done.stderr


GPU = ["torch-cuda", "cupy", "jax-cuda", "numba-cuda", "cuda-core", "minitensor-cuda"]


def test_without_a_device_every_gpu_plugin_refuses_by_name():
    try:
        driver()
    except NotApplicable as reason:
        done = command("--only", "R43", "--quiet", *GPU)
        assert done.returncode == 2
        for name in GPU:
            assert f"failed: {name}: {name}: RuntimeError: {reason}, and {name} needs one" in " ".join(done.stdout.split())
    else:
        pytest.skip("there is a device")


def test_the_host_has_no_handshake():
    found = json.loads(command("--only", "R43,R44", "--json", "numpy").stdout)
    assert {r["outcome"] for r in found["results"]} == {"n/a"} and len(found["results"]) > 4


def test_json_and_markdown_say_the_same():
    found = json.loads(command("--only", "R12", "--json", f"{MUTANTS}:CopyNotFlagged").stdout)
    assert found["table"] == {"R12": {"right": "broken"}}
    broken = [r for r in found["results"] if r["outcome"] == "broken"]
    assert broken[0]["call"].startswith("x.__dlpack__(") and "IS_COPIED" in broken[0]["says"]
    text = command("--only", "R12", "--markdown", f"{MUTANTS}:CopyNotFlagged").stdout
    assert "| R12 |" in text and "**broken**" in text and broken[0]["evidence"] in text


def test_every_rule_has_a_case_or_a_reason():
    listed = command("--list").stdout
    cases = {case.rule for case in CASES.values()}
    assert cases | set(NOT_OBSERVABLE) == set(RULES) and not cases & set(NOT_OBSERVABLE)
    for rule in RULES:
        assert re.search(rf"^{rule} ", listed, re.M)
    assert RULES.keys() == set(re.findall(r"^\| (R\d+) \|", (ROOT / "docs/rules.md").read_text(encoding="utf-8"), re.M))


def test_scripts_of_all_violations_are_written_to_a_folder(tmp_path):
    done = command("--only", "R32", "--quiet", "--scripts", str(tmp_path / "found"), "numpy")
    written = sorted((tmp_path / "found").iterdir())
    assert [f"{file}" for file in written] == sorted(line for line in done.stdout.splitlines() if line.endswith(".py"))
    assert {file.name for file in written} >= {"numpy-R32-null_data_with_elements_is_refused.py"}
    for file in written:
        alone = subprocess.run([sys.executable, "-I", file], capture_output=True, text=True, cwd=tmp_path)
        assert alone.returncode == 1 and alone.stdout.startswith("broken:") or alone.returncode < 0
        head = file.read_text(encoding="utf-8").split('"""')[1]
        assert head.startswith("numpy: ") and importlib.metadata.version("numpy") in head


def test_a_reproduction_needs_nothing_of_the_package(tmp_path):
    done = command("--reproduce", "R32/consumer/null_data_with_elements_is_refused:numpy")
    assert done.returncode == 0 and "dlpack_conformance" not in done.stdout
    alone = subprocess.run([sys.executable, "-I", "-c", done.stdout], capture_output=True, text=True, cwd=tmp_path)
    assert alone.returncode == 1 and alone.stdout.startswith("broken: it accepted the tensor")


@pytest.mark.parametrize("key", [k for k, case in CASES.items() if case.role != "handshake"])
def test_a_reproduction_is_a_program(key):
    compile(reproduction.script(key, "numpy"), key, "exec")


# The published table


def published():
    text = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| R")]
    head = next(line for line in text.splitlines() if line.startswith("| rule |"))
    names = [cell.strip() for cell in head.strip("|").split("|")]
    wide = [row for row in rows if len(row) == len(names)]
    return {names[i]: {row[0]: row[i].strip("*") or "n/a" for row in wide} for i in range(2, len(names))}


@pytest.mark.parametrize("library", ["minitensor", "numpy"])
def test_the_published_row_is_what_is_found(library):
    heading = next(name for name in published() if name.split()[0] == library)
    if importlib.metadata.version(library) != heading.split()[1]:
        pytest.skip(f"{library} {importlib.metadata.version(library)} is here, and {heading} is published")
    keys = list(CASES)
    facts, results = run(library, keys)
    assert "error" not in facts
    found = {row[0]: row[2] for row in table({library: (facts, results)}, keys)}
    assert {rule: found[rule] for rule in published()[heading]} == published()[heading]
    if library == "minitensor":
        assert not {"broken", "departs", "failed"} & set(found.values())


def test_the_commands_of_the_page_run(tmp_path):
    """The commands of docs/conformance.md."""
    page = (ROOT / "docs/conformance.md").read_text(encoding="utf-8")
    said = [line.split("#")[0].strip() for line in re.search(r"```sh\n(.*?)```", page, re.S)[1].splitlines()]
    assert said[0] == "pip install ./packaging/conformance"  # so it came here
    (tmp_path / "my_library.py").write_text(
        "from dlpack_conformance.plugins.numpy_arrays import NumPy\n\n\nclass Mine(NumPy):\n    name = 'mine'\n", encoding="utf-8"
    )
    for line in said[1:]:
        name, *arguments = shlex.split(line)
        assert name == "dlpack-conformance"
        done = command(*arguments, cwd=tmp_path)
        assert done.returncode in (0, 1) and done.stdout, f"{line}: {done.stderr}"
