"""Compiled code on disk, where processes compile at the same time."""

from numba.core.caching import IndexDataCacheFile

from twom_dist.kernels.cpu import norms
from twom_dist.kernels.cpu.compiled import CodeFiles


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


def test_kernels_are_kept_so():
    assert isinstance(norms.largest_bits_inner._cache._cache_file, CodeFiles)
