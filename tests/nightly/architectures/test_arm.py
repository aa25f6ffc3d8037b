"""Products have the same bits on Arm, which an emulator plays: `make emulate-arm`."""

import os
import subprocess
import sys

import pytest

from tests.support import emulator
from tests.support.places import ROOT

MICROKERNEL = "tests/check/kernels/test_half_vectors.py"
DIGESTS = ("-m", "tests.support.digests")
# The first product takes five minutes or more, in which its kernels are compiled. They
# are kept: of later runs these seconds are enough for all.
SECONDS = {"Neoverse V2": 1200, "Neoverse N1": 600}


@pytest.fixture(scope="module")
def packages():
    if missing := emulator.why_not():
        pytest.skip(missing)
    try:
        emulator.build()
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"no network, or no such packages: {error}")


@pytest.fixture(scope="module")
def expected():
    command = (sys.executable, *DIGESTS)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.timeout(1800)
def test_the_microkernel_of_arm_sums_as_int64(packages):
    python, environment = emulator.python_on("Neoverse V2")
    alone = ("--noconftest", "-p", "no:cacheprovider", "-c", os.devnull)
    command = (*python, "-m", "pytest", "-q", *alone, MICROKERNEL)
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    assert "42 passed" in done.stdout  # a third by dot products, and one by matrices


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("cpu", SECONDS)
def test_products_have_the_same_bits_on_arm(cpu, packages, expected):
    python, environment = emulator.python_on(cpu)
    command = (*python, *DIGESTS, str(SECONDS[cpu]))
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = done.stdout.splitlines()
    assert found == expected[: len(found)], done.stderr
    assert found
    assert f"Arm {cpu} (implementer 0x41" in done.stderr
    kernel = "neon-i8mm" if cpu == "Neoverse V2" else "neon-dotprod"
    assert f"int8 products by {kernel} (whose speed" in done.stderr
    assert "exact, to the last bit" in done.stderr
