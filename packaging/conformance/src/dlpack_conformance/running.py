"""Runs cases in worker processes: one per library, a new one after a crash or a hang."""

import json
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass

from .case import CASES, verdict


@dataclass
class Result:
    library: str
    rule: str
    case: str
    outcome: str  # kept, broken, departs, n/a, failed
    evidence: str = ""
    call: str = ""

    def as_dict(self):
        found = CASES[self.case]
        return {**asdict(self), "role": found.role, "says": found.says, "force": found.force}


class Died(Exception):
    """Raised when the worker ended or did not answer; the text is the reason."""


class Worker:
    def __init__(self, spec, timeout, alone=False):
        self.errors, self.folder = tempfile.TemporaryFile(), tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.notes = pathlib.Path(self.folder.name, "notes")
        self.timeout = timeout
        self.process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", "dlpack_conformance.worker", spec, self.notes, *["alone"] * alone],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, start_new_session=True,
        )  # fmt: skip
        self.lines = queue.SimpleQueue()
        threading.Thread(target=self.listen, daemon=True).start()
        self.facts = self.answer(max(timeout, 120))

    def listen(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(b"")

    def answer(self, timeout):
        try:
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            self.end()
            raise Died(f"timeout: no answer within {timeout:g} s") from None
        if not line.endswith(b"\n"):
            raise Died(self.how_it_died())
        return json.loads(line)

    def ask(self, key):
        try:
            self.process.stdin.write(key.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:  # a broken pipe, which Windows reports as EINVAL
            raise Died(self.how_it_died()) from None
        return self.answer(self.timeout)

    def how_it_died(self):
        try:
            status = self.process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            self.end()
            return f"timeout: the process did not end within {self.timeout:g} s"
        self.errors.seek(0)
        said = [line for line in self.errors.read().decode(errors="replace").splitlines() if line.strip()]
        noise = ("Fatal Python error", "  File", "Current thread", "Extension modules", "frame #", "Exception raised from", "  <no")
        said = [line for line in said if not line.startswith(noise)]
        told = [line for line in said if "what():" in line] or said
        last = f"; its last output: {told[-1].strip()}" if told else ""
        if status < 0:
            return f"the process was terminated by {signal.Signals(-status).name}{last}"
        return f"the process ended with status {status}{last}"

    def last_call(self):
        """The last call of the library, returned or not."""
        return self.notes.read_bytes().decode(errors="replace").strip() if self.notes.exists() else ""

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def finish(self):
        """Waits for the process to end; returns how it crashed, or nothing."""
        self.process.stdin.close()
        how = self.how_it_died()
        return "" if how == "the process ended with status 0" or how.startswith("the process ended with status 0;") else how


def judged(key, answer):
    return answer["outcome"], answer["evidence"], answer["call"]


def alone(spec, key, timeout, standard):
    """Runs a case in a separate process, including the end of the process."""
    worker = None
    try:
        worker = Worker(spec, timeout, alone=True)
        answer = worker.ask(key)
        died = worker.finish() if CASES[key].alone else ""
        worker.end()
    except Died as how:
        return verdict(key, standard), str(how), worker.last_call() if worker else ""
    if died and answer["outcome"] == "kept":
        return verdict(key, standard), f"after the interpreter was finalised: {died}", answer["call"]
    return judged(key, answer)


def run(spec, keys, timeout=120.0, progress=lambda done, key: None):
    """Yields the facts of a library, and a Result for each case."""
    try:
        worker = Worker(spec, timeout)
    except Died as how:
        return {"name": spec, "error": f"the plug-in could not be loaded: {how}"}, []
    facts = {"name": spec, **worker.facts}
    if "error" in facts:
        worker.end()
        return facts, []
    results = []
    for done, key in enumerate(keys):
        progress(done, key)
        try:
            if CASES[key].alone:
                found = alone(spec, key, timeout, facts["standard"])
            else:
                found = judged(key, worker.ask(key))
        except Died:
            # Repeats the case in a separate process, so that earlier cases do not affect the result.
            found = alone(spec, key, timeout, facts["standard"])
            try:
                worker = Worker(spec, timeout)
            except Died as how:
                facts["error"] = f"it could not be loaded again: {how}"
                break
        results.append(Result(facts["name"], CASES[key].rule, key, *found))
    worker.end()
    return facts, results
