"""Options that the commands share, and what their values may look like."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from .. import integers
from ..api import gemm, updates
from ..errors import PlanError
from ..problem.problem import OPS, UPLOS


def read_matrix(text: str) -> str | tuple[int, ...]:
    """Read a shape such as 4096,2048 or 4096x2048; any other text is a path."""
    sizes = [size.strip() for size in text.replace("x", ",").split(",")]
    return (*map(int, sizes),) if all(map(str.isdecimal, sizes)) else text


def _read_accuracy(text: str) -> str | float:
    """Read a number; leave words to the library, which checks them."""
    try:
        return float(text)
    except ValueError:
        return text


def number(text: str) -> complex:
    """Read alpha or beta; click shows the name of this function."""
    try:
        return complex(text)
    except ValueError:
        problem = f"{text!r} is not a number such as 2 or 1-0.5j"
        raise PlanError(problem, "", "scalar") from None


COUNT = click.IntRange(1)
_OP = click.Choice(OPS)


def option(names: str, kind: Any, about: str, **more: Any) -> click.Option:
    """Make an option; those of a command are a list."""
    return click.Option(names.split(), type=kind, help=about, **more)


def flag(names: str, about: str, **more: Any) -> click.Option:
    """Make an option without a value."""
    return click.Option(names.split(), is_flag=True, help=about, **more)


def drop_none(**options: Any) -> dict[str, Any]:
    """Keep the options that were given: the library knows the defaults."""
    return {name: value for name, value in options.items() if value is not None}


def find_routine(name: str, exact: bool | None) -> Any:
    """Return the function of a routine, or of its product of integers."""
    plain = gemm if name == "gemm" else updates
    return getattr(integers if exact else plain, name)


class GroupedCommand(click.Command):
    """A command whose help shows its options in groups, by their titles."""

    def __init__(
        self, *args: Any, groups: Mapping[str, Sequence[click.Option]], **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self._groups = groups

    def format_options(self, ctx: click.Context, formatter: Any) -> None:
        """Write them; those that no group has come last."""
        grouped = [x for options in self._groups.values() for x in options]
        own = (x for x in self.get_params(ctx) if isinstance(x, click.Option))
        rest = [x for x in own if x not in grouped]
        for title, options in {**self._groups, "Other options": rest}.items():
            records = [y for x in options if (y := x.get_help_record(ctx)) is not None]
            with formatter.section(title):
                formatter.write_dl(records)


OP_OPTIONS = [
    option(
        "--op-a",
        _OP,
        "Use A as stored (N, default), transposed (T) or conjugate-transposed (C).",
    ),
    option("--op-b", _OP, "The same for B."),
]
UPDATE_OPTIONS = [
    option(
        "--op",
        _OP,
        "Use the matrices as stored (N, default), transposed (T: syrk, syr2k) or "
        "conjugate-transposed (C: herk, her2k).",
    ),
    option("--uplo", click.Choice(UPLOS), "Write all of C (default) or a triangle."),
]

# Those of `problem.options.Options`.
SHARED_OPTIONS = [
    option(
        "--accuracy",
        _read_accuracy,
        "componentwise (default), normwise, or a target such as 1e-12.",
        metavar="ACCURACY",
    ),
    option(
        "--num-moduli",
        int,
        "Number of moduli, instead of an accuracy: 16 are double precision.",
        metavar="N",
    ),
    option(
        "--method",
        str,
        "2m (default), blas (NumPy's or CuPy's product), auto (the faster of both), "
        "hybrid (more moduli); to compare: 3m, 4m.",
        metavar="[2m|hybrid|blas|auto|...]",
    ),
    option(
        "--engine",
        str,
        "Implementation [default: auto, which is cuda if all workers have a GPU].",
        metavar="[auto|cpu|cuda|reference]",
    ),
    flag(
        "--equilibrate/--no-equilibrate",
        "Move powers of two from A to B along k, or not [default: yes if accuracy is "
        "componentwise].",
        default=None,
    ),
]
SCALING_OPTION = option(
    "--diag",
    str,
    "File of a vector of k numbers, by which the columns of op(A) are multiplied.",
    metavar="W",
)
EXACT_OPTION = flag("--exact", "Multiply integers without any rounding.")
PAIRS_OPTION = flag(
    "--pairs",
    "The last axis, of length 2, holds real and imaginary parts of integers, which are "
    "multiplied as by --exact.",
    default=None,
)
DTYPE_OPTION = option(
    "--dtype",
    str,
    "Of the result of --exact or --pairs: complex64 or float32 halve its bytes.",
    metavar="DTYPE",
)
WORKER_OPTIONS = [
    option(
        "--threads-per-worker",
        COUNT,
        "Threads per worker process [default: 2 on a GPU, else a share of the cores].",
    ),
    option(
        "--memory-limit",
        str,
        "Memory limit of each worker, e.g. 4GiB [default: an equal share; but none in "
        "plans with --n-workers].",
    ),
]
CHUNKS_OPTION = option(
    "--chunks", COUNT, "Rows and columns of a tile [default: chosen]."
)
SCHEDULER_OPTIONS = [
    option("--scheduler", str, "Address of the dask scheduler to use."),
    option("--scheduler-file", str, "Use the dask scheduler that wrote this file."),
    option(
        "--timeout",
        click.FloatRange(0, 1e9, min_open=True),
        "Time limit for the scheduler, and for its first worker [default: 10].",
        default=10,
        metavar="SECONDS",
    ),
]
# Both are looked for among all arguments where a command ends.
DEBUG_OPTION = flag("--debug", "Show tracebacks and logs.", expose_value=False)
COMMON_OPTIONS = [
    flag("--json as_json", "Print one line of JSON on stdout, for errors as well."),
    DEBUG_OPTION,
]
