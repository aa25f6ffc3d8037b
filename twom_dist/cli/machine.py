"""``twom-dist doctor``, ``tune`` and ``scripts``, which concern this machine."""

import json
import os
import shutil
from contextlib import ExitStack
from dataclasses import asdict
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from ..api.crossovers import tune as measure
from ..errors import StoreError, TwomError
from ..kernels.registry import ENGINES
from ..typing import EngineName
from ..workers.diagnosis import Finding, Report
from ..workers.diagnosis import doctor as examine
from . import workers
from .failures import DONE, FAILED, show
from .options import COMMON_OPTIONS, SCHEDULER_OPTIONS, flag, option

_PACKAGE = Path(__file__).parents[1]
# A wheel carries the folder `cluster` of the repository under the first name.
_PLACES = (_PACKAGE / "scripts", _PACKAGE.parent / "cluster")


@click.command(
    params=[*SCHEDULER_OPTIONS, *COMMON_OPTIONS],
    short_help="Check this installation, its GPU and its workers.",
)
def doctor(as_json: bool, **scheduler: Any) -> None:
    """Check the engines, the GPU, dask-cuda and the workers of a scheduler.

    Prints one line for each finding: ok, warning or failure, what was found, and what
    to do about it. The exit code is 1 if there is a failure.
    """
    client, unreachable = None, []
    with ExitStack() as stack:
        try:
            client = stack.enter_context(workers.connect(**scheduler))
        except TwomError as error:
            if error.code not in ("no-scheduler", "no-workers"):
                raise
            found = Finding("workers", "failure", error.problem, error.remedy)
            unreachable = [found]
        report = Report((*examine(client).findings, *unreachable))
    show(json.dumps({"ok": report.ok, **asdict(report)}) if as_json else report)
    click.get_current_context().exit(DONE if report.ok else FAILED)


@click.command(
    params=[
        option(
            "--engine",
            click.Choice([x for x in ENGINES if x != "reference"]),
            "What to measure: NumPy arrays (cpu), CuPy arrays (cuda), or the latter if "
            "there is a GPU.",
            default="auto",
            show_default=True,
        ),
        *COMMON_OPTIONS,
    ],
    short_help="Measure from which size on int8 is faster here.",
)
def tune(engine: EngineName, as_json: bool) -> None:
    """Measure from which size on int8 products are faster on this machine.

    It takes 12 seconds, or more on a slow machine, in which nothing else should run;
    kernels that were never used are compiled before, for up to a minute. The sizes are
    kept in ~/.cache/twom-dist, where method "auto" finds them.
    """
    found = measure(engine)
    sizes = {x: None if y == inf else y for x, y in found.sizes.items()}
    show(json.dumps({**asdict(found), "sizes": sizes}) if as_json else found)


@click.command(
    params=[
        click.Argument(["folder"], metavar="DIR", type=click.Path(path_type=Path)),
        flag("--overwrite", "Replace files in DIR."),
        *COMMON_OPTIONS,
    ],
    short_help="Write launch scripts for Slurm, PBS and LSF.",
)
def scripts(folder: Path, overwrite: bool, as_json: bool) -> None:
    """Write the scripts that run the commands in a batch job to the folder DIR.

    They start workers on all nodes of a Slurm, PBS or LSF job, or on one machine with
    GPUs, run one command on them, and stop them. DIR is made if it does not exist.
    """
    source = next(filter(Path.is_dir, _PLACES))
    names = sorted(path.name for path in source.iterdir() if path.is_file())
    for path in map(folder.joinpath, names):
        if os.path.lexists(path) and not (overwrite and path.is_file()):
            remedy = "Name another folder, or replace its files with --overwrite"
            raise StoreError(f"{str(path)!r} exists", remedy, "scripts-exist")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder, prefix=".twom-") as beside:
            # A full disk shows here, before anything is replaced.
            for name in names:
                shutil.copy(source / name, beside)
            for name in names:
                os.replace(Path(beside, name), folder / name)
    except OSError as error:
        problem = f"cannot write to {str(folder)!r}: {error.strerror}"
        remedy = "Name a folder that you can write to"
        raise StoreError(problem, remedy, "scripts-not-written") from error
    if as_json:
        show(json.dumps({"folder": str(folder), "files": names}))
        return
    show(f"{folder}: {', '.join(names)}\nRead {folder / 'README.md'} first.")
