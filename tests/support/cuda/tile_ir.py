"""Compile products_tile.py to Tile IR with cuTile, or describe it to a stand-in."""

import linecache
import runpy
from importlib.resources import files
from io import BytesIO

from twom_dist.kernels.cuda.products import SQUARES
from twom_dist.kernels.cuda.tuning import TILES

FOLDER = files("twom_dist.kernels.cuda")
MODULES = [squares.module for name in TILES for squares in SQUARES[name]]
# That of CUDA 13.3, the first whose driver compiles it for every GPU.
VERSION = "13.3"


def export(module):
    """Compile a module; two multiprocessors share a square of 256."""
    import cuda.tile as ct
    from cuda.tile import compilation

    side, floats = int(dict(module.macros)["SIDE"]), "ELEMENT" in dict(module.macros)

    def array(kind, axes, step, *groups):
        """Describe an array whose address and strides `step` divides."""
        return compilation.ArrayConstraint(
            kind,
            axes,
            index_dtype=ct.int32,  # TMA takes no other
            stride_lower_bound_incl=0,
            alias_groups=groups,
            may_alias_internally=False,
            stride_constant=(*(None,) * (axes - 1), 1),
            stride_divisible_by=(*(step,) * (axes - 1), 1),
            base_addr_divisible_by=step,
        )

    planes, table = array(ct.int8, 4, 16), array(ct.int32, 1, 4)
    own = array(ct.int8, 4, 16, "residues")
    numbers = [compilation.ScalarConstraint(ct.int32)] * 6
    given = [planes, planes, table, table, own, own, *numbers]
    given += [compilation.ConstantConstraint(t) for t in (side, floats)]
    function = _load()
    convention = compilation.CallingConvention.cutile_python_v2()
    signature = compilation.KernelSignature(given, convention, function.__name__)
    kernel, out = ct.kernel(function, num_ctas=2 if side == 256 else None), BytesIO()
    how = {"output_format": "tileir_bytecode", "bytecode_version": VERSION}
    compilation.export_kernel(kernel, [signature], out, **how)
    return out.getvalue()


def _load():
    """Load the file; what debug information names is the same wherever it lies."""
    path = FOLDER / "products_tile.py"
    lines = path.read_text("utf-8").splitlines(True)
    linecache.cache[path.name] = len(lines), None, lines, path.name
    found = runpy.run_path(str(path))
    for function in map(found.get, ("products_tile", "load_rows", "locate_square")):
        function.__code__ = function.__code__.replace(co_filename=path.name)
    return found["products_tile"]


if __name__ == "__main__":
    for module in MODULES:
        name = "_".join([module.family, *(value for _, value in module.macros)])
        (FOLDER / f"{name}.tilebc").write_bytes(export(module))
