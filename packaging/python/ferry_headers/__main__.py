"""ferry-config: where ferry's headers and CMake files are, and its version."""

import argparse

from ferry_headers import __version__, get_cmake_dir, get_include


def main():
    parser = argparse.ArgumentParser(prog="ferry-config", description=__doc__)
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--includedir", action="store_const", dest="answer", const=get_include(), help="print the include folder")
    asked.add_argument("--cmakedir", action="store_const", dest="answer", const=get_cmake_dir(), help="print the folder for ferry_DIR")
    asked.add_argument("--version", action="store_const", dest="answer", const=__version__, help="print ferry's version")
    print(parser.parse_args().answer)


if __name__ == "__main__":
    main()
