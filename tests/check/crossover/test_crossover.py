"""What method="auto" chooses, by sizes, dtypes and what else is asked for."""

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from math import inf
from threading import Barrier

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.expect import raises
from tests.support.strategies import random_matrix
from twom_dist.api import crossovers
from twom_dist.cluster import diagnosis
from twom_dist.crossover import chips, choose, kept, table
from twom_dist.errors import EngineUnavailableError, PlanError

BELOW = "twom-dist.blas-below"


@pytest.fixture
def vnni(monkeypatch):
    """A machine on which int8 products are quick."""
    on(monkeypatch, "Some CPU", vnni=True)


def method_of(shape, routine="gemm", **options):
    m, n, k = shape
    matrices = ((m, k), (k, n)) if routine == "gemm" else ((m, k),)
    return td.explain(getattr(td, routine), *matrices, method="auto", **options).method


@pytest.mark.parametrize(
    ("shape", "routine", "expected"),
    [
        ((9000, 9000, 9000), "gemm", "blas"),
        ((2048, 2048, 2048), "herk", "2m"),
        ((1023, 1023, 1023), "herk", "2m"),  # of size 341, which is the table's
        ((1022, 1022, 1023), "herk", "blas"),
        ((1020, 1020, 1024), "herk", "blas"),
        ((100000, 100000, 300), "herk", "blas"),
        ((9000, 9000, 9000), "syrk", "blas"),
    ],
)
def test_sizes_decide(vnni, shape, routine, expected):
    assert method_of(shape, routine) == expected


def test_without_vnni_products_are_native(monkeypatch):
    chip = on(monkeypatch, "Some CPU")
    assert method_of((9000, 9000, 9000), "herk") == "blas"
    given = ("herk", "complex128", (9000,) * 3)
    assert choose.prefers_native("cpu", *given)
    assert not choose.prefers_native("cpu", *given, chip._replace(vnni=True))
    assert not choose.prefers_native("cuda", *given, chips.NOT_SEEN)


@pytest.mark.parametrize(
    "options",
    [
        {"num_moduli": 12},
        {"accuracy": "componentwise"},
        {"accuracy": 1e-5},
        {"equilibrate": True},
        {"engine": "reference"},
    ],
)
def test_what_the_native_product_does_not_give_is_int8(options):
    assert method_of((10, 10, 10), **options) != "blas"
    assert method_of((10, 10, 10)) == "blas"


def test_the_setting_decides_where_it_is_given():
    with dask.config.set({BELOW: 0}):
        assert method_of((2, 2, 2)) == "2m"
    with dask.config.set({BELOW: 100}):
        assert method_of((299, 300, 300)) == "blas"
        assert method_of((300, 300, 300)) == "2m"
    assert method_of((2, 2, 2)) == "blas"
    for wrong in (-1, "big", True):
        with dask.config.set({BELOW: wrong}), raises(PlanError, "setting"):
            method_of((2, 2, 2))


def test_the_choice_and_its_reason_are_explained(vnni):
    small, large = (td.explain(td.herk, (n, n), method="auto") for n in (300, 6000))
    assert small.choice.startswith("native: size 100 is below 341 (AMD EPYC")
    assert large.choice.startswith("int8: size 2000 is at least 341")
    assert "chosen" in str(small)
    assert td.explain(td.gemm, (9, 9), (9, 9)).choice == ""
    given = td.explain(td.gemm, (9, 9), (9, 9), method="auto", num_moduli=9)
    assert given.choice == "int8, since num_moduli=9 was given"
    assert (small.asked, given.asked) == ("method auto", "method auto, 9 moduli")


@pytest.mark.parametrize("below", [0, 1e9])
def test_every_routine_takes_auto_and_chunks_change_nothing(below):
    a = random_matrix(12, 9)
    lazy = da.from_array(a, chunks=(5, 9))
    method = "blas" if below else "2m"
    with dask.config.set({BELOW: below}):
        for routine, count in (("gemm", 2), ("herk", 1), ("syr2k", 2)):
            call, op = getattr(td, routine), {"op_b": "C"} if routine == "gemm" else {}
            expected = call(*(a,) * count, method=method, **op)
            assert (call(*(a,) * count, method="auto", **op) == expected).all()
            found = call(*(lazy,) * count, method="auto", **op)
            found = found.compute(scheduler="sync")
            if not below:
                assert (found == expected).all()
            assert np.allclose(found, expected)


def test_the_table_is_of_what_can_be_asked_for():
    for routine, dtype in table._OF_AMX:
        assert routine in ("gemm", "herk", "syrk")
        assert np.dtype(dtype).char in "fdFD"


# --- by chip ------------------------------------------------------------------------


def on(monkeypatch, name, capability=0, vnni=False):
    """Put another chip in the place of this one."""
    found = chips.Chip(name, capability, vnni)
    monkeypatch.setattr(choose, "chip_of", lambda engine: found)
    choose.forget()
    return found


@pytest.mark.parametrize(
    ("capability", "dtype", "least"),
    [
        (75, "complex128", 600),
        (80, "complex128", 2400),
        (87, "complex128", 600),
        (89, "float64", 900),
        (90, "complex128", 3000),
        (90, "float64", 8190),
        (100, "complex128", 2400),
        (121, "complex128", 600),
        (121, "complex64", 8190),
        (60, "complex128", 600),
    ],
)
def test_gpus_without_a_measurement_go_by_their_capability(
    monkeypatch, capability, dtype, least
):
    on(monkeypatch, "a GPU", capability)
    for routine in ("gemm", "herk", "syr2k"):
        found = [
            choose.prefers_native("cuda", routine, dtype, (n,) * 3)
            for n in (least - 1, least)
        ]
        assert found == [True, False]
    told = choose.tell_choice(*("cuda", "gemm", dtype, (least,) * 3), decisive="")
    assert ("not measured" in told) == (capability != 90)


def test_a_gpu_that_is_not_seen_is_an_h200():
    assert chips.chip_of("cuda").capability == chips.UNSEEN == 90
    assert chips.chip_of("cpu").capability == 0


# --- measured here ------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """Keep what is measured in a folder of the test's own."""
    with dask.config.set({"twom-dist.crossovers": str(tmp_path / "new")}):
        choose.forget()
        yield tmp_path / "new"
    choose.forget()


def test_what_was_measured_here_precedes_the_table(folder, monkeypatch):
    chip = on(monkeypatch, "Some CPU, 4 cores")
    sizes = {"gemm complex128": 100.0, "syrk float64": 50.0, "herk complex128": inf}
    path = kept.write(chip, "2026-01-02", sizes, [])
    choose.forget()
    assert path.parent == folder
    assert method_of((300,) * 3) == "2m"
    assert method_of((299,) * 3) == "blas"
    assert not choose.is_small(np.dtype(complex), (300,) * 3)
    assert choose.is_small(np.dtype(complex), (299,) * 3)
    assert method_of((9000,) * 3, "herk") == "blas"
    assert method_of((9000,) * 3, "syrk") == "blas"
    assert method_of((150,) * 3, "herk", dtype="float64") == "real"
    told = td.explain(td.gemm, (300, 300), (300, 300), method="auto").choice
    assert told == (
        "int8: size 100 is at least 100 (measured on Some CPU, 4 cores, 2026-01-02)"
    )
    told = td.explain(td.herk, (300, 300), method="auto").choice
    assert told.startswith("native, since int8 was not faster for herk of complex")
    (found,) = diagnosis.check_sizes("cpu")
    assert "not measured" in str(found)  # of this machine's own chip
    monkeypatch.setattr(diagnosis, "chip_of", lambda engine: chip)
    (found,) = diagnosis.check_sizes("cpu")
    text = str(found)
    assert text.startswith("Some CPU, 4 cores, measured on 2026-01-02: int8 from n = ")
    assert "from n = 300 on for gemm complex128" in text
    assert "herk complex128" not in text
    kept.write(chip, "2026-01-03", {"gemm complex128": 200.0}, [])
    choose.forget()
    assert method_of((300,) * 3) == "blas"
    assert choose.is_small(np.dtype(complex), (300,) * 3)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda told: told.update(twom_dist="0.0.1"),
        lambda told: told.update(chip="another one"),
        lambda told: told.update(sizes=[]),
        lambda told: told.update(sizes={"gemm complex128": "many"}),
        lambda told: told.update(sizes={"gemm complex128": 10**400}),
        lambda told: told.update(sizes={"gemm complex128": -1}),
        lambda told: told.update(sizes={"gemm complex128": float("nan")}),
        lambda told: told.clear(),
    ],
)
def test_what_cannot_be_used_is_as_if_it_were_not_there(folder, monkeypatch, spoil):
    chip = on(monkeypatch, "Some CPU, 4 cores")
    path = kept.write(chip, "2026-01-02", {"gemm complex128": 100.0}, [])
    told = json.loads(path.read_text())
    spoil(told)
    path.write_text(json.dumps(told))
    assert kept.read(chip) is None
    path.write_text("{")
    kept._read.cache_clear()
    assert kept.read(chip) is None
    assert method_of((300,) * 3) == "blas"


def test_threads_that_write_at_once_leave_one_whole_file(folder, monkeypatch):
    chip, there = on(monkeypatch, "Some CPU"), Barrier(4)

    def write(n):
        there.wait()
        return kept.write(chip, "2026-01-02", {"gemm complex128": float(n)}, [0] * n)

    with ThreadPoolExecutor(4) as pool:
        (path,) = {*pool.map(write, [1000] * 4)}
    assert kept.read(chip)["sizes"] == {"gemm complex128": 1000}
    assert [*folder.iterdir()] == [path]


def test_without_a_home_nothing_was_measured():
    with dask.config.set({"twom-dist.crossovers": "~nobody-of-this-name/x"}):
        choose.forget()
        assert method_of((300,) * 3) == "blas"
    choose.forget()


def test_a_cpu_that_was_measured_needs_no_vnni(folder, monkeypatch):
    chip = on(monkeypatch, "Some CPU, 4 cores")
    kept.write(chip, "2026-01-02", {"gemm complex128": 100.0}, [])
    choose.forget()
    assert method_of((300,) * 3) == "2m"


@pytest.mark.parametrize("wins_from", [1, 100, 500, 1024, 1500, 5000])
def test_the_search_finds_the_side_from_which_int8_wins(wins_from):
    def rounds(n):
        return repeat((n**3 / 1e11, n**2 * wins_from / 1e11))

    found, _ = crossovers._search(rounds, inf)
    size = crossovers._crossing(found)
    assert len(found) <= 4
    if wins_from <= 128:
        assert size == pytest.approx(128 / 3)
    elif wins_from > 4096:
        assert size == inf
    else:
        assert size == pytest.approx(wins_from / 3)


@pytest.mark.parametrize("rate", [1e9, 1e10, 1e11, 1e12])
def test_the_search_keeps_to_its_seconds(rate):
    """But for two rounds of the first side, on a machine that is too slow."""
    taken = []

    def rounds(n):
        for _ in range(crossovers.ROUNDS + 1):
            taken.append((n, n**3 / rate * 1.1))
            yield n**3 / rate, n**3 / rate / 10

    def turned(n):
        return ((y, x) for x, y in rounds(n))

    for search in (rounds, turned):
        taken.clear()
        found, spent = crossovers._search(search, 2.0)
        assert spent == pytest.approx(sum(x for _, x in taken))
        least = 2 * 768**3 / rate * 1.1
        assert spent <= max(2.0, least) * (1 + 1e-9)
        assert crossovers._crossing(found) == (inf if search is turned else 128 / 3)


def test_this_machine_can_be_measured(folder, monkeypatch, call):
    monkeypatch.setattr(crossovers, "SIDES", (16, 24, 32))
    monkeypatch.setattr(crossovers, "SECONDS", 0.0)
    code, out, _ = call("tune", "--engine", "cpu", "--json")
    told = json.loads(out)
    assert code == 0
    assert {*told["sizes"]} <= {*map(" ".join, crossovers.KINDS)}
    chip = chips.chip_of("cpu")
    assert told["chip"] == chip.name
    assert kept.read(chip)["measured"]
    assert str(td.tune("cpu")).count("\n") == len(crossovers.KINDS) + 1
    with raises(PlanError, "engine"):
        td.tune("reference")
    with raises(EngineUnavailableError, "no-driver"):
        td.tune("cuda")


@pytest.mark.parametrize(("n", "method"), [(1022, "2m"), (1025, "blas")])
def test_sides_that_are_not_measured_leave_what_is_known(
    folder, monkeypatch, n, method
):
    """A table of 1023 for herk: lost below, as far as time allows, it stays."""
    chip = on(monkeypatch, "Some CPU", vnni=True)
    monkeypatch.setattr(crossovers, "chip_of", lambda engine: chip)
    monkeypatch.setattr(crossovers, "_search", lambda *_: ({n: (1.0, 2.0)}, 0.0))
    found = td.tune("cpu")
    assert found.sizes["gemm complex128"] == inf
    assert ("herk complex128" in found.sizes) == (method == "blas")
    assert ("known of such chips" in str(found)) == (method == "2m")
    assert method_of((1023,) * 3, "herk") == method
    assert method_of((9000,) * 3) == "blas"


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(crossovers, "_search", None)
    setting = {"twom-dist.crossovers": str(tmp_path / "file")}
    with dask.config.set(setting), pytest.raises(FileExistsError):
        td.tune("cpu")
