"""Compiled code on disk: of these sources alone, whoever compiles at the same time."""

import ast
from pathlib import Path

from numba import njit
from numba.core.caching import IndexDataCacheFile

import twom_dist
from twom_dist.kernels.cpu import compiled
from twom_dist.kernels.cpu.compiled import CodeFiles
from twom_dist.kernels.cpu.width import take_widest

PACKAGE = Path(twom_dist.__file__).parent


def race(files, folder, monkeypatch):
    """Have two processes that find no index save other code; return what is kept."""
    ours, theirs = (files(str(folder), "kernel", "stamp") for _ in range(2))
    monkeypatch.setattr(theirs, "_load_index", dict)
    save_index = ours._save_index

    def be_overtaken(overloads):
        save_index(overloads)
        theirs.save("float64 with AVX-512", "their code")

    monkeypatch.setattr(ours, "_save_index", be_overtaken)
    ours.save("float32 without", "our code")
    found = files(str(folder), "kernel", "stamp")
    return found.load("float64 with AVX-512"), found.load("float32 without")


def test_no_process_takes_the_code_of_another(tmp_path, monkeypatch):
    (tmp_path / "own").mkdir()
    assert race(CodeFiles, tmp_path / "own", monkeypatch) == ("their code", None)
    # If this fails, Numba does better by now, and `CodeFiles` may go.
    assert race(IndexDataCacheFile, tmp_path, monkeypatch) == ("our code", None)


def test_data_of_other_sources_are_not_taken(tmp_path):
    old, new = (CodeFiles(str(tmp_path), "kernel", x) for x in ("old", "new"))
    old.save("float64", "old code")
    assert new.load("float64") is None
    index = Path(old._index_path)
    before = index.read_bytes()
    new.save("float64", "new code")
    index.write_bytes(before)  # a process of the old sources has written it again
    assert (old.load("float64"), new.load("float64")) == (None, None)


# What callers of kernels take from elsewhere, none of it compiled in.
NOT_COMPILED = {PACKAGE / x for x in ("typing.py", "config.py", "errors.py")}


def imported_by(path):
    """List the modules of the package that a module takes names from."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            module = (node.module or "").split(".")
            base = path.parents[node.level - 1].joinpath(*module)
            names = (base / f"{name.name}.py" for name in node.names)
            yield from (base.with_suffix(".py"), base / "__init__.py", *names)


def test_all_that_is_compiled_in_is_stamped():
    stamped = {x for pattern in compiled.SOURCES for x in PACKAGE.glob(pattern)}
    kernels = {*PACKAGE.glob("kernels/cpu/*.py")}
    found = {x for path in kernels for x in imported_by(path) if x.exists()}
    assert kernels <= stamped
    assert found - stamped <= NOT_COMPILED


def test_llvm_is_told_of_the_widest_vectors():
    @njit("f8(f8)")
    def add_one(x):
        take_widest()
        return x + 1.0

    (text,) = add_one.inspect_llvm().values()
    assert '"prefer-vector-width"="512"' in text
