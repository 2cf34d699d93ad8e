"""What this machine and user permit, for tests that are skipped without it; see skip.hpp."""

import os


def is_possible(attempt):
    """Whether `attempt()` returns a true value in a child process, since it would affect this one."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if attempt() else 1)
        except OSError:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def lacks_other_users():
    """Whether this process cannot become another user: not root, no CAP_SETUID, or a user namespace without other users."""
    return not is_possible(lambda: os.seteuid(65534) is None)
