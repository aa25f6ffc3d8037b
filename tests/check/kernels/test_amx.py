"""AMX: its text, its permission, and when it is used; its sums in test_multiply."""

import ctypes
import errno
import os
import sys
from types import SimpleNamespace

import dask
import numba
import numpy as np
import pytest

from tests.support.amx import counted, run_amx
from tests.support.assembly import assemble
from tests.support.pipeline import add_both_ways
from tests.support.strategies import random_matrix
from twom_dist.cluster import diagnosis
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu import units
from twom_dist.kernels.cpu.products import (
    amx,
    amx_steps,
    microkernel,
    multiply,
    packed,
)
from twom_dist.kernels.cpu.threads import limit_threads
from twom_dist.moduli import residue_system


@pytest.fixture
def with_amx(monkeypatch):
    """Have a CPU with AMX and a system that allows it."""
    for module in (units, multiply):
        monkeypatch.setattr(module, "has_amx", lambda: True)
    monkeypatch.setattr(multiply, "count_lanes", lambda: 16)
    for chosen in (multiply.select_tiles, units.refuse_amx):
        chosen.cache_clear()
    yield
    for chosen in (multiply.select_tiles, units.refuse_amx):
        chosen.cache_clear()


FEATURES = frozenset(("avx512vnni", "avx512bw", "amx-tile", "amx-int8"))


def answer(monkeypatch, error):
    """Have Linux answer a request; list the requests."""
    asked = []

    def syscall(*given):
        asked.append(given)
        ctypes.set_errno(error)
        return -1 if error else 0

    libc = SimpleNamespace(syscall=syscall)
    monkeypatch.setattr(units.ctypes, "CDLL", lambda *_, **options: libc)
    monkeypatch.setattr(sys, "platform", "linux")
    return asked


# --- the text -----------------------------------------------------------------------


def assembled(function):
    lines = assemble(function, "sapphirerapids")
    return [line.split()[0] for line in lines if not line.endswith(":")]


def test_a_step_takes_four_tiles_for_four_products():
    """Beside them, two lines of each right panel are fetched, and left tiles, to L1."""
    names = assembled(amx_steps.multiply_tiles)
    assert (names.count("tileloadd"), names.count("tdpbssd")) == (4, 4)
    assert (names.count("prefetcht1"), names.count("prefetcht0")) == (4, 32)
    assert len(names) == 45  # and the return


def test_sums_make_way_for_others_one_by_one():
    """Operands are loaded before any sum is stored, each of which has a successor."""
    loads, fetched = ["tileloadd"] * 4, ("prefetcht0", "prefetcht1")
    for step, begin in (
        (amx_steps.begin_block, "tilezero"),
        (amx_steps.resume_block, "tileloadd"),
    ):
        names = assembled(step)
        tiles = [name for name in names if name.startswith(("tile", "tdp"))]
        assert tiles == loads + ["tilestored", begin, "tdpbssd"] * 4
        assert [names.count(name) for name in fetched] == [32, 4]


def test_neighbouring_sums_share_no_address_modulo_4_kb():
    """Or else loads of one may be taken for stores of the other."""
    size = amx.PAIR * amx_steps.ROW_BYTES
    rows, halves = range(0, size, amx_steps.ROW_BYTES), (0, amx_steps.LINE)
    own, following = (
        {(start + row + g) % 4096 for row in rows for g in halves}
        for start in (0, amx._BLOCK)
    )
    assert not own & following


def test_sums_are_reduced_in_registers(monkeypatch):
    """No vector is spilt, and no tile is touched: they keep the next sums meanwhile.

    Four groups leave as one line, three or fewer each by itself.
    """
    monkeypatch.setattr(microkernel, "count_lanes", lambda: 16)
    lines = assemble(amx._reduce_row, "sapphirerapids")
    words = [line for line in lines if line.startswith("vpdpbusd")]
    assert len(words) == 2 * (4 + 3)
    assert all("%zmm" in line for line in words)
    assert not any("mm" in line and "rsp" in line for line in lines)
    assert sum(line.startswith("vpmovdb") for line in lines) == 3
    assert sum(line.startswith("vpermb") for line in lines) == 1
    assert any(line.startswith("prefetchw") for line in lines)
    assert not any(line.startswith("call") or "tmm" in line for line in lines)


# --- when it is used ----------------------------------------------------------------


def test_the_best_unit_is_taken(monkeypatch):
    for name in ("CPU_NAME", "CPU_FEATURES"):
        monkeypatch.setattr(numba.config, name, None)
    for has, expected in (
        ({}, (False, False)),
        ({"avx512vnni": True, "avx512bw": True, "amx-tile": True}, (True, False)),
        ({"amx-tile": True, "amx-int8": True, "avx512vnni": False}, (False, False)),
        (dict.fromkeys(FEATURES, True), (True, True)),
    ):
        monkeypatch.setattr(units, "get_host_cpu_features", lambda has=has: has)
        found = units.find_features.__wrapped__()
        monkeypatch.setattr(units, "find_features", lambda found=found: found)
        assert (units.has_vnni(), units.has_amx()) == expected
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("name", "value"),
    [("CPU_NAME", "generic"), ("CPU_FEATURES", "+sse2"), ("ENABLE_AVX", 0)],
)
def test_no_unit_is_taken_that_numba_does_not_compile_for(monkeypatch, name, value):
    """LLVM would end the process at the first such instruction."""
    for known in ("CPU_NAME", "CPU_FEATURES"):
        monkeypatch.setattr(numba.config, known, None)
    monkeypatch.setattr(numba.config, name, value)
    has = dict.fromkeys(FEATURES, True)
    monkeypatch.setattr(units, "get_host_cpu_features", lambda: has)
    assert not units.find_features.__wrapped__()


def test_linux_is_asked_once(with_amx, monkeypatch):
    asked = answer(monkeypatch, 0)
    with run_amx():
        assert multiply.name_kernel() == multiply.name_kernel() == "amx-int8"
    assert asked == [(158, 0x1023, 18)]
    assert not [*diagnosis.check_amx()]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EINVAL])
def test_where_linux_refuses_vnni_multiplies(with_amx, monkeypatch, error):
    answer(monkeypatch, error)
    assert multiply.name_kernel() == "avx512-vnni"
    (found,) = diagnosis.check_amx()
    assert (found.name, found.status) == ("AMX", "warning")
    assert os.strerror(error) in found.found


def test_other_systems_are_not_asked(with_amx, monkeypatch):
    asked = answer(monkeypatch, 0)
    monkeypatch.setattr(sys, "platform", "win32")
    assert multiply.name_kernel() == "avx512-vnni"
    assert not asked


def test_sums_that_are_wrong_leave_it_to_vnni(with_amx, monkeypatch):
    def be_off_by_one(*given):
        packed.multiply_packed(*given)
        given[3][-1, 0, -1, 0] += 1

    answer(monkeypatch, 0)
    monkeypatch.setattr(multiply, "multiply_packed", be_off_by_one)
    with run_amx():
        assert multiply.name_kernel() == "avx512-vnni"
    (found,) = diagnosis.check_amx()
    assert "not exact" in found.found


def test_this_machine_answers():
    """What Linux says here, of a CPU that may have no tiles."""
    assert units.has_amx() or units.refuse_amx() is not None
    assert multiply.explain_no_amx() == "" or units.has_amx()


# --- products -----------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_threads_and_quarters_give_the_bits_of_the_reference(
    monkeypatch, level, threads
):
    """Every call sets up the tiles of its thread and gives them up.

    Of long rows there are several panels, the last of which is not whole.
    """
    system = residue_system("2m", 2)
    m, n, k = 100, 130, 83 if level else 1103
    x, y = (random_matrix(rows, k, seed=rows) * 1e5 for rows in (m, n))
    found = []
    monkeypatch.setattr(packed, "TILES_BYTES", 1 << 12)
    monkeypatch.setattr(multiply, "has_vnni", lambda: True)
    monkeypatch.setattr(multiply, "select_tiles", lambda: amx_steps.CONFIGURATION)
    with (
        run_amx(),
        limit_threads(threads),
        dask.config.set({"twom-dist.winograd-levels": level}),
    ):
        for name in ("cpu", "reference"):
            engine = get_engine(name)
            left, right = (
                engine.encode(t, np.zeros(len(t), np.int32), system) for t in (x, y)
            )
            before = engine.multiply(left, right, system)
            found.append([before, *add_both_ways(engine, left, right, system, before)])
        counts = counted()
    for own, reference in zip(*found, strict=True):
        assert (own[..., :n] == reference[..., :n]).all()
    assert counts["ldtilecfg"] == counts["tilerelease"]
    # Tiles of sums are loaded if they were not begun.
    begun = counts["tilezero"] + counts["tileloadd"] - counts["tdpbssd"]
    assert begun == counts["tilestored"]
