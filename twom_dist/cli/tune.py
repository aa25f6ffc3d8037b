"""``twom-dist tune``: sizes from which on int8 is faster here."""

import json
from dataclasses import asdict
from math import inf

import click

from ..kernels.registry import ENGINES
from ..typing import EngineName
from .failures import EPILOG, show
from .options import COMMON_OPTIONS

_CHOICES = click.Choice([x for x in ENGINES if x != "reference"])


@click.command(
    params=[
        click.Option(
            ["--engine"],
            type=_CHOICES,
            default="auto",
            help="What to measure: NumPy arrays (cpu), CuPy arrays (cuda), or the "
            "latter if there is a GPU.",
            show_default=True,
        ),
        *COMMON_OPTIONS,
    ],
    short_help="Measure from which size on int8 is faster here.",
    epilog=EPILOG,
)
def tune(engine: EngineName, as_json: bool) -> None:
    """Measure from which size on products through int8 are faster on this machine.

    Multiplies for 12 seconds, or more on a slow machine, in which nothing else should
    run; kernels that were never used are compiled before, for up to a minute. The sizes
    are kept in ~/.cache/twom-dist, where method "auto" finds them.
    """
    from ..api.crossovers import tune as measure

    found = measure(engine)
    sizes = {x: None if y == inf else y for x, y in found.sizes.items()}
    show(json.dumps({**asdict(found), "sizes": sizes}) if as_json else found)
