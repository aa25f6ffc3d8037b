"""Compiled code on disk: of these sources alone, whoever compiles at the same time."""

import ast
from pathlib import Path

import twom_dist
from twom_dist.kernels.cpu import jit
from twom_dist.kernels.cpu.jit import CodeFiles

PACKAGE = Path(twom_dist.__file__).parent
# What callers of kernels take from elsewhere, none of it compiled in.
NOT_COMPILED = {PACKAGE / x for x in ("typing.py", "config.py", "errors.py")}


def test_no_process_takes_the_code_of_another_or_of_other_sources(tmp_path):
    """Two that find no index save other code at the same time."""
    ours, theirs = (CodeFiles(str(tmp_path), "kernel", "stamp") for _ in range(2))
    theirs._load_index, save_index = dict, ours._save_index

    def be_overtaken(overloads):
        save_index(overloads)
        theirs.save("float64 with AVX-512", "their code")

    ours._save_index = be_overtaken
    ours.save("float32 without", "our code")
    found = CodeFiles(str(tmp_path), "kernel", "stamp")
    assert found.load("float64 with AVX-512") == "their code"
    assert found.load("float32 without") is None
    old, new = (CodeFiles(str(tmp_path), "kernel", x) for x in ("old", "new"))
    old.save("float64", "old code")
    assert new.load("float64") is None
    index = Path(old._index_path)
    before = index.read_bytes()
    new.save("float64", "new code")
    index.write_bytes(before)  # a process of the old sources has written it again
    assert (old.load("float64"), new.load("float64")) == (None, None)


def test_all_that_is_compiled_in_is_stamped():
    stamped = {x for pattern in jit.SOURCES for x in PACKAGE.glob(pattern)}
    kernels = {*PACKAGE.glob("kernels/cpu/**/*.py")}
    found = set()
    for path in kernels:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                module = (node.module or "").split(".")
                base = path.parents[node.level - 1].joinpath(*module)
                names = (base / f"{name.name}.py" for name in node.names)
                found |= {base.with_suffix(".py"), base / "__init__.py", *names}
    found = {x for x in found if x.exists()}
    assert kernels <= stamped
    assert found - stamped <= NOT_COMPILED
