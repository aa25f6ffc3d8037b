"""The command ``twom-dist``, which is also ``dask twom``."""

import click

from .clean import clean
from .doctor import doctor
from .failures import EPILOG, SentenceGroup
from .info import info
from .plan import plan
from .products import products
from .scripts import scripts

__all__ = ["main"]


@click.group(
    name="twom",
    cls=SentenceGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
)
@click.version_option(package_name="twom-dist", prog_name="twom-dist")
def main() -> None:
    """Multiply large matrices through int8 products, on dask workers."""


for _command in (*products, plan, info, doctor, clean, scripts):
    main.add_command(_command)
