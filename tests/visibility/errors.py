"""A shared object catches the ferry::error of another one that it opened, though both are built with -fvisibility=hidden.

usage: errors.py CATCHER THROWER
"""

import ctypes
import sys


def main():
    catcher, thrower = sys.argv[1:3]
    # The types of one object are those of another only where the loader may join them (RTLD_GLOBAL).
    if ctypes.CDLL(catcher, mode=ctypes.RTLD_GLOBAL).catch_error(thrower.encode()) != 0:
        sys.exit("the error of another shared object was not caught as ferry::error: its type has hidden visibility")


if __name__ == "__main__":
    main()
