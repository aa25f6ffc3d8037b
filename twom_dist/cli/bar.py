"""The progress bar: tiles and GFLOP/s on stderr."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def progress_bar(shown: bool | None = None, total: int | None = None) -> Iterator[Any]:
    """Yield a callback for the progress of a job, None where no bar is shown.

    By default it is shown where stderr is a terminal.
    """
    if not (sys.stderr.isatty() if shown is None else shown):
        yield None
        return
    from tqdm import tqdm

    with tqdm(total=total, unit="tile", file=sys.stderr, dynamic_ncols=True) as bar:

        def report(progress: Any) -> None:
            bar.total = progress.tiles
            bar.set_postfix_str(f"{progress.gflops:.1f} GFLOP/s", refresh=False)
            bar.update(progress.done - bar.n)

        yield report
