"""Passes arrays from library to library: each exchange is checked, timed and printed as a row."""

import ctypes
import hashlib
import statistics
import time


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


class Journey:
    """Runs exchanges (hops) between libraries and counts the results. A missing library is None in `libraries`: a hop to or
    from it is skipped and returns None, and the hops after it are skipped as well."""

    def __init__(self, libraries, flip_after=None):
        self.libraries = libraries
        self.flip_after = flip_after
        self.shared = self.copied = self.skipped = self.trips = 0
        self.failures = []
        self._hops = 0

    @staticmethod
    def legend():
        return (
            f"{'from':>10}   {'to':<10} {'dtype':<7} {'shape':<11} {'result and reason':<58} "
            f"{'acc':<3} {'address':<12} {'ns':>9} {'own ns':>9}"
        )

    def heading(self, text):
        print(f"\n{text}", flush=True)

    def hop(self, source, target, array, copy=False):
        """Passes `array` from one library to the other. Returns the imported array, or None."""
        self._hops += 1
        route = f"{source:>10} > {target:<10}"
        missing = [name for name in (source, target) if self.libraries.get(name) is None]
        if missing or array is None:
            why = f"{' and '.join(missing)} not available" if missing else "an earlier exchange failed"
            return self._skip(route, why)
        giver, taker = self.libraries[source], self.libraries[target]
        offered = giver.memory(array)
        before = digest(giver, array)
        refusal, reason = taker.refuses(offered), taker.copies(offered)
        if refusal and not taker.can_copy:
            return self._skip(route, refusal, offered)
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
        if is_shared:
            what = "shared" + _remark(offered, got)
        elif copy:
            what = "copied: copy=True requested"
        elif refusal:
            what = f"copied: {refusal}"
        elif reason:
            what = f"copied: {reason}"
        else:
            return self._fail(route, offered, "copied without a known reason")
        self.shared += is_shared
        self.copied += not is_shared
        own = self._own(giver, taker, array, arrived, take)
        times = f"{nanoseconds(lambda: take(array)):>9} {own if own is not None else '-':>9}"
        print(f"{route} {_row(got)} {what:<58} {got.writes:<3} {got.address:012x} {times}", flush=True)
        return arrived

    def round_trip(self, what, source, sent, target, received):
        """Checks by sha256 that the returned data is the data that was sent."""
        if sent is None or received is None:
            self.skipped += 1
            print(f"{'':>10}   sha256: skipped, {what} was not returned", flush=True)
            return
        before, after = digest(self.libraries[source], sent), digest(self.libraries[target], received)
        if before != after:
            self.failures.append(f"round trip of {what}: sha256 {before[:16]}… sent, {after[:16]}… received")
            print(f"{'':>10}   sha256: FAILED, {self.failures[-1]}", flush=True)
            return
        self.trips += 1
        print(f"{'':>10}   sha256 {before[:32]}…, before and after", flush=True)

    def _own(self, giver, taker, array, arrived, take):
        """Returns the time in which the other library imports its own array."""
        library, theirs = (giver, array) if taker.name == "minitensor" else (taker, arrived)
        try:
            own = library.take_copy if take == taker.take_copy else library.take
            own(theirs)
            return nanoseconds(lambda: own(theirs))
        except Exception:
            return None  # the library cannot import its own arrays

    def _skip(self, route, why, memory=None):
        self.skipped += 1
        print(f"{route} {_row(memory)} skipped: {why}", flush=True)

    def _fail(self, route, memory, why):
        self.failures.append(f"hop {self._hops}, {' '.join(route.split())}: {why}")
        print(f"{route} {_row(memory)} FAILED: {why}", flush=True)


def _row(memory):
    if memory is None:
        return f"{'-':<7} {'-':<11}"
    return f"{memory.dtype:<7} {'x'.join(map(str, memory.shape)):<11}"


def _remark(offered, got):
    if offered.writes == "ro" and got.writes == "-":
        return "; the library has no read-only arrays"
    if offered.writes == "rw" and got.writes == "ro":
        return ", read-only from here on"
    return ""
