"""Change one line at a time, and see that the tests of its room notice.

    python -m tests.mutants [ROOM]... [--processes N]
    python -m tests.mutants ROOM... --tests

A room is a file of this folder: the tests of that room, nearest first, and mutants,
each with the reason why it matters. One that no test notices is a survivor; one whose
results are right all the same says so (`harmless`) and is expected to survive. With
--tests it is the room's tests that run, on the sources as they are.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from queue import SimpleQueue

from tests.support.places import ROOT

FOLDER = Path(__file__).parent
# A mutant that does not end is noticed as well.
SECONDS = 600
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", ".*_cache", "_build", ".hypothesis")
PYTEST = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not nightly")


@dataclass(frozen=True)
class Mutant:
    """A change of one line: `old`, which stands in the file once, becomes `new`.

    `why` says what would go wrong, or `harmless` why results are right all the same.
    """

    room: str
    file: str
    old: str
    new: str
    why: str
    harmless: str = ""

    def __str__(self):
        return f"{self.file}: {self.old.strip()} -> {self.new.strip()}: {self.why}"


@dataclass(frozen=True)
class Room:
    name: str
    tests: tuple[str, ...]
    mutants: tuple[Mutant, ...]


def read_rooms(names=()):
    paths = [FOLDER / f"{x}.toml" for x in names] or sorted(FOLDER.glob("*.toml"))
    rooms = []
    for path in paths:
        found = tomllib.loads(path.read_text("utf-8"))
        mutants = tuple(Mutant(path.stem, **x) for x in found["mutants"])
        rooms.append(Room(path.stem, tuple(found["tests"]), mutants))
    return rooms


class Copy:
    """A copy of the repository, in which one mutant at a time is tried."""

    def __init__(self, folder):
        # Numba's index goes by the times of files: nothing is compiled again.
        shutil.copytree(ROOT, folder, ignore=LEFT_OUT, symlinks=True)
        self._folder, self._clock = folder, count(2**31)

    def passes(self, tests):
        own = {"PYTHONPATH": str(self._folder), "OPENBLAS_NUM_THREADS": "1"}
        try:
            done = subprocess.run(
                [sys.executable, *PYTEST, *tests],
                cwd=self._folder,
                env=os.environ | own,
                timeout=SECONDS,
                capture_output=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    @contextmanager
    def changed(self, mutant):
        path = self._folder / mutant.file
        text, times = path.read_text("utf-8"), path.stat()
        path.write_text(text.replace(mutant.old, mutant.new), "utf-8")
        # Compiled files go by seconds, of which two mutants may share one.
        os.utime(path, (next(self._clock),) * 2)
        try:
            yield
        finally:
            path.write_text(text, "utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def try_rooms(rooms, processes):
    """Try all mutants, and return those that no test notices."""
    copies = SimpleQueue()
    survivors = []
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as top,
        ThreadPoolExecutor(processes) as pool,
    ):
        for i in range(processes):
            copies.put(Copy(Path(top) / str(i)))

        def survives(room, mutant):
            copy = copies.get()
            try:
                with copy.changed(mutant) if mutant else nullcontext():
                    return copy.passes(room.tests)
            finally:
                copies.put(copy)

        for room, sound in [(x, pool.submit(survives, x, None)) for x in rooms]:
            if not sound.result():
                raise SystemExit(f"the tests of {room.name} fail without any mutant")
        tried = [(y, pool.submit(survives, x, y)) for x in rooms for y in x.mutants]
        for mutant, result in tried:
            if result.result():
                survivors.append(mutant)
                kind = "harmless" if mutant.harmless else "SURVIVES"
                print(f"{kind}: {mutant}", flush=True)
    for room in rooms:
        own = [x for x in room.mutants if x in survivors]
        print(f"{room.name}: {len(room.mutants) - len(own)} of {len(room.mutants)} die")
    return survivors


def main():
    """Try the mutants of the rooms that are named, and fail if one survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rooms", nargs="*")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--tests", action="store_true")
    args = parser.parse_args()
    if args.tests:
        tests = dict.fromkeys(x for room in read_rooms(args.rooms) for x in room.tests)
        raise SystemExit(subprocess.call([sys.executable, *PYTEST, *tests], cwd=ROOT))
    survivors = try_rooms(read_rooms(args.rooms), args.processes)
    raise SystemExit(any(not x.harmless for x in survivors))


if __name__ == "__main__":
    main()
