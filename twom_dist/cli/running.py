"""Running a job: its workers, how far it is, and its summary."""

from contextlib import ExitStack
from typing import Any

from .failures import begin_work
from .progress import Bar
from .streams import say, show


def run_job(
    job: Any,
    *,
    chunks: int | None,
    quiet: bool,
    verbose: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Run a job on workers that are there, or start some, and print its summary."""
    from ..jobs import begin, claim, compute
    from ..run.advice import advise_method, advise_op
    from .workers import find_workers

    with ExitStack() as stack:
        place = stack.enter_context(claim(job))
        client, cluster = stack.enter_context(find_workers(job.engine, **options))
        if not quiet:
            # Before the output is refused for its size.
            _say_all(advise_op(job))
        running = begin(job, cluster, chunks, claimed=place, client=client, tell=say)
        run = stack.enter_context(running)
        report, enter = None, lambda _: None
        if not quiet:
            total, done = run.layout.num_computed, len(run.finished())
            say(_tell_start(total, done, cluster, client) + _tell_look(run))
            _say_all(advise_method(run.job))
            bar = stack.enter_context(Bar(total, done))
            report, enter = bar.report, bar.enter
        summary = compute(run, client, report, begin_work(), enter)
    if as_json:
        show(summary.to_json(), done=True)
    elif not quiet:
        text = f"{summary}\n{summary.explanation}" if verbose else summary
        show(text, done=True)


def _say_all(sentences: list[str]) -> None:
    for sentence in sentences:
        say(sentence)


def _tell_start(total: int, done: int, cluster: Any, client: Any) -> str:
    """Say where a job begins or continues, and with what."""
    from ..plan.show import name_count

    count, name = cluster.workers, "worker"
    if client is None:
        count, name = cluster.threads, "thread"
    on = f"on {name_count(count, name)}"
    if done:
        return f"continues {on}, with {done} of {total} tiles kept"
    return f"begins {on}, {name_count(total, 'tile')} to compute"


def _tell_look(run: Any) -> str:
    return ", and the look at the inputs is kept" if run.look is not None else ""
