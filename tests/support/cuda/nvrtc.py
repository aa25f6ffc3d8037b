"""Compile the kernels' modules, and as CuPy does."""

import io
import os
import re
from concurrent.futures import ThreadPoolExecutor
from struct import unpack_from

import numpy as np
import pytest

from twom_dist.kernels.cuda.products import SQUARES
from twom_dist.kernels.cuda.sources import (
    FAMILIES,
    HOPPER_FAMILIES,
    SHIFTED_FAMILIES,
    module_for,
    of_samples,
    source_of,
)
from twom_dist.moduli import residue_system, samples_system

try:
    from cuda.bindings import nvrtc
    from cuda.core import Program, ProgramOptions
except ImportError as error:
    # Packages of the test extra, which there are for Linux on x86-64 alone.
    pytest.skip(
        f"{error}: pip install cuda-core[cu13] nvidia-cuda-nvrtc compiles the kernels",
        allow_module_level=True,
    )

NVRTC_VERSION = repr(nvrtc.nvrtcVersion())

# The architecture whose every module is compiled. Of the others the oldest and the
# newest take one of each family, and those between what they differ in.
MAIN = "sm_90"

PRECISIONS = {"complex64": 8, "complex128": 16, "float32": 8, "float64": 15}


# Registers of a thread: 128 leave room for two blocks of 256 threads. These have fewer
# threads, or one block beside the tensor cores.
MOST_REGISTERS = {
    **{"products_mma": 255, "products": 168},
    **{"samples_mma": 255, "samples_wgmma": 168},
}
# Those of samples have other macros.
_FAMILIES = [x for x in FAMILIES if not x.startswith("samples")]


def compile_modules(kept, modules, architecture=MAIN):
    """Compile on all cores; those by mma.sync, and all on `MAIN`, spill nothing."""

    def compile_one(module):
        own = "sm_90a" if module.family in HOPPER_FAMILIES else architecture
        macros, text = list(module.macros) or None, source_of(module)

        def make(path):
            log, given = io.StringIO(), {"arch": own, "define_macro": macros}
            options = ProgramOptions(std="c++17", ptxas_options="-v", **given)
            code = Program(text, "c++", options).compile("cubin", logs=log).code
            if int(own[3:].rstrip("a")) >= 90:
                assert waits_first(code), module.family
            path.write_text(log.getvalue())

        parts = (NVRTC_VERSION, own, *module.options, text)
        return kept(".report", parts, make).read_text()

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for module, report in zip(modules, pool.map(compile_one, modules), strict=True):
            spilled = re.findall(r"(\d+) bytes spill stores", report)
            used = re.findall(r"Used (\d+) registers", report)
            assert len(used) == len(spilled) > 0
            if architecture == MAIN or module.family.endswith("_mma"):
                assert not any(map(int, spilled)), report
                most = MOST_REGISTERS.get(module.family, 128)
                assert max(map(int, used)) <= most, report


def waits_first(code):
    """Tell whether all kernels of an object file wait before they use memory.

    Before any branch, that is, and before all but constants is read. These are the
    opcodes that nvdisasm 13.5 names for sm_90, sm_100 and sm_120: nine bits of 128.
    """
    (table,), (size, count) = unpack_from("<Q", code, 40), unpack_from("<2H", code, 58)
    found = []
    for at in range(table, table + size * count, size):
        flags, _, start, length = unpack_from("<4Q", code, at + 8)
        if flags & 4:  # instructions
            words = np.frombuffer(code, np.uint64, length // 8, start)[::2] & 0x1FF
            before, (wait, *_) = words.tolist(), [*np.flatnonzero(words == 0x02E), -1]
            uses = [x for x in before[:wait] if x in _BRANCHES or x in _MEMORY]
            found.append(wait >= 0 and {*uses} <= _HARMLESS)
    return found != [] and all(found)


_BRANCHES, _MEMORY = range(0x140, 0x160), range(0x180, 0x1C0)
# BSSY says where threads will meet; LDC, LDCU.
_HARMLESS = {0x145, 0x182, 0x1AC}


def compile_text(text, architecture=MAIN):
    """Compile a text of its own to an object file."""
    options = ProgramOptions(std="c++17", arch=architecture)
    return Program(text, "c++", options).compile("cubin").code


def usual_modules(*dtypes):
    modules = []
    for dtype in dtypes:
        method = "2m" if dtype.startswith("complex") else "real"
        given = dtype, residue_system(method, PRECISIONS[dtype])
        modules += [module_for(family, *given) for family in _FAMILIES]
        modules += [module_for(f, *given, shifted=True) for f in SHIFTED_FAMILIES]
        modules += _encoding_modules(*given)
    modules += [s.module for name in ("mma256", "mma") for s in SQUARES[name]]
    return list(dict.fromkeys([*modules, *modules_of_samples()]))


def _encoding_modules(*given):
    ways = ({"shifted": x, "whole": y} for x in (False, True) for y in (True, False))
    return [module_for("scale_and_encode", *given, **way) for way in ways]


def modules_of_samples():
    """Every kernel, of one part or two, conjugated or not, with either sums."""
    kinds = np.dtype(np.int8), np.dtype(np.uint8)
    own = [squares.module for name in ("wgmma", "mma") for squares in SQUARES[name]]
    own += [module_for("samples", dtype) for dtype in ("complex64", "int64")]
    return [
        of_samples(module, samples_system(pairs, bound), *both, pairs and bound == 1)
        for both, pairs, bound in (
            *((kinds, True, 1), (kinds[::-1], True, 1 << 40)),
            (kinds, False, 1),
        )
        for module in own
    ]


def modules_of_tables(method, count):
    """What reads a residue system, in double precision."""
    given = (
        "float64" if method == "real" else "complex128",
        residue_system(method, count),
    )
    families = "encode", "scale_and_encode", "decode", "decode_and_fill"
    modules = [module_for(family, *given) for family in families]
    modules += _encoding_modules(*given)
    return [*modules, module_for("decode", *given, components=2)]


def modules_of_integer_sums(method, count):
    dtype = "float64" if method == "real" else "complex128"
    given = "decode", dtype, residue_system(method, count)
    return [module_for(*given, components=x, integer=True) for x in (1, 2)]


def compile_as_cupy(kept, module):
    """Compile to PTX with the flag that CuPy appends (cupy/cupy#9576)."""
    hopper = module.family in HOPPER_FAMILIES
    architecture = "-arch=compute_90a" if hopper else "-arch=compute_90"
    options = ["--std=c++17", architecture, *module.options, "-ftz=true"]
    source = source_of(module)

    def make(path):
        given = [option.encode() for option in options]
        _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"", 0, [], [])
        (status,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
        assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS
        _, size = nvrtc.nvrtcGetPTXSize(program)
        text = bytearray(size)
        nvrtc.nvrtcGetPTX(program, text)
        nvrtc.nvrtcDestroyProgram(program)
        path.write_bytes(text)

    return kept(".ptx", (NVRTC_VERSION, *options, source), make).read_text()
