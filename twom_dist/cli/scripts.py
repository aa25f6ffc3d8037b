"""``twom-dist scripts``: write the launch scripts of batch systems."""

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from ..errors import StoreError
from .failures import SentenceCommand, refusing
from .options import debug_option

_PACKAGE = Path(__file__).parents[1]
# A wheel carries the folder `cluster` of the repository under the first name.
_PLACES = (_PACKAGE / "scripts", _PACKAGE.parent / "cluster")


@click.command(
    cls=SentenceCommand, short_help="Write launch scripts for Slurm, PBS and LSF."
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace files in DIR.")
@debug_option
def scripts(folder: Path, overwrite: bool, debug: bool) -> None:
    """Write the scripts that run the commands in a batch job to the folder DIR.

    They start workers on all nodes of a Slurm, PBS or LSF job, or on one machine with
    GPUs, run one command on them, and stop them. DIR is made if it does not exist.
    """
    with refusing():
        names = write_scripts(folder, overwrite)
    click.echo(f"{folder}: {', '.join(names)}")
    click.echo(f"Read {folder / 'README.md'} first.")


def write_scripts(folder: Path, overwrite: bool = False) -> list[str]:
    """Copy the scripts into a folder, all or none, and return their names."""
    source = next(filter(Path.is_dir, _PLACES))
    names = sorted(path.name for path in source.iterdir() if path.is_file())
    for path in map(folder.joinpath, names):
        if os.path.lexists(path) and not (overwrite and path.is_file()):
            raise StoreError(
                f"{str(path)!r} exists",
                "Name another folder, or replace its files with --overwrite",
                "scripts-exist",
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder) as draft:
            for name in names:
                shutil.copy(source / name, draft)
            for name in names:
                Path(draft, name).replace(folder / name)
    except OSError as error:
        problem = f"cannot write to {str(folder)!r}: {error.strerror}"
        remedy = "Name a folder that you can write to"
        raise StoreError(problem, remedy, "scripts-not-written") from error
    return names
