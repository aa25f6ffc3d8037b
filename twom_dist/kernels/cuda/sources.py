"""The sources of kernels, each as one string for a compiler, and its macros."""

import re
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from ...moduli import ResidueSystem
from ..winograd import LEFT, RESULT, RIGHT
from .tables import (
    Constants,
    decode_constants,
    decode_elements,
    encode_constants,
    encode_words,
)

# Files of kernels; each name is that of a `.cu` beside this file.
FAMILIES = (
    *("norms", "analysis", "octaves", "encode", "scale_and_encode", "requantise"),
    *("products", "products_mma", "combine", "winograd", "decode", "decode_and_fill"),
    *("fingerprint", "fill", "tile", "samples", "samples_mma", "samples_wgmma"),
)
# Those whose operands have one type: one module for all dtypes.
INTEGER_FAMILIES = ("octaves", "requantise", "products", "combine")
# Those whose text begins with a residue system: one module for each.
_CONSTANTS = {
    "encode": encode_constants,
    "scale_and_encode": encode_constants,
    "decode": decode_constants,
    "decode_and_fill": decode_constants,
}
# Those that may shift columns: two modules of each, since most products shift none.
SHIFTED_FAMILIES = ("norms", "analysis", "encode", "scale_and_encode")
# Those written for Hopper's own instructions: sm_90a and no other; those whose blocks
# take shared memory of a size that a launch says.
HOPPER_FAMILIES = ("products", "samples_wgmma")
DYNAMIC_FAMILIES = (
    *(*HOPPER_FAMILIES, "products_mma", "scale_and_encode", "decode_and_fill"),
)
# That of products_tile.py, which is no C++.
TILE_FAMILY = "products_tile"

# What is read or written of other dtypes are doubles.
_REALS = {"float32": "float", "complex64": "float", "int32": "int32", "int64": "int64"}

_INCLUDE = re.compile(r'^#include "([\w.]+)"\n', re.MULTILINE)
_STRUCTURE = re.compile(r"struct (\w+) \{([^{}]*)\};")
_KERNEL = re.compile(
    r'extern "C" __global__ void\s+(?:__\w+__\([\w, ]+\)\s*)*(\w+)\(([^)]*)\) \{'
)


@dataclass(frozen=True)
class Module:
    """A family of kernels, macros, and the residue system that its text begins with.

    Equal for operands that share the compiled code: the key of a cache.
    """

    family: str
    macros: tuple[tuple[str, str], ...] = ()
    system: ResidueSystem | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """The macros as a compiler's options."""
        return tuple(f"-D{name}={value}" for name, value in self.macros)

    @property
    def constants(self) -> Constants | None:
        """The residue system as the kernels read it, where they do."""
        return None if self.system is None else _CONSTANTS[self.family](self.system)


@cache
def module_for(
    family: str,
    dtype: Any = None,
    system: ResidueSystem | None = None,
    components: int = 1,
    side: int = 128,
    integer: bool = False,
    shifted: bool = False,
    whole: bool = True,
) -> Module:
    """Choose the module of a family, one of `FAMILIES`.

    `dtype`: of the operand, or of what is decoded; unused by `INTEGER_FAMILIES`. Of
    products_tile: what is multiplied.
    `system`: of `_CONSTANTS`. `components` of a result and `integer` digits: of decode.
    `side` of squares: of products_mma and products_tile. `shifted` columns: of
    `SHIFTED_FAMILIES`. `whole`: whether scale_and_encode keeps whole rows. For those of
    samples see `of_samples`.

    >>> module_for("norms", "complex64").options
    ('-DREAL=float', '-DPARTS=2')
    """
    if family in INTEGER_FAMILIES:
        return Module(family)
    if family == "winograd":
        return Module(family, tuple(_winograd_macros().items()))
    if family in ("products_mma", TILE_FAMILY):
        floats = (("ELEMENT", "float16"),) * (np.dtype(dtype or "i1").kind == "f")
        return Module(family, (("SIDE", str(side)), *floats))
    given = np.dtype(dtype)
    macros = {
        "REAL": _REALS.get(given.name, "double"),
        "PARTS": "2" if given.kind == "c" else "1",
    }
    if shifted:
        assert family in SHIFTED_FAMILIES
        macros["SHIFTED"] = "1"
    if family not in _CONSTANTS:
        return Module(family, tuple(macros.items()))
    assert system is not None
    if family in ("decode", "decode_and_fill"):
        macros["DIGITS"] = str(system.num_digits)
        macros["ELEMENTS"] = str(decode_elements(system))
        macros["RESULTS"] = str(components)
        if integer:
            macros["INTEGER_SUMS"] = "1"
    else:
        macros["WORDS"] = str(encode_words(system))
        if family == "scale_and_encode":
            # Whose registers fit a multiprocessor: 64, or 128 for long words.
            macros["THREADS"] = "1024" if encode_words(system) <= 3 else "512"
            macros["WHOLE"] = str(int(whole))
    return Module(family, tuple(macros.items()), system)


_OF_SAMPLES = {"products": "samples_wgmma", "products_mma": "samples_mma"}


@cache
def of_samples(
    module: Module,
    system: ResidueSystem,
    left: Any,
    right: Any,
    conjugate: bool = False,
) -> Module:
    """Choose the module for samples that is to others what this one is to planes.

    `left`, `right`: dtypes of samples, or of pairs of them as words; `conjugate`:
    whether one of both is conjugated.
    """
    macros = dict(module.macros) | {
        "PARTS": str(system.parts),
        "CONJUGATE": str(int(conjugate)),
        "SUM": f"int{8 * int(system.residue_dtype[1])}",
        "LEFT": "u8" if left.kind == "u" else "s8",
        "RIGHT": "u8" if right.kind == "u" else "s8",
    }
    family = _OF_SAMPLES.get(module.family, module.family)
    return replace(module, family=family, macros=tuple(macros.items()))


def _winograd_macros() -> dict[str, str]:
    """Write the forms' signs, a bit each."""
    macros = {}
    of_rows = RIGHT[:, [0, 2, 1, 3]]  # planes are those of B^T
    for name, form in {"LEFT": LEFT, "RIGHT": of_rows, "RESULT": RESULT}.items():
        for sign, wanted in {"PLUS": form > 0, "MINUS": form < 0}.items():
            bits = sum(1 << int(i) for i in np.flatnonzero(wanted))
            macros[f"{name}_{sign}"] = f"{bits}u"
    return macros


def tile_ir(module: Module) -> bytes:
    """Read what products_tile.py was compiled to, for squares of a side."""
    name = "_".join([module.family, *(value for _, value in module.macros)]) + ".tilebc"
    return files(__package__).joinpath(name).read_bytes()


def _declare_tiles() -> str:
    """Declare products_tile as cuTile calls it: arrays as address, sizes, strides."""
    given = []
    for kind, name, axes in (
        *(("const int8*", "x", 4), ("const int8*", "y", 4)),
        *(("const int32*", "jobs", 1), ("const int32*", "table", 1)),
        *(("const int8*", "old", 4), ("int8*", "residues", 4)),
    ):
        given += [f"{kind} {name}", *(f"int32 {name}_{i}" for i in range(2 * axes))]
    numbers = "adds", "triangle", "rows", "columns", "job_count", "first"
    given += [f"int32 {name}" for name in numbers]
    return f'extern "C" __global__ void {TILE_FAMILY}({", ".join(given)}) {{'


def source_of(module: Module) -> str:
    """Write the text of a module: its constants and its family's; C++17."""
    constants, text = module.constants, text_of(module.family)
    return text if constants is None else constants.text() + text


@cache
def text_of(family: str) -> str:
    """Read the text of a family, the headers it includes in place.

    Kernels wait at their heads until grids before have ended, see `ProgramWriter`.
    """
    if family == TILE_FAMILY:
        return _declare_tiles()
    seen: set[str] = set()

    def load(name: str) -> str:
        if name in seen:
            return ""
        seen.add(name)
        text = files(__package__).joinpath(name).read_text("utf-8")
        return _INCLUDE.sub(lambda match: load(match[1]), text)

    return _KERNEL.sub(r"\g<0> wait_for_grids();", load(f"{family}.cu"))


@cache
def signatures(family: str) -> dict[str, str]:
    """Find the kernels of a family, and the text of their parameters."""
    return dict(_KERNEL.findall(text_of(family)))


@cache
def structures(family: str) -> dict[str, list[str]]:
    """Find the structures of a family without functions, and declare their members."""
    found: dict[str, list[str]] = {}
    for name, members in _STRUCTURE.findall(text_of(family)):
        found[name] = declared = []
        for line in re.sub(r"//.*", "", members).split(";")[:-1]:
            first, *others = line.split(",")
            kind = first[: first.rindex(first.split()[-1])]
            declared += [first, *(kind + x for x in others)]
    return found
