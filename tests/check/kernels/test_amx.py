"""AMX: its text, its permission, and when it is used; its sums in test_products."""

import ctypes
import errno
import os
import sys
from types import SimpleNamespace

import dask
import numba
import pytest

from tests.support.amx import counted, run_amx
from tests.support.assembly import assemble
from tests.support.contract.products import draw
from tests.support.pipeline import add_both_ways
from twom_dist.cluster import diagnosis
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu import units
from twom_dist.kernels.cpu.products import amx, amx_steps, microkernel, multiply, packed
from twom_dist.kernels.cpu.threads import limit_threads
from twom_dist.moduli import residue_system

FEATURES = frozenset(("avx512vnni", "avx512bw", "amx-tile", "amx-int8"))


@pytest.fixture
def linux(monkeypatch):
    """Have a CPU with AMX, and Linux answer requests for it; list the requests."""
    answer = SimpleNamespace(error=0, asked=[])

    def syscall(*given):
        answer.asked.append(given)
        ctypes.set_errno(answer.error)
        return -1 if answer.error else 0

    libc = SimpleNamespace(syscall=syscall)
    monkeypatch.setattr(units.ctypes, "CDLL", lambda *_, **options: libc)
    monkeypatch.setattr(sys, "platform", "linux")
    for module in (units, multiply):
        monkeypatch.setattr(module, "has_amx", lambda: True)
    monkeypatch.setattr(multiply, "count_lanes", lambda: 16)
    chosen = multiply.select_tiles, units.refuse_amx
    for own in chosen:
        own.cache_clear()
    yield answer
    for own in chosen:
        own.cache_clear()


# --- the text -----------------------------------------------------------------------


def assembled(function):
    lines = assemble(function, "sapphirerapids")
    return [line.split()[0] for line in lines if not line.endswith(":")]


def test_steps_take_four_tiles_for_four_products():
    """Lines of the next panels are fetched; sums make way for others one by one."""
    names = assembled(amx_steps.multiply_tiles)
    assert (names.count("tileloadd"), names.count("tdpbssd")) == (4, 4)
    assert (names.count("prefetcht1"), names.count("prefetcht0")) == (4, 32)
    assert len(names) == 45  # and the return
    for step, begin in (
        (amx_steps.begin_block, "tilezero"),
        (amx_steps.resume_block, "tileloadd"),
    ):
        names = assembled(step)
        tiles = [name for name in names if name.startswith(("tile", "tdp"))]
        assert tiles == ["tileloadd"] * 4 + ["tilestored", begin, "tdpbssd"] * 4
        assert (names.count("prefetcht1"), names.count("prefetcht0")) == (4, 32)


def test_neighbouring_sums_share_no_address_modulo_4_kb():
    """Or else loads of one may be taken for stores of the other."""
    rows = range(0, amx.PAIR * amx_steps.ROW_BYTES, amx_steps.ROW_BYTES)
    own, following = (
        {(start + row + g) % 4096 for row in rows for g in (0, amx_steps.LINE)}
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


@pytest.mark.parametrize(
    ("has", "setting", "expected"),
    [
        ({}, {}, (False, False)),
        ({"avx512vnni", "avx512bw", "amx-tile"}, {}, (True, False)),
        ({"amx-tile", "amx-int8"}, {}, (False, False)),
        (FEATURES, {}, (True, True)),
        # LLVM would end the process at the first instruction that Numba is not for.
        (FEATURES, {"CPU_NAME": "generic"}, (False, False)),
        (FEATURES, {"CPU_FEATURES": "+sse2"}, (False, False)),
        (FEATURES, {"ENABLE_AVX": 0}, (False, False)),
    ],
)
def test_the_best_unit_is_taken(monkeypatch, has, setting, expected):
    for name, value in ({"CPU_NAME": None, "CPU_FEATURES": None} | setting).items():
        monkeypatch.setattr(numba.config, name, value)
    features = dict.fromkeys(has, True)
    monkeypatch.setattr(units, "get_host_cpu_features", lambda: features)
    found = units.find_features.__wrapped__()
    monkeypatch.setattr(units, "find_features", lambda: found)
    assert (units.has_vnni(), units.has_amx()) == expected


def test_linux_is_asked_once(linux):
    with run_amx():
        assert multiply.name_kernel() == multiply.name_kernel() == "amx-int8"
    assert linux.asked == [(158, 0x1023, 18)]
    assert not [*diagnosis.check_amx()]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EINVAL])
def test_where_linux_refuses_vnni_multiplies(linux, error):
    linux.error = error
    assert multiply.name_kernel() == "avx512-vnni"
    (found,) = diagnosis.check_amx()
    assert (found.name, found.status) == ("AMX", "warning")
    assert os.strerror(error) in found.found


def test_other_systems_are_not_asked(linux, monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert multiply.name_kernel() == "avx512-vnni"
    assert not linux.asked


def test_sums_that_are_wrong_leave_it_to_vnni(linux, monkeypatch):
    def be_off_by_one(*given):
        packed.multiply_packed(*given)
        given[3][-1, 0, -1, 0] += 1

    monkeypatch.setattr(multiply, "multiply_packed", be_off_by_one)
    with run_amx():
        assert multiply.name_kernel() == "avx512-vnni"
    (found,) = diagnosis.check_amx()
    assert "not exact" in found.found


def test_this_machine_answers():
    """What Linux says here, of a CPU that may have no tiles."""
    assert units.has_amx() or units.refuse_amx() is not None
    assert multiply.explain_no_amx() == "" or units.has_amx()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_threads_and_quarters_give_the_bits_of_the_reference(
    monkeypatch, level, threads
):
    """Every call sets up the tiles of its thread and gives them up.

    Of long rows there are several panels, the last of which is not whole.
    """
    system, found = residue_system("2m", 2), []
    m, n, k = 100, 130, 83 if level else 1103
    monkeypatch.setattr(packed, "TILES_BYTES", 1 << 12)
    monkeypatch.setattr(multiply, "has_vnni", lambda: True)
    monkeypatch.setattr(multiply, "select_tiles", lambda: amx_steps.CONFIGURATION)
    own = dask.config.set({"twom-dist.winograd-levels": level})
    with run_amx(), limit_threads(threads), own:
        for engine in map(get_engine, ("cpu", "reference")):
            left, right = (draw(engine, t, k, system, t) for t in (m, n))
            before = engine.multiply(left, right, system)
            found.append([before, *add_both_ways(engine, left, right, system, before)])
        counts = counted()
    for x, y in zip(*found, strict=True):
        assert (x[..., :n] == y[..., :n]).all()
    assert counts["ldtilecfg"] == counts["tilerelease"]
    # Tiles of sums are loaded if they were not begun.
    begun = counts["tilezero"] + counts["tileloadd"] - counts["tdpbssd"]
    assert begun == counts["tilestored"]
