"""Passes arrays from library to library: each exchange is checked and timed."""

import collections
import ctypes
import hashlib
import statistics
import sys
import time
from dataclasses import dataclass, field


def digest(library, array):
    """Returns the sha256 of the elements in row-major order."""
    return hashlib.sha256(library.values(array).tobytes()).hexdigest()


def nanoseconds(call, budget_ns=8_000_000):
    """Returns the median time of a call, measured in blocks that are long compared with the resolution of the clock."""
    for _ in range(3):
        begin = time.perf_counter_ns()
        call()
        once = time.perf_counter_ns() - begin
    block = max(1, min(200, 20_000 // max(once, 1)))
    times = []
    end = time.perf_counter_ns() + budget_ns
    while len(times) < 5 or (time.perf_counter_ns() < end and len(times) < 200):
        begin = time.perf_counter_ns()
        for _ in range(block):
            call()
        times.append((time.perf_counter_ns() - begin) / block)
    return round(statistics.median(times))


@dataclass
class Route:
    """The exchanges from one library to another. Times are in nanoseconds."""

    shared: int = 0
    copied: int = 0
    nbytes: int = 0
    times: list[int] = field(default_factory=list)
    own_times: list[int] = field(default_factory=list)


class Journey:
    """Runs exchanges (hops) between libraries and counts the results. A missing library is None in `libraries`: a hop to or
    from it is skipped and returns None, and the hops after it are skipped as well. With `verbose`, each hop is printed as a row."""

    def __init__(self, libraries, flip_after=None, verbose=False):
        self.libraries = libraries
        self.flip_after = flip_after
        self.verbose = verbose
        self.routes = collections.defaultdict(Route)
        self.copies = collections.Counter()  # by reason
        self.skips = collections.Counter()
        self.trips = 0
        self.failures = []
        self._hops = 0

    @property
    def skipped(self):
        return sum(self.skips.values())

    @staticmethod
    def legend():
        return (
            f"{'from':>10}   {'to':<10} {'dtype':<7} {'shape':<11} {'result and reason':<58} "
            f"{'acc':<3} {'address':<12} {'ns':>9} {'own ns':>9}"
        )

    def heading(self, text):
        if self.verbose:
            print(f"\n{text}", flush=True)
        elif sys.stdout.isatty():
            print(f"\r\033[K{text[:78]}", end="", flush=True)

    def skip(self, why, row=""):
        self.skips[why] += 1
        self._detail(f"{row} skipped: {why}")

    def table(self):
        """Returns a line for each route, then the reasons of copies and skips."""
        yield f"{'from':>10}   {'to':<10} {'exchanges':>9} {'shared':>7} {'copied':>7} {'compared':>10} {'time':>9} {'own':>9}"
        for (source, target), r in self.routes.items():
            own = _time(statistics.median(r.own_times)) if r.own_times else "-"
            yield (
                f"{source:>10} > {target:<10} {r.shared + r.copied:>9} {r.shared:>7} {r.copied:>7} {r.nbytes / 1e6:>7.1f} MB "
                f"{_time(statistics.median(r.times)):>9} {own:>9}"
            )
        for what, reasons in (("copied", self.copies), ("skipped", self.skips)):
            for reason, count in reasons.most_common():
                yield f"{count:>4} {what}: {reason}"

    def hop(self, source, target, array, copy=False):
        """Passes `array` from one library to the other. Returns the imported array, or None."""
        self._hops += 1
        route = f"{source:>10} > {target:<10}"
        missing = [name for name in (source, target) if self.libraries.get(name) is None]
        if missing or array is None:
            return self.skip(f"{' and '.join(missing)} not available" if missing else "the exchange before it was skipped", f"{route} {_row(None)}")
        giver, taker = self.libraries[source], self.libraries[target]
        offered = giver.memory(array)
        before = digest(giver, array)
        refusal, reason = taker.refuses(offered), taker.copies(offered)
        if refusal and not taker.can_copy:
            return self.skip(refusal, f"{route} {_row(offered)}")
        take = taker.take_copy if copy or refusal else taker.take
        try:
            arrived = take(array)
        except Exception as error:
            return self._fail(route, offered, f"{type(error).__name__}: {error}")
        got = taker.memory(arrived)
        if self._hops == self.flip_after and taker.on_host:
            self.flip_after = None
            ctypes.c_ubyte.from_address(got.address).value ^= 1
        is_shared = got.address == offered.address
        if digest(taker, arrived) != before:
            return self._fail(route, offered, "the received bytes differ from the sent bytes")
        if (got.shape, got.dtype) != (offered.shape, offered.dtype):
            return self._fail(route, offered, f"received as {got.dtype} {got.shape}")
        if is_shared and (copy or refusal):
            return self._fail(route, offered, "a copy was requested, but the memory is shared")
        why = "copy=True requested" if copy else refusal or reason
        if not is_shared and not why:
            return self._fail(route, offered, "copied without a known reason")
        time, own = nanoseconds(lambda: take(array)), self._own(giver, taker, array, arrived, take)
        its = self.routes[source, target]
        its.shared += is_shared
        its.copied += not is_shared
        its.nbytes += giver.values(array).nbytes
        its.times.append(time)
        if own is not None:
            its.own_times.append(own)
        if not is_shared:
            self.copies[why] += 1
        what = "shared" + _remark(offered, got) if is_shared else f"copied: {why}"
        self._detail(f"{route} {_row(got)} {what:<58} {got.writes:<3} {got.address:012x} {time:>9} {own if own is not None else '-':>9}")
        return arrived

    def round_trip(self, what, source, sent, target, received):
        """Checks by sha256 that the returned data is the data that was sent."""
        if sent is None or received is None:
            return self.skip(f"comparison of {what}: it was not returned")
        before, after = digest(self.libraries[source], sent), digest(self.libraries[target], received)
        if before != after:
            self.failures.append(f"round trip of {what}: sha256 {before[:16]}… sent, {after[:16]}… received")
            return self._detail(f"{'':>10}   sha256: FAILED, {self.failures[-1]}")
        self.trips += 1
        self._detail(f"{'':>10}   sha256 {before[:32]}…, before and after")

    def _own(self, giver, taker, array, arrived, take):
        """Returns the time in which the other library imports its own array."""
        library, theirs = (giver, array) if taker.name == "minitensor" else (taker, arrived)
        try:
            own = library.take_copy if take == taker.take_copy else library.take
            own(theirs)
            return nanoseconds(lambda: own(theirs))
        except Exception:
            return None  # the library cannot import its own arrays

    def _detail(self, row):
        if self.verbose:
            print(row, flush=True)

    def _fail(self, route, memory, why):
        self.failures.append(f"hop {self._hops}, {' '.join(route.split())}: {why}")
        self._detail(f"{route} {_row(memory)} FAILED: {why}")


def _row(memory):
    if memory is None:
        return f"{'-':<7} {'-':<11}"
    return f"{memory.dtype:<7} {'x'.join(map(str, memory.shape)):<11}"


def _time(ns):
    return f"{ns / 1000:.1f} µs" if ns < 1e6 else f"{ns / 1e6:.1f} ms"


def _remark(offered, got):
    if offered.writes == "ro" and got.writes == "-":
        return "; the library has no read-only arrays"
    if offered.writes == "rw" and got.writes == "ro":
        return ", read-only from here on"
    return ""
