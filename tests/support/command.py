"""Running the command in a folder of matrices, and what it leaves there."""

import logging
import os
import signal

import click
import numpy as np

from tests.support import stored
from tests.support.places import ROOT
from twom_dist.cli import main
from twom_dist.store import open_matrix

M, K, N = 37, 29, 41
# Of a process that imports what this one does.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def make(rows, columns, seed, dtype="c16"):
    parts = np.random.default_rng(seed).standard_normal((2, rows, columns))
    values = parts[0] + 1j * parts[1]
    return values.astype(dtype) if dtype[0] == "c" else parts[0].astype(dtype)


def save(path, values):
    stored.save(path, values, tuple(min(16, max(1, n)) for n in values.shape))


def save_operands(m, k, n):
    """Store A.zarr, B.npy and C0.h5 of a product in this folder, and return them."""
    shapes = {"A.zarr": (m, k), "B.npy": (k, n), "C0.h5": (m, n)}
    matrices = [make(*shape, seed) for seed, shape in enumerate(shapes.values())]
    for name, values in zip(shapes, matrices, strict=True):
        save(name, values)
    return matrices


def read(path):
    return open_matrix(path)[:, :]


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def visible(folder):
    """Read every file of a folder but what is unfinished."""
    return {x: y for x, y in contents(folder).items() if not x.startswith(".")}


class CommandLine:
    """The command ``twom-dist``, in this process."""

    def __init__(self, capsys):
        self._capsys = capsys
        self.error = None

    def __call__(self, *arguments):
        """Return exit code, stdout and stderr; keep the error."""
        code, self.error = 0, None
        signals = {x: signal.getsignal(x) for x in (signal.SIGINT, signal.SIGTERM)}
        disabled = logging.root.manager.disable
        try:
            with main.make_context("twom-dist", [str(a) for a in arguments]) as ctx:
                main.invoke(ctx)
        except click.exceptions.Exit as ended:
            code, self.error = ended.exit_code, ended.__cause__
        finally:
            # The command ignores them from the commit of its output to its exit.
            for number, handler in signals.items():
                signal.signal(number, handler)
            # And says nothing more until its process ends.
            logging.disable(disabled)
        captured = self._capsys.readouterr()
        return code, captured.out, captured.err

    def assert_refuses(self, *arguments, why):
        """Refuse with one sentence, which is returned, by code or kind of error."""
        code, out, sentence = self(*arguments)
        assert (code, out) == (2, ""), sentence
        assert sentence.startswith("twom-dist: error: ")
        assert sentence.count("\n") == 1
        if isinstance(why, str):
            assert getattr(self.error, "code", None) == why, sentence
        else:
            assert isinstance(self.error.__cause__ or self.error, why), sentence
        return sentence
