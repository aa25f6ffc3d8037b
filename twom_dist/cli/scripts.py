"""``twom-dist scripts``: write the launch scripts of batch systems."""

import json
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from ..errors import StoreError
from .failures import show
from .options import COMMON_OPTIONS, flag

_PACKAGE = Path(__file__).parents[1]
# A wheel carries the folder `cluster` of the repository under the first name.
_PLACES = (_PACKAGE / "scripts", _PACKAGE.parent / "cluster")


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
    names = write_scripts(folder, overwrite)
    if as_json:
        show(json.dumps({"folder": str(folder), "files": names}))
        return
    show(f"{folder}: {', '.join(names)}\nRead {folder / 'README.md'} first.")


def write_scripts(folder: Path, overwrite: bool) -> list[str]:
    """Copy the scripts into a folder, and return their names."""
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
    return names
