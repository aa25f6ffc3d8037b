"""``twom-dist gemm``, ``herk`` and the others: files in, a file out."""

import os
import shlex
from contextlib import ExitStack
from typing import Any

import click

from .. import jobs
from ..api.routine import ask
from ..errors import ArgumentError
from ..plan.show import name_count
from ..run.advice import advise_chunks, advise_method, advise_op
from ..tiles.routine import ROUTINES, Routine
from . import options as opt
from .failures import ARGUMENTS, EPILOG, begin_work, say, show, spell
from .options import drop_none, find_routine, flag, option

_HELP = """Compute C = {formula} from matrices in files.

Matrices are .zarr, .npy, .npz or HDF5 files, or members (data.h5::A).{triangle}
An output that exists is unchanged until the new one is complete. Everything is checked
before any work. The same command, without --overwrite, continues a stopped job.

\b
    twom-dist {name} {files} -o C.zarr
"""
_TRIANGLE = """
Only one triangle of C is computed, and only that triangle of C0 is read."""

_OUTPUT = option(
    "-o --output",
    str,
    "File to write, or its member: data.h5::C [default member: matrix].",
    required=True,
    metavar="C",
)
_SUM_OPTIONS = [
    option("--c", str, "File of the matrix to add, times --beta.", metavar="C0"),
    option("--alpha", opt.number, "Factor of the product [default: 1]."),
    option("--beta", opt.number, "Factor of C0; required with --c."),
]
_FILE_OPTIONS = [
    flag("--overwrite", "Replace an existing output, and start anew."),
    flag("--refuse-missing", "Refuse inputs that lack chunks."),
]
_WORKER_OPTIONS = [
    option(
        "--n-workers",
        click.IntRange(0),
        "Worker processes to start; 0 uses threads of this process [default: one for "
        "each GPU, or as many as suit the cores and the memory].",
    ),
    *opt.WORKER_OPTIONS,
    flag(
        "--insecure",
        "Do not encrypt: every user of this machine can then run programs as you.",
    ),
    opt.CHUNKS_OPTION,
]
_RUN_OPTIONS = [
    flag("--dashboard", "Serve dask's dashboard on port 8787."),
    flag("--verbose", "Say how accurate the result is, and why."),
    flag("--quiet", "Print nothing but errors and what --json prints."),
    *opt.COMMON_OPTIONS,
]


def _make_command(routine: Routine) -> click.Command:
    letters = ["a", "b"][: routine.matrices]
    ops = opt.UPDATE_OPTIONS if routine.triangle else opt.OP_OPTIONS
    more = [] if routine.sums else [opt.SCALING_OPTION]
    of_call = [*_SUM_OPTIONS, *ops, *opt.SHARED_OPTIONS, *more, opt.PAIRS_OPTION]
    of_call.append(opt.DTYPE_OPTION)

    def run(
        a: str, output: str, exact: bool, b: str | None = None, **options: Any
    ) -> None:
        asked = drop_none(**{x.name: options.pop(x.name) for x in of_call})
        of_job = {x.name: options.pop(x.name) for x in _FILE_OPTIONS}
        if "c" in asked:
            asked["C"] = asked.pop("c")
        matrices = (a,) if b is None else (a, b)
        exact = exact or "pairs" in asked
        if "dtype" in asked and not exact:
            remedy = "Add one of these, or leave dtype out"
            problem = "--dtype is for --exact and --pairs"
            raise ArgumentError(problem, remedy, "exact-dtype")
        function = find_routine(routine.name, exact)
        call = ask(function, matrices, asked)
        _run_job(jobs.open_job(call, output, command=_retype(), **of_job), **options)

    formula = f"{routine.formula}0"
    groups = {
        "Output": [_OUTPUT, *_FILE_OPTIONS],
        "Product": [*_SUM_OPTIONS, *ops, *more],
        "Accuracy": [*opt.SHARED_OPTIONS, opt.EXACT_OPTION, *of_call[-2:]],
        "Workers": [*_WORKER_OPTIONS, *opt.SCHEDULER_OPTIONS],
    }
    options = [x for own in groups.values() for x in own]
    return opt.GroupedCommand(
        routine.name,
        groups=groups,
        params=[*(click.Argument([x]) for x in letters), *options, *_RUN_OPTIONS],
        callback=run,
        short_help=f"Compute {formula}.",
        help=_HELP.format(
            formula=formula,
            triangle=_TRIANGLE if routine.triangle else "",
            name=routine.name,
            files=" ".join(f"{x.upper()}.zarr" for x in letters),
        ),
        epilog=EPILOG,
    )


def _retype() -> str:
    """Return the command as it was typed, without scheduler and a start anew."""
    typed = iter(click.get_current_context().meta[ARGUMENTS])
    of_scheduler = {x for option in opt.SCHEDULER_OPTIONS for x in option.opts}
    words = ["twom-dist"]
    for word in typed:
        name, has_value, _ = word.partition("=")
        if name not in of_scheduler | {"--overwrite"}:
            words.append(word)
        elif name in of_scheduler and not has_value:
            next(typed, None)
    return f"cd {shlex.quote(os.getcwd())} && {shlex.join(words)}"


def _run_job(
    job: Any,
    *,
    chunks: int | None,
    quiet: bool,
    verbose: bool,
    as_json: bool,
    **options: Any,
) -> None:
    from .progress import Bar
    from .workers import find_workers

    with ExitStack() as stack:
        place = stack.enter_context(jobs.claim(job))
        client, cluster = stack.enter_context(find_workers(job.engine, **options))
        if not quiet:
            say(*advise_op(job))  # before the output is refused for its size
        own = {"claimed": place, "client": client, "tell": lambda x: say(spell(x))}
        run = stack.enter_context(jobs.begin(job, cluster, chunks, **own))
        report, enter = None, lambda _: None
        if not quiet:
            total, done = run.layout.num_computed, len(run.list_finished())
            here = name_count(cluster.threads, "thread")
            if client is not None:
                here = name_count(cluster.workers, "worker")
            start = f"begins on {here}, {name_count(total, 'tile')} to compute"
            if done:
                sides = " x ".join(map(str, run.layout.tile_shape[:2]))
                start = f"continues on {here}, {done} of {total} tiles of {sides} kept"
            kept = ", and the check of the data is kept" if run.look else ""
            say(start + kept)
            advice = [*advise_method(run.job), *advise_chunks(run.layout)]
            say(*map(spell, advice))
            bar = stack.enter_context(Bar(total, done))
            report, enter = bar.report, bar.enter
        summary = jobs.compute(run, client, report, begin_work(), enter)
    if as_json:
        show(summary.to_json(), done=True)
    elif not quiet:
        told = f"{summary}\n{spell(str(summary.explanation))}" if verbose else summary
        show(told, done=True)


products = [_make_command(routine) for routine in ROUTINES.values()]
