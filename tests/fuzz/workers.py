"""Runs built fuzz targets with several workers each, and reports the results.

    workers.py BINARIES CORPUS OUT [--seconds N] [--jobs N] [--quiet MINUTES] [--workers-leaks 0|1] [TARGET...]

Workers of a target share what they find: OUT/found/TARGET, beside the seeds in CORPUS/TARGET, is read again by each every second.
A target ends after --seconds, or once --quiet minutes of processor time brought no new edge. Inputs that break a target stay in
OUT/crashes. For each target OUT/summary.json has: executions, edges that the seeds reach and that all inputs reach, when the last
new one came, and what broke. OUT/corpus.tar.gz: for each target the fewest found inputs that add edges to the seeds (edges/TARGET),
and those that add anything that libFuzzer tells apart, to go on from (features/TARGET).
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
import threading
import time

MAX_LEN = {"wire_binary": 1024, "arrow_array": 128, "arrow_schema": 128}  # an Arrow node takes two bytes
SHARES = {"negotiate": 1, "validate": 2, "arrow_schema": 2, "wire_check": 2}  # of the workers; others, which are slow, have 3
MOST_PACKED = 7 << 20  # bytes of one target's found inputs


def environment(leaks):
    return os.environ | {"PYTHONMALLOC": "malloc", "ASAN_OPTIONS": f"detect_leaks={leaks}:detect_stack_use_after_return=0"}


class Target:
    def __init__(self, name, options):
        self.name, self.options = name, options
        self.binary, self.seeds = options.binaries / name, options.corpus / name
        self.found = options.out / "found" / name
        self.found.mkdir(parents=True, exist_ok=True)
        self.leaks = 0 if name == "python" else options.workers_leaks
        self.lock = threading.Lock()
        self.edges = self.last_edge = self.executions = 0
        self.running, self.crashes = [], []

    def call(self, *arguments, timeout=None):
        try:
            done = subprocess.run([self.binary, f"-max_len={MAX_LEN.get(self.name, 512)}", *arguments], env=environment(self.leaks),
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=timeout)
        except subprocess.TimeoutExpired:
            return None
        return done.stdout if done.returncode == 0 else None

    def reached(self, *folders):
        """Edges that the inputs of these folders reach."""
        text = self.call("-runs=0", *map(str, folders), timeout=120)
        return max(map(int, re.findall(r"cov: (\d+)", text or "")), default=0)

    def watch(self, number):
        """One worker, from its start to its end."""
        o = self.options
        log = o.out / "logs" / f"{self.name}-{number}.log"
        command = [self.binary, f"-seed={o.seed + number}", "-reload=1", f"-max_total_time={o.seconds}", "-rss_limit_mb=4096",
                   "-print_final_stats=1", "-timeout=120", f"-detect_leaks={self.leaks}", f"-max_len={MAX_LEN.get(self.name, 512)}",
                   f"-artifact_prefix={o.out}/crashes/{self.name}-", self.found, self.seeds]
        with subprocess.Popen(command, env=environment(self.leaks), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              errors="replace") as worker, log.open("w") as kept:
            with self.lock:
                self.running.append(worker)
            executions = 0
            for line in worker.stderr:
                if m := re.match(r"#(\d+)\s+(\w+)\s+cov: (\d+)", line):
                    executions, edges = int(m[1]), int(m[3])
                    with self.lock:
                        if edges > self.edges:
                            self.edges, self.last_edge = edges, time.monotonic()
                    if m[2] in ("NEW", "REDUCE", "RELOAD"):
                        continue  # too many to keep
                if m := re.match(r"stat::number_of_executed_units:\s+(\d+)", line):
                    executions = int(m[1])
                kept.write(line)
        with self.lock:
            self.executions += executions
            if worker.returncode not in (0, -2, 72):  # 72: interrupted, when it was quiet
                self.crashes.append(log.name)

    def run(self, workers):
        self.at_start = self.edges = self.reached(self.seeds)
        began = self.last_edge = time.monotonic()
        threads = [threading.Thread(target=self.watch, args=(n,)) for n in range(workers)]
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            threads[0].join(2) if threads[0].is_alive() else time.sleep(2)
            quiet = (time.monotonic() - self.last_edge) * workers / 60
            if self.options.quiet and quiet > self.options.quiet:
                for worker in self.running:
                    worker.send_signal(2)
                break
        for t in threads:
            t.join()
        took = time.monotonic() - began
        result = {
            "executions": self.executions, "workers": workers, "seconds": round(took), "edges by the seeds": self.at_start,
            "edges": max(self.reached(self.seeds, self.found), self.edges), "last new edge, s": round(self.last_edge - began),
            "cpu minutes since": round((took - (self.last_edge - began)) * workers / 60, 1), "broke": self.crashes}
        print(f"{self.name:13} {result['executions']:12} runs, {workers} workers {result['seconds']} s; edges {self.at_start} -> {result['edges']}, "
              f"the last after {result['last new edge, s']} s: {result['cpu minutes since']} CPU minutes without one since"
              + (f"; BROKE: {', '.join(self.crashes)}" if self.crashes else ""), flush=True)
        merges = [threading.Thread(target=self.merge, args=a) for a in (("edges", "-use_counters=0"), ("features",))]
        for m in merges:
            m.start()
        for m in merges:
            m.join()
        return result

    def merge(self, kind, *arguments):
        """A minimal set of the found inputs with the edges of all, in addition to the seeds; all of them when time runs out."""
        into = self.options.out / kind / self.name
        shutil.rmtree(into, ignore_errors=True)
        shutil.copytree(self.seeds, into)  # inputs of the first folder stay, and only those that add edges are added
        if self.call("-merge=1", *arguments, str(into), str(self.found), timeout=self.options.merge_seconds) is None:
            print(f"{self.name}: {kind} are not merged", flush=True)
            shutil.copytree(self.found, into, dirs_exist_ok=True)
        for seed in self.seeds.iterdir():
            (into / seed.name).unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("corpus", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--quiet", type=float, default=0, metavar="MINUTES")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1_000_000)
    parser.add_argument("--merge-seconds", type=int, default=45)
    parser.add_argument("--workers-leaks", type=int, default=1, choices=(0, 1), help="0 where a leak check is not allowed to trace")
    o = parser.parse_intermixed_args()
    o.binaries, o.corpus, o.out = o.binaries.resolve(), o.corpus.resolve(), o.out.resolve()
    for folder in "logs", "crashes":
        (o.out / folder).mkdir(parents=True, exist_ok=True)
    names = o.targets or [p.name for p in sorted(o.corpus.iterdir()) if (o.binaries / p.name).exists()]
    print(f"--seed {o.seed}", flush=True)
    shares = {n: SHARES.get(n, 3) for n in names}
    workers = {n: max(1, o.jobs * share // sum(shares.values())) for n, share in shares.items()}
    for n in sorted(names, key=shares.get, reverse=True)[: max(0, o.jobs - sum(workers.values()))]:
        workers[n] += 1  # the remainder of the division
    at_once = max(1, min(len(names), o.jobs))
    with concurrent.futures.ThreadPoolExecutor(at_once) as all_of_them:
        running = {n: all_of_them.submit(Target(n, o).run, workers[n]) for n in names}
    results = {n: f.result() for n, f in running.items()}
    (o.out / "summary.json").write_text(json.dumps(results, indent=1) + "\n")
    with tarfile.open(o.out / "corpus.tar.gz", "w:gz") as tar:
        for kind in "edges", "features":
            for name in names:
                size = 0
                for path in sorted((o.out / kind / name).iterdir(), key=lambda p: p.stat().st_size):
                    size += path.stat().st_size + 512
                    if size > MOST_PACKED:
                        break
                    tar.add(path, f"{kind}/{name}/{path.name}")
    return 1 if any(r["broke"] or r["executions"] == 0 for r in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
