"""What method="auto" chooses, by chips, sizes, dtypes and what else is asked for."""

import json
from math import inf
from time import monotonic
from unittest import mock

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.strategies import random_matrix
from twom_dist.api import crossovers
from twom_dist.auto import chips, choose
from twom_dist.errors import (
    EngineUnavailableError,
    MemoryLimitError,
    PlanError,
    StoreError,
)
from twom_dist.kernels import chip_files

BELOW = "twom-dist.blas-below"
CHIP = chips.Chip("Some CPU, 4 cores")
VNNI = chips.Chip("New CPU, 2 cores", vnni=True)


def method_of(n, routine="gemm", **options):
    call = getattr(td, routine)
    shapes = [(n, n)] * (2 if routine == "gemm" else 1)
    return td.explain(call, *shapes, method="auto", **options).method


def is_native(chip, routine, *shape, dtype="complex128", engine="cpu"):
    return choose.prefers_native(engine, routine, dtype, shape, chip)


@cases(
    ("shape", "routine", "native"),
    [
        ((9000, 9000, 9000), "gemm", True),
        ((1024, 1024, 1024), "herk", False),
        ((1023, 1023, 1024), "herk", True),
        ((1023, 1023, 1027), "herk", False),  # a harmonic mean of 1024.3
        ((100000, 100000, 300), "herk", True),
        ((9000, 9000, 9000), "syrk", True),
    ],
)
def test_sizes_decide(shape, routine, native):
    assert is_native(VNNI, routine, *shape) == native
    assert is_native(CHIP, routine, *shape)  # without VNNI


@cases(
    ("capability", "dtype", "least"),
    [
        (75, "complex128", 600),
        (80, "complex128", 2400),
        (89, "float64", 900),
        (90, "complex128", 3000),
        (90, "float64", 8192),
        (121, "complex64", 8192),
        (60, "complex128", 600),
        # Beside Arm's CPUs, as the newest that is not newer: Orin, Thor, GB10.
        *((87, "complex128", 600), (110, "float64", 900), (121, "complex128", 600)),
    ],
)
def test_gpus_without_a_measurement_go_by_their_capability(capability, dtype, least):
    chip = chips.Chip("a GPU", capability)
    for routine in ("gemm", "herk", "syr2k"):
        for n, native in ((least - 1, True), (least, False)):
            assert is_native(chip, routine, n, n, n, dtype=dtype) == native
    given = td.explain(td.gemm, (9, 9), (9, 9), method="auto", num_moduli=9)
    assert given.choice == "int8, since num_moduli=9 was given"


# As Linux describes machines that say neither "model name" nor "flags".
ON_ARM = """\
processor\t: 0
BogoMIPS\t: {mips}
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp {more}
CPU implementer\t: {implementer}
CPU architecture: 8
CPU variant\t: {variant}
CPU part\t: {part}
CPU revision\t: {revision}

processor\t: 1
CPU part\t: 0xfff
"""
MACHINES = {  # mips, implementer, variant, part, revision, more
    "Grace": ("2000.00", "0x41", "0x0", "0xd4f", 0, "cpuid asimddp sve sve2 i8mm bf16"),
    "Graviton 3": ("2100.00", "0x41", "0x1", "0xd40", 1, "cpuid asimddp sve i8mm bf16"),
    "Graviton 2": ("243.75", "0x41", "0x3", "0xd0c", 1, "cpuid asimdrdm lrcpc asimddp"),
    "Orin": ("62.50", "0x41", "0x0", "0xd42", 1, "cpuid asimdrdm lrcpc dcpop asimddp"),
    "AmpereOne": ("2000.00", "0xc0", "0x0", "0xac3", 0, "cpuid asimddp i8mm bf16"),
    "M1": ("48.00", "0x61", "0x1", "0x022", 1, "cpuid asimdrdm jscvt asimddp sb paca"),
    "Thunder": ("200.00", "0x43", "0x1", "0x0af", 1, "cpuid asimdrdm"),
}


def test_machines_with_arm_are_told_by_numbers():
    """Homes that they share keep what was measured on each."""
    names = {}
    for machine, told in MACHINES.items():
        keys = "mips", "implementer", "variant", "part", "revision", "more"
        chip = chips.describe_cpu(ON_ARM.format(**dict(zip(keys, told, strict=True))))
        assert not chip.vnni
        assert is_native(chip, "herk", 9000, 9000, 9000)
        names[machine] = chip.name.partition(",")[0]
    assert len({chip_files.path_of(x) for x in names.values()}) == 7
    known = "(implementer 0x41 part 0xd4f variant 0x0)"
    assert names["Grace"].endswith(known)
    assert names["Thunder"].endswith("(implementer 0x43 part 0x0af variant 0x1)")
    # As a 32-bit program is told.
    text = "model name\t: ARMv8 Processor rev 0 (v8l)\n"
    text += ON_ARM.format(**dict(zip(keys, MACHINES["Grace"], strict=True)))
    assert known in chips.describe_cpu(text).name


def test_what_the_native_product_does_not_give_is_int8():
    assert method_of(10) == "blas"
    assert method_of(10, engine="reference") != "blas"
    for asked in ({"num_moduli": 12}, {"accuracy": 1e-5}, {"equilibrate": True}):
        assert method_of(10, **asked) != "blas"


@cases("below", [0, 1e9])
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
            assert below or (found == expected).all()
            assert np.allclose(found, expected)
    with dask.config.set({BELOW: 300}):
        assert (method_of(299), method_of(300)) == ("blas", "2m")
    for wrong in (-1, "big", True):
        with dask.config.set({BELOW: wrong}), raises(PlanError, "setting"):
            method_of(2)


@pytest.fixture
def folder(tmp_path):
    with dask.config.set({"twom-dist.crossovers": str(tmp_path / "new")}):
        choose.forget()
        yield tmp_path / "new"
    choose.forget()


def measured(chip, sizes, date="2026-01-02"):
    """Keep sizes as if they had been measured on a chip."""
    path = chip_files.write(chip.name, date, sizes)
    choose.forget()
    return path


def test_what_was_measured_here_precedes_the_table(folder):
    chip = chips.chip_of("cpu")
    sizes = {"gemm complex128": 300.0, "syrk float64": 150.0, "herk complex128": inf}
    assert measured(chip, sizes).parent == folder
    small = np.dtype(complex)
    assert (method_of(299), method_of(300)) == ("blas", "2m")
    assert [choose.is_small(small, (n,) * 3) for n in (299, 300)] == [True, False]
    assert method_of(9000, "herk") == "blas"
    assert method_of(150, "herk", dtype="float64") == "real"
    told = td.explain(td.gemm, (300, 300), (300, 300), method="auto").choice
    assert told == (
        f"int8: n = 300 is at least 300 (measured on {chip.name}, 2026-01-02)"
    )
    told = td.explain(td.gemm, (100, 300), (300, 900), method="auto").choice
    assert told.startswith(
        "native: n = 207, the harmonic mean of 100, 900 and 300, is below 300 ("
    )
    measured(chip, {"gemm complex128": 600.0}, "2026-01-03")
    assert method_of(300) == "blas"
    assert choose.is_small(small, (300,) * 3)


@cases(
    "spoilt",
    [
        {"twom_dist": "0.0.1"},
        {"chip": "another one"},
        {"n": []},
        *({"n": {"gemm complex128": x}} for x in ("many", 10**400, -1, np.nan)),
        None,
    ],
)
def test_what_cannot_be_used_is_as_if_it_were_not_there(folder, spoilt):
    path = measured(CHIP, {"gemm complex128": 300.0})
    assert not is_native(CHIP, "gemm", 300, 300, 300)
    text = json.dumps(json.loads(path.read_text()) | spoilt) if spoilt else "{"
    # What is there is read once; whoever writes another file reads again.
    chip_files.write("another chip", "", {})
    path.write_text(text)
    assert chip_files.read(CHIP.name) is None
    assert is_native(CHIP, "gemm", 300, 300, 300)


@pytest.mark.nightly
def test_this_machine_can_be_measured(folder, call):
    idle = {"read_clocks": lambda: (monotonic(), 0.0)}
    with mock.patch.multiple(crossovers, **idle):
        code, out, _ = call("tune", "--engine", "cpu", "--json")
    told, chip = json.loads(out), chips.chip_of("cpu")
    assert (code, told["chip"]) == (0, chip.name)
    assert {*told["sizes"]} <= {*map(" ".join, choose.KINDS)}
    for kind, size in told["sizes"].items():
        routine, dtype = kind.split()
        n = int(size) if size else 10**5  # infinite is null
        assert is_native(chip, routine, n, n, n, dtype=dtype) == (size is None)


@cases("busy", [0.0, 0.1, 1.3])
def test_programs_that_disturbed_the_measurement_are_told(folder, busy):
    clocks = iter([(5.0, -100.0), (15.0, -100.0 + 10 * busy)])
    change = {"KINDS": (), "CPU_COUNT": 2, "read_clocks": lambda: next(clocks)}
    older = measured(chips.chip_of("cpu"), {"gemm complex128": 300.0})
    before = older.read_bytes()
    with mock.patch.multiple(crossovers, **change):
        found = td.tune("cpu")
    assert found.busy == pytest.approx(busy)
    told = "warning: other programs used 1.3 of 2 cores" in str(found)
    assert told == str(found).endswith("\nnot kept") == (busy > 1)
    assert found.path == ("" if told else str(older))
    assert (older.read_bytes() == before) == told


def test_short_rounds_are_many_and_long_ones_few():
    def count(seconds):
        taken = []

        def rounds():
            while True:
                taken.append(seconds)
                yield seconds / 2, seconds / 2

        _, spent = crossovers._measure(rounds(), 0.5, 0.06)
        assert spent == pytest.approx(sum(taken))
        return len(taken)

    assert 140 < count(0.0004) < 160
    assert [count(x) for x in (0.02, 9.0)] == [6, 2]


@cases("kind", [MemoryError, MemoryLimitError])
def test_sides_that_do_not_fit_are_as_those_that_take_too_long(kind):
    def rounds(n):
        if n > 1024:
            raise kind("full")
        while True:
            yield n, n + 1

    found, _ = crossovers._search(rounds, 1e9)
    assert max(found) == 1024
    assert crossovers._find_crossing(found) == inf


def test_what_cannot_be_measured_is_refused_before_anything_is(tmp_path):
    for engine, kind, code in (
        ("reference", PlanError, "engine"),
        ("cuda", EngineUnavailableError, "no-driver"),
    ):
        with raises(kind, code):
            td.tune(engine)
    (tmp_path / "file").touch()
    setting = {"twom-dist.crossovers": str(tmp_path / "file")}
    with dask.config.set(setting), raises(StoreError, "crossovers") as caught:
        td.tune("cpu")
    assert "twom-dist.crossovers" in caught.value.remedy


@cases("folder", [["a"], {"a": 1}])
def test_a_folder_that_is_no_text_is_refused_by_name(folder):
    with dask.config.set({"twom-dist.crossovers": folder}):
        for call in (td.matmul, td.gemm):
            with raises(PlanError, "setting"):
                call(np.ones((3, 3)), np.ones((3, 3)), method="auto")
