"""Calls extension modules from eight threads at once, in a CPython without the GIL. Built with ThreadSanitizer, they report their races.

usage: racing.py FOLDER     of the modules static_type and racing of casters/; run by tests/run with the runtime of ThreadSanitizer preloaded

The interpreter is not instrumented, so that its locks order nothing for ThreadSanitizer: what the threads share is made before they start.
"""

import array
import sys
import threading

THREADS, ROUNDS = 8, 300


def in_threads(work):
    """Runs work(i) in threads of which none ends before all have worked: the memory of an ended one would be used by another."""
    start, end, errors = threading.Barrier(THREADS), threading.Barrier(THREADS), []

    def run(i):
        start.wait()
        try:
            work(i)
        except BaseException as e:
            errors.append(e)
        end.wait()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def raised(error, call, *args, **keywords):
    try:
        call(*args, **keywords)
    except error as e:
        return type(e)
    raise AssertionError(f"no {error}")


class Returns:
    """Publishes `__dlpack__` only."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **keywords):
        return self.x.__dlpack__(**keywords)


def exchange(kind, source):
    """The first calls of the process, and many more; returns the exception classes that the threads saw."""
    classes = set()
    shared = [kind.from_dlpack(source), source]
    capsules = [shared[0].__dlpack__(max_version=(1, 3) if n % 2 else None) for n in range(ROUNDS)]
    taken = [[] for _ in range(THREADS)]
    types = [type(f"Type{i}", (Returns,), {}) for i in range(THREADS)]

    def work(i):
        own = types[i](shared[i % len(shared)])
        for n in range(ROUNDS):
            for x in (*shared, own):
                kind.from_dlpack(x)
            raised(TypeError, kind.from_dlpack, n)
            raised(TypeError, kind.from_dlpack, own, unknown=n)
            classes.add(raised(ValueError, shared[0].__dlpack__, copy=False, dl_device=[2, 0]))
            try:
                taken[i].append(kind.from_dlpack(capsules[n]))
            except ValueError:
                pass

    in_threads(work)
    assert sum(map(len, taken)) == len(capsules)
    return classes


def return_results(source):
    """ferry.Tensor, a library's from_dlpack and registered exceptions, also when they are created by the first calls."""
    import racing

    types = set()

    def work(i):
        for n in range(ROUNDS):
            types.update((type(racing.tensor(source)), type(racing.through_from_dlpack(source))))
            caught = raised(Exception, racing.fail if n % 2 else racing.fail_otherwise, (KeyError, OSError, ArithmeticError)[(i + n) % 3])
            assert caught in (KeyError, OSError, ArithmeticError)

    in_threads(work)
    assert [t.__name__ for t in types] == ["Tensor"], types


def main():
    sys.path.insert(0, sys.argv[1])
    import static_type

    source = static_type.HandWritten.from_buffer(memoryview(array.array("d", range(6))).cast("B").cast("d", (2, 3)))
    classes = exchange(static_type.ReadyMade, source)
    assert [c.__name__ for c in classes] == ["CopyNeededError"], classes
    return_results(source)
    assert not sys._is_gil_enabled(), "a module needs the GIL"
    print("all threads have ended")


if __name__ == "__main__":
    main()
