"""The names of chips, and the units that they have."""

import io

import pytest

from tests.support.cases import cases
from twom_dist.crossover import chips

# As Linux describes Neoverse N1 (Graviton 2) and V2 (Graviton 4, Grace).
N1 = """processor	: 0
BogoMIPS	: 243.75
Features	: fp asimd aes sha1 sha2 crc32 atomics asimddp
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: 0x3
CPU part	: 0xd0c
CPU revision	: 1

processor	: 1
"""
V2 = N1.replace("0xd0c", "0xd4f").replace("0x3", "0x0")
EPYC = "cpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n\n"


@pytest.fixture
def described(monkeypatch):
    """Describe this CPU as Linux describes another one."""

    def describe(text, machine):
        with monkeypatch.context() as patch:
            patch.setattr("builtins.open", lambda *_, **__: io.StringIO(text))
            patch.setattr(chips.platform, "processor", lambda: "")
            patch.setattr(chips.platform, "machine", lambda: machine)
            return chips._cpu.__wrapped__()

    return describe


@cases(
    ("text", "machine", "expected"),
    [
        (N1, "aarch64", "aarch64 (implementer 0x41 part 0xd0c variant 0x3)"),
        (V2, "aarch64", "aarch64 (implementer 0x41 part 0xd4f variant 0x0)"),
        (EPYC, "x86_64", "AMD EPYC (family 25 model 17)"),
        ("", "riscv64", "riscv64"),
    ],
)
def test_cpus_that_differ_have_names_that_do(described, text, machine, expected):
    assert described(text, machine).name.rpartition(", ")[0] == expected


def test_a_cpu_that_numba_does_not_compile_for_has_no_vnni(described, monkeypatch):
    text = "model name : Some CPU\nflags : avx512_vnni avx512bw amx_tile amx_int8\n\n"
    for name, value in (("NUMBA_CPU_NAME", "generic"), ("NUMBA_ENABLE_AVX", "0")):
        monkeypatch.delenv(name, raising=False)
        assert described(text, "x86_64")[2:] == (True, True)
        monkeypatch.setenv(name, value)
        assert described(text, "x86_64")[2:] == (False, False)
        monkeypatch.delenv(name)
    # The kernels take both.
    assert not described(text.replace("avx512bw", ""), "x86_64").vnni
