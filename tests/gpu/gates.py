"""Gates: kernels that block a stream until the host opens them, and streams to block."""

import threading
import time

import pytest

import minitensor as mt

if not mt.cuda_available():
    pytest.skip("no CUDA device: nothing of this file has been tested", allow_module_level=True)

cp = pytest.importorskip("cupy")
np = pytest.importorskip("numpy")

LONGEST = 120  # seconds: then a gate opens itself, so that a test that waits for it fails instead of hanging
_kernel = cp.RawKernel(
    r"""extern "C" __global__ void gate(volatile int* open, unsigned long long longest) {
        unsigned long long start, now;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
        do {
            __nanosleep(1000);
            asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        } while (*open == 0 && now - start < longest);
    }""",
    "gate",
)


class Gate:
    """Closed from the beginning on the stream of that handle; everything queued there later waits."""

    def __init__(self, handle):
        self._memory = cp.cuda.alloc_pinned_memory(64)
        self._flag = np.frombuffer(self._memory, np.int32, 1)
        self._flag[0] = 0
        self.stream = cp.cuda.ExternalStream(handle)
        self._began = time.monotonic()
        with self.stream:
            _kernel((1,), (1,), (np.uint64(self._memory.ptr), np.uint64(LONGEST * 10**9)))

    @property
    def is_closed(self):
        assert time.monotonic() - self._began < LONGEST - 5, "something waited for the gate"
        return self._flag[0] == 0 and not self.stream.done

    def open(self):
        self._flag[0] = 1

    def open_soon(self, seconds=0.2):
        """Another thread opens it, which takes the GIL."""
        threading.Timer(seconds, self.open).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open()
        self.stream.synchronize()


def own_stream():
    return cp.cuda.Stream(non_blocking=True)


def warm_up():
    """Whatever is loaded or allocated once must not meet a closed gate."""
    s = own_stream()
    with Gate(s.ptr):
        pass
    for device in ("cuda", "cuda_host", "cuda_managed"):
        for dtype in ("float32", "int64", "uint8", "complex128"):
            with mt.stream(s):
                t = mt.zeros(6000, dtype, device)
                t.fill(1)
                mt.zeros((50, 60), dtype, device)
                t.copy("cuda"), t.copy("cuda_host"), t[::2].copy("cuda").tolist()
    with s:
        x = cp.zeros((64, 64), "float32")
        x.fill(3)
        x += 1
        cp.asnumpy(x)
    s.synchronize()


warm_up()
