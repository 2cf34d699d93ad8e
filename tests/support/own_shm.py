"""Mounts a private /dev/shm for this process and its children. Import it first, before the process has threads.

Programs that share memory remove the segments of terminated processes there, and would interfere with each other. If the kernel does
not support it, the programs run one after another: each holds a lock until it ends.
"""

import ctypes
import os
import sys

import skip

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE = 2, 4, 16384, 1 << 18


def _write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _moved():
    """Moves this process into a mount namespace with another /dev/shm; returns whether it succeeded."""
    libc = ctypes.CDLL(None)
    user, group = os.getuid(), os.getgid()
    try:
        if os.geteuid() != 0 or libc.unshare(CLONE_NEWNS) != 0:
            if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0:
                return False
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/uid_map", f"{user} {user} 1")
            _write("/proc/self/gid_map", f"{group} {group} 1")
    except OSError:
        return False
    return (
        libc.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None) == 0
        and libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", ctypes.c_ulong(MS_NOSUID | MS_NODEV), b"mode=1777") == 0
    )


def _take_turns():
    import fcntl

    path = os.path.join(os.environ.get("TMPDIR") or "/tmp", f"ferry-tests-{os.getuid()}.lock")
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"waiting for another test program, which holds {path}", file=sys.stderr, flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock  # stays open until the process ends


LOCK = None if sys.platform == "win32" or (skip.is_possible(_moved) and _moved()) else _take_turns()
