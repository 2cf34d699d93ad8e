"""Cases of stream ordering, which require a CUDA device. Gates that hold a stream closed show a missing wait in every run.

A gate is a host function that keeps a stream closed until it is opened. What the producer has queued is behind the gate; a stream
that waits for it is busy for as long as the gate is closed, and a stream that does not is idle.
"""

import contextlib
import ctypes
import threading
import time
from ctypes import byref, c_int, c_void_p

from .case import Broken, NotApplicable, case, export, refused_export, require, told
from .dlpack import Offer, elements_of, struct_of

CLOSED_AT_MOST = 60.0  # seconds; ends a call that waits for the gate


def driver():
    """Returns the CUDA driver; raises NotApplicable without one."""
    try:
        found = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise NotApplicable("there is no CUDA driver") from error
    count = c_int()
    if found.cuInit(0) or found.cuDeviceGetCount(byref(count)) or count.value == 0:
        raise NotApplicable("there is no CUDA device")
    current = c_void_p()
    found.cuCtxGetCurrent(byref(current))
    if not current.value:  # the primary context, which the library uses
        found.cuDevicePrimaryCtxRetain(byref(current), 0)
        status = found.cuCtxSetCurrent(current)
        assert status == 0, f"cuCtxSetCurrent returned {status}"
    return found


def new_stream(cuda):
    stream = c_void_p()
    status = cuda.cuStreamCreate(byref(stream), 1)  # non-blocking: not ordered with the legacy default stream
    assert status == 0, f"cuStreamCreate returned {status}"
    return stream.value


def is_busy(cuda, stream):
    return cuda.cuStreamQuery(c_void_p(stream)) == 600  # CUDA_ERROR_NOT_READY


@contextlib.contextmanager
def gate(cuda, stream):
    """Blocks a stream during a `with` block; yields an event that is set if a wait made it open earlier."""
    libc = ctypes.CDLL(None)
    semaphore = ctypes.create_string_buffer(64)
    libc.sem_init(semaphore, 0, 0)
    assert cuda.cuLaunchHostFunc(c_void_p(stream), ctypes.cast(libc.sem_wait, c_void_p), semaphore) == 0
    opened = threading.Event()

    def open_it():
        if not opened.is_set():
            opened.set()
            libc.sem_post(semaphore)

    timer = threading.Timer(CLOSED_AT_MOST, open_it)
    timer.start()
    try:
        yield opened
    finally:
        timer.cancel()
        open_it()
        cuda.cuStreamSynchronize(c_void_p(stream))


def idle_before(cuda, one, other):
    """Waits until a stream is idle; returns whether the other one is still busy then."""
    while is_busy(cuda, one):
        pass
    return is_busy(cuda, other)


def hold(cuda, stream, seconds):
    """Blocks a stream for a limited time, without another thread: the caller may hold the GIL during a wait."""
    libc = ctypes.CDLL(None)
    assert cuda.cuLaunchHostFunc(c_void_p(stream), ctypes.cast(libc.usleep, c_void_p), c_void_p(int(seconds * 1e6))) == 0


def on_a_device(library):
    if library.device[0] not in (2, 10):
        raise NotApplicable("its arrays are in host memory, which has no streams")
    try:
        library.on
    except AttributeError:
        raise NotApplicable("the library does not support the choice of a stream") from None
    return driver()


def array_on_a_stream(library, cuda):
    """A stream of the producer's own, and an array that is ready there. What the library loads and compiles for work is there too:
    later it would wait for what holds the stream."""
    mine = new_stream(cuda)
    with library.on(mine):
        x = library.array()
        library.work(library.array())
    cuda.cuStreamSynchronize(c_void_p(mine))
    return mine, x


def waits_for_the_producer(library, cuda, theirs, **arguments):
    """Returns whether a stream has pending work after an export while the producer's stream is blocked."""
    mine, x = array_on_a_stream(library, cuda)
    with gate(cuda, mine) as opened, library.on(mine):
        library.work(x)
        capsule = export(library, x, max_version=(1, 0), **arguments)  # noqa: F841: a release would wait for the gate
        busy = is_busy(cuda, theirs)
        require(not opened.is_set(), "__dlpack__ blocked until the producer's work was done")
    return busy


@case("R43", "handshake", 'Python specification: "the producer must synchronize or wait on the stream when necessary"')
def the_consumers_stream_waits_for_the_producers_work(library):
    cuda = on_a_device(library)
    theirs = new_stream(cuda)
    busy = waits_for_the_producer(library, cuda, theirs, stream=theirs)
    require(busy, "the consumer's stream is idle while work of the producer is blocked")


@case("R43", "handshake", 'Python specification: "The consumer must pass the stream it will use to the producer"')
def a_consumer_passes_the_stream_that_it_uses(library):
    cuda = on_a_device(library)
    mine = new_stream(cuda)
    with library.on(mine):
        x = library.array()

        class Lends(Offer):
            def __dlpack__(self, **keywords):
                self.asked.append(keywords)
                return x.__dlpack__(**{k: v for k, v in keywords.items() if k != "stream"})

            def __dlpack_device__(self):
                return x.__dlpack_device__()

        offered = Lends()
        library.take(offered)
    passed = [asked.get("stream") for asked in offered.asked]
    require(mine in passed, f"its current stream is {mine:#x}, but it passed stream={passed}")


@case("R43", "handshake", 'array API: "the copy must be performed over stream"')
def a_copy_is_ready_on_the_consumers_stream(library):
    """The copy of a GiB takes longer than the question whether a stream is idle: the consumer's must not be while the copy runs."""
    cuda = on_a_device(library)
    mine, theirs = new_stream(cuda), new_stream(cuda)
    with library.on(mine):
        x = library.array("int32", (1 << 28,))
        try:
            x.__dlpack__(max_version=(1, 0), copy=True)  # its memory is cached, and what it compiles is loaded
        except Exception as error:
            raise NotApplicable(f"it makes no copies: {told(error)}") from error
        cuda.cuCtxSynchronize()
        with gate(cuda, mine) as opened:
            capsule = export(library, x, max_version=(1, 0), stream=theirs, copy=True)  # noqa: F841: a release would wait
            require(not opened.is_set(), "__dlpack__ blocked until the producer's work was done")
        while_copying = idle_before(cuda, theirs, mine)
    cuda.cuCtxSynchronize()
    require(not while_copying, "the consumer's stream is idle while the copy runs on the producer's stream")


@case("R44", "handshake", 'array API: "If stream is -1, the value may be used by the consumer to signal producer must not perform any synchronization."')
def minus_one_does_not_synchronise(library):
    cuda = on_a_device(library)
    theirs = new_stream(cuda)
    busy = waits_for_the_producer(library, cuda, theirs, stream=-1)
    require(not busy, "another stream waits for the producer after stream=-1")


@case("R44", "handshake", 'array API: "0 is disallowed due to its ambiguity"', "should")
def stream_zero_is_refused(library):
    on_a_device(library)
    if library.device[0] == 10:
        raise NotApplicable("0 is the default stream of ROCm")
    refused_export(library, library.array(), max_version=(1, 0), stream=0)


@case("R44", "handshake", "array API: 1 is the legacy default stream, 2 the per-thread one; support is optional", "should")
def default_streams_have_the_right_numbers(library):
    on_a_device(library)
    for stream in (None, 1, 2):
        export(library, library.array(), max_version=(1, 0), stream=stream)


@case("R44", "handshake", 'array API: "The pointer must be an integer larger than or equal to -1"', "should")
def negative_streams_are_refused(library):
    on_a_device(library)
    refused_export(library, library.array(), max_version=(1, 0), stream=-2)


@case("R48", "handshake", 'array API: "when kDLCPU is in use, stream must be None and a synchronization must be performed to ensure data safety"')
def data_on_the_host_is_ready(library):
    cuda = on_a_device(library)
    mine, x = array_on_a_stream(library, cuda)
    with library.on(mine):
        hold(cuda, mine, 0.3)
        library.work(x)
        start = time.monotonic()
        try:
            capsule = x.__dlpack__(max_version=(1, 0), dl_device=(1, 0))
        except BufferError as error:
            raise Broken(f"it cannot copy to the host: {told(error)}") from error
        waited = time.monotonic() - start
        found = elements_of(struct_of(capsule).tensor, library.plain[0])
    expected = library.worked(x)
    require(found == expected, f"after {waited:.3f} s it returned {found!r}, but the array is {expected!r}")
