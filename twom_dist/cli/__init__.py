"""The command ``twom-dist``, which is also ``dask twom``."""

import click

from .failures import EPILOG, SentenceGroup
from .machine import doctor, scripts, tune
from .outputs import info, status
from .plan import plan
from .products import products

__all__ = ["main"]


@click.version_option(package_name="twom-dist", prog_name="twom-dist")
@click.group(
    name="twom",
    cls=SentenceGroup,
    commands=[*products, plan, status, info, doctor, tune, scripts],
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
)
def main() -> None:
    """Multiply large matrices in files, on int8 units and dask workers."""
