"""The seeds of the fuzz targets: an archive each, TARGET_seed_corpus.zip beside its source, as OSS-Fuzz takes them.

    seeds.py unpack FOLDER [TARGET...]    into FOLDER/TARGET, which then holds the seeds and nothing else; all targets by default
    seeds.py add TARGET FILE...           by the files' names, which must be new
    seeds.py repack TARGET FOLDER         the files of FOLDER instead of what is there
    seeds.py check                        whether each archive is as `repack` would write it, and each target has one

The same seeds give the same bytes: they are stored in the order of their names, uncompressed, without dates.
"""

import io
import pathlib
import shutil
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent


def archive(target):
    return HERE / f"{target}_seed_corpus.zip"


def targets():
    return sorted(path.stem for path in HERE.glob("*.cpp"))


def read(target):
    with zipfile.ZipFile(archive(target)) as file:
        return {name: file.read(name) for name in file.namelist()}


def to_bytes(seeds):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name in sorted(seeds):
            entry = zipfile.ZipInfo(name)  # 1980, which is zip's beginning
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            file.writestr(entry, seeds[name])
    return out.getvalue()


def write(target, seeds):
    archive(target).write_bytes(to_bytes(seeds))
    print(f"{target}: {len(seeds)} seeds")


def unpack(folder, *named):
    for target in named or targets():
        into = pathlib.Path(folder) / target
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir(parents=True)
        for name, data in read(target).items():
            (into / name).write_bytes(data)


def add(target, *files):
    seeds = read(target) if archive(target).exists() else {}
    for path in map(pathlib.Path, files):
        if path.name in seeds:
            sys.exit(f"{target} has a seed {path.name} already")
        seeds[path.name] = path.read_bytes()
    write(target, seeds)


def repack(target, folder):
    write(target, {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()})


def check():
    wrong = [path.name for path in HERE.glob("*_seed_corpus.zip") if path.name.removesuffix("_seed_corpus.zip") not in targets()]
    for target in targets():
        if not archive(target).exists() or archive(target).read_bytes() != to_bytes(read(target)):
            wrong.append(archive(target).name)
    if wrong:
        sys.exit(f"missing, of no target, or not as `seeds.py repack` writes them: {' '.join(wrong)}")


def main():
    commands = {"unpack": unpack, "add": add, "repack": repack, "check": check}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
