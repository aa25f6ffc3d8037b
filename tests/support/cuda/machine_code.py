"""Machine code of the kernels, and the instructions in it that take the double unit."""

import struct
from pathlib import Path

import numpy as np

from tests.support.cuda.kept import Kept
from tests.support.cuda.nvrtc import NVRTC_VERSION, compile_text
from twom_dist.kernels.cuda.sources import Module, source_of

# Since sm_70 an instruction has 128 bits, the lowest nine of which say what it does,
# whatever its operands are: DMUL, DADD, DSETP, DFMA, then conversions from double or
# int64, to int64, to double, and to integers in double; as nvdisasm 13.5 names them.
_OF_DOUBLES = (0x28, 0x29, 0x2A, 0x2B, 0x110, 0x111, 0x112, 0x113)

# What decode does to every part of every element, before scales and scalars.
_STEPS = """
extern "C" __global__ void steps(const int8* residues, int64 stride, double* out) {
  double v[ELEMENTS][RESULTS][PARTS];
  reconstruct(Reader{residues, stride}, v);
  for (int32 i = 0; i < ELEMENTS * RESULTS * PARTS; ++i) out[i] = (&v[0][0][0])[i];
}
"""


def count_double_operations(kept: Kept, module: Module, architecture: str) -> int:
    """Count those of steps 1 to 3 of decode, in a thread."""
    text = source_of(module) + _STEPS

    def make(path: Path) -> None:
        path.write_bytes(compile_text(text, module, architecture))

    parts = (NVRTC_VERSION, architecture, *module.options, text)
    code = _section(kept.get(".cubin", parts, make).read_bytes(), ".text.steps")
    opcodes = np.frombuffer(code, "<u8")[::2] & 0x1FF
    return int(np.isin(opcodes, _OF_DOUBLES).sum())


def assert_few_doubles(kept: Kept, module: Module, architecture: str) -> None:
    """A digit takes a conversion and a sum; two words, four for what that leaves."""
    macros = {name: int(x) for name, x in module.macros if x.isdecimal()}
    each = 2 if macros["RESULTS"] == 1 else 6
    parts = macros["ELEMENTS"] * macros["PARTS"]
    most = parts * (1 + each * (macros["DIGITS"] - 1))
    assert count_double_operations(kept, module, architecture) <= most


def _section(elf: bytes, name: str) -> bytes:
    """Return a section of an ELF file of 64 bits."""
    (start,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<3H", elf, 0x3A)
    headers = [
        struct.unpack_from("<IIQQQQ", elf, start + i * size) for i in range(count)
    ]
    for header in headers:
        first = headers[names][4] + header[0]
        if elf[first : elf.index(b"\0", first)] == name.encode():
            return elf[header[4] : header[4] + header[5]]
    raise AssertionError(f"no section {name}")
