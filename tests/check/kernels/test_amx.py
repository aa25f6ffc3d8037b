"""When AMX is used: what the CPU has, what Linux grants, and whether sums are exact."""

import ctypes
import errno
import sys
from types import SimpleNamespace

import numba
import pytest

from tests.support.amx import run_amx
from tests.support.cases import cases
from twom_dist.kernels.cpu import units
from twom_dist.kernels.cpu.products import macrokernel, multiply
from twom_dist.kernels.cpu.products.multiply import select_tiles
from twom_dist.workers import diagnosis

WHOLE = frozenset(("avx512vnni", "avx512bw"))
HALF = frozenset(("avxvnni", "avx2", "fma"))
TILES = frozenset(("amx-tile", "amx-int8"))


@cases(
    ("has", "setting", "lanes", "amx"),
    [
        ((), {}, 0, False),
        (HALF, {}, 8, False),
        (HALF - {"fma"}, {}, 0, False),
        (WHOLE | HALF | {"amx-tile"}, {}, 16, False),
        (TILES, {}, 0, False),
        (TILES | WHOLE, {}, 16, True),
        # LLVM would end the process at the first instruction that Numba is not for.
        (TILES | WHOLE, {"CPU_NAME": "generic"}, 0, False),
        (TILES | WHOLE, {"CPU_FEATURES": "+sse2"}, 0, False),
        (TILES | WHOLE, {"ENABLE_AVX": 0}, 0, False),
    ],
)
def test_the_best_unit_that_numba_compiles_for_is_taken(has, setting, lanes, amx):
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in ({"CPU_NAME": None, "CPU_FEATURES": None} | setting).items():
            monkeypatch.setattr(numba.config, name, value)
        features = dict.fromkeys(has, True)
        monkeypatch.setattr(units, "get_host_cpu_features", lambda: features)
        found = units.find_features.__wrapped__()
        monkeypatch.setattr(units, "find_features", lambda: found)
        assert (units.count_lanes(), units.has_amx()) == (lanes, amx)


@pytest.mark.parametrize(
    ("system", "error", "wrong", "taken"),
    [
        ("linux", 0, 0, "amx-int8"),
        ("linux", errno.ENOSPC, 0, "avx512-vnni"),
        ("linux", 0, 1, "avx512-vnni"),
        ("win32", 0, 0, "avx512-vnni"),
    ],
)
def test_tiles_are_taken_where_they_are_granted_and_exact(
    monkeypatch, system, error, wrong, taken
):
    asked = []

    def syscall(*given):
        asked.append(given)
        ctypes.set_errno(error)
        return -1 if error else 0

    def be_off(*given):
        macrokernel.multiply_packed(*given)
        given[3][-1, 0, -1, 0] += wrong

    libc, chosen = SimpleNamespace(syscall=syscall), (select_tiles, units.refuse_amx)
    for own in chosen:
        own.cache_clear()
    with run_amx():
        monkeypatch.setattr(units.ctypes, "CDLL", lambda *_, **options: libc)
        monkeypatch.setattr(sys, "platform", system)
        for module in (units, multiply):
            monkeypatch.setattr(module, "has_amx", lambda: True)
        monkeypatch.setattr(multiply, "count_lanes", lambda: 16)
        monkeypatch.setattr(multiply, "multiply_packed", be_off)
        assert multiply.name_kernel() == multiply.name_kernel() == taken
        assert len([*diagnosis.check_amx()]) == (taken != "amx-int8")
    for own in chosen:
        own.cache_clear()
    assert asked == [(158, 0x1023, 18)] * (system == "linux")
