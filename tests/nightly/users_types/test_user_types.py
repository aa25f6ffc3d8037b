"""What a type checker tells a user of the package."""

import pytest

from tests.support.places import ROOT

PREAMBLE = """\
from typing import Any
import dask.array as da
import numpy as np
import numpy.typing as npt
import twom_dist as td

class Device:
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {}

class Tensor:
    def __dlpack__(self, *, stream: Any = None) -> Any: ...

class DataArray:
    @property
    def dims(self) -> Any: ...
    @property
    def coords(self) -> Any: ...

t: Tensor
x: DataArray
a: npt.NDArray[np.complex128]
d: da.Array
g: Device
"""
# Half of the time would go into packages whose types no routine has.
SETTINGS = f"""\
[mypy]
mypy_path = {ROOT}
[mypy-distributed.*,numba.*,zarr.*]
follow_imports = skip
"""
NUMPY, DASK, DEVICE, PLAN = "numpy.ndarray[", "dask.array.", "user.Device", "Plan"
TYPES = {
    "td.gemm(a, a, a, alpha=2j, beta=1, op_a='C', accuracy=1e-12)": NUMPY,
    "td.gemm([[1, 2]], [[3.0], [4j]])": NUMPY,
    "td.ssyrk(A=a, C=a, beta=1, uplo='lower')": NUMPY,
    "td.syr2k(a, a, op='T', method='blas', engine='auto')": NUMPY,
    "td.gemm(a, d)": DASK,
    "td.gemm(d, g)": DASK,
    "td.herk(d)": DASK,
    "td.her2k(a, d)": DASK,
    "td.gemm(g, g)": DEVICE,
    "td.zher2k(g, g, g, beta=1)": DEVICE,
    "td.twofold.gemm(a, a)": "tuple[Any, Any]",
    "td.integers.gemm(a, a, pairs=True)": NUMPY,
    "td.integers.syrk(d, uplo='lower')": DASK,
    "td.matmul(a, [1, 2], method='auto')": NUMPY,
    "td.matmul(d, a, accuracy=1e-9)": DASK,
    "td.tensordot(g, g, axes=([0], [1]))": DEVICE,
    "td.einsum('ij,jk,kl', a, a, a, optimize='greedy', method='2m')": "Any",
    "(td.herk if a.size else td.syrk)(a, uplo='lower')": NUMPY,
    "td.gemm(t, a, out=t)": "user.Tensor",
    "td.zherk(t, uplo='lower')": "user.Tensor",
    "td.xarray.gemm(x, x, dim='time')": "user.DataArray",
    "td.plan(td.gemm, a, d)": PLAN,
    "td.plan(td.syrk, (2, 3), chunks=2, method='3m')": PLAN,
}
MISTAKES = [
    "td.tensordot(g, a)",
    "td.einsum('ij,jk', a, a, method='5m')",
    "td.gemm(a, 'a')",
    "td.gemm(a)",
    "td.gemm(g, a)",
    "td.xarray.gemm(x, a, dim='time')",
    "td.gemm(a, a, gamma=3)",
    "td.gemm(a, a, op='C')",
    "td.gemm(a, a, accuracy='good')",
    "td.gemm(a, a, num_moduli=2.5)",
    "td.twofold.herk(a, alpha=2)",
    "td.xarray.gemm(x, x)",
    "td.zherk(a, uplo='Lower')",
    "td.herk(a, engine='gpu')",
    "td.her2k(a)",
    "td.gemm(a, a, out='dd')",
    "td.gemm(a, a, accuracy='exact')",
    "td.integers.gemm(a, a, alpha=2)",
]


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    api = pytest.importorskip("mypy.api")
    folder = tmp_path_factory.mktemp("user")
    expressions = [*TYPES, *MISTAKES]
    lines = [f"reveal_type({x})\n" for x in expressions]
    (folder / "user.py").write_text(PREAMBLE + "".join(lines))
    (folder / "mypy.ini").write_text(SETTINGS)
    flags = [f"--config-file={folder / 'mypy.ini'}", "--no-error-summary"]
    flags.append(f"--cache-dir={ROOT / '.mypy_cache' / 'user'}")
    out, err, _ = api.run([*flags, str(folder / "user.py")])
    assert err == ""
    found = dict.fromkeys(expressions, "")
    before = PREAMBLE.count("\n") + 1
    for line in out.splitlines():
        path, number, text = line.split(":", 2)
        if path.endswith("user.py"):
            found[expressions[int(number) - before]] += text + "\n"
    return found


def test_results_have_the_type_of_the_inputs(findings):
    for expression, wanted in TYPES.items():
        found = findings[expression].replace("twom_dist.plan.record.", "")
        assert f'Revealed type is "{wanted}' in found, expression
        assert "error:" not in found, expression


def test_mistakes_are_found(findings):
    assert [x for x in MISTAKES if "error:" not in findings[x]] == []
