"""A product that is computed again and again: checked once, its memory kept."""

from collections.abc import Hashable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from ..errors import ArgumentError, PlanError
from ..interop.dlpack import adopt
from ..kernels.device_memory import OwnMemory
from ..kernels.family import family_of
from ..kernels.graphs import Graphs
from ..problem.call import Call
from ..problem.integer_valued import is_floating
from ..problem.matrices import as_matrix, is_dask, read_shape
from ..problem.problem import of_headers
from ..problem.scalars import as_number
from ..run.prepared import compute_arrays
from ..typing import as_flag
from .gemm import gemm
from .routine import ask


class Product:
    """A routine for NumPy or CuPy arrays of given shapes, called any number of times.

    On a GPU the memory of a call stays for the next one, so that a call that writes to
    `out` can be captured into a CUDA graph: after a first call, which compiles and
    allocates, and with moduli that do not depend on the data (`num_moduli`,
    ``accuracy="normwise"`` or a number). The graph reads and writes the arrays of the
    call that was captured; it needs this object as long as it lives. All graphs and
    calls of one object share its memory: wait for one replay before the next, and
    before a call, on whatever streams they are. Capturing takes a GPU whose products
    are fused (see `kernels.cuda.tuning`): elsewhere cuBLAS multiplies, which CuPy does
    not let a graph capture.

    With ``graph=True`` the object does all of this: calls that write to `out` are
    captured when their arrays lie where they have lain before, and replayed from then
    on, each after the last one, on whatever streams they are. A graph knows addresses,
    not arrays: as in any call of CuPy's, what another stream still writes there has to
    be waited for.

    Parameters
    ----------
    A : (int, int)
        Shape of A.
    B : (int, int), optional
        Shape of B, for gemm, her2k and syr2k.
    dtype : dtype
        Of the matrices.
    graph : bool
        Whether calls with `out` are captured and replayed; of CuPy arrays alone.
    routine : function
        `gemm` (default), `herk`, `syrk`, `her2k`, `syr2k`, a BLAS-typed name of these,
        or one of ``integers`` and ``twofold``.
    **options
        As in the routine, but for out and pairs.

    Raises
    ------
    TwomError
        As the routine does, and if a matrix has another shape or dtype.

    Examples
    --------
    >>> import numpy as np
    >>> import twom_dist as td
    >>> product = td.Product((2, 2), (2, 2), "complex128", num_moduli=16)
    >>> A, C = np.array([[1, 2j], [0, 1]]), np.empty((2, 2), complex)
    >>> product(A, A, out=C) is C
    True
    >>> C
    array([[1.+0.j, 0.+4.j],
           [0.+0.j, 1.+0.j]])
    """

    def __init__(
        self,
        A: tuple[int, int],
        B: tuple[int, int] | None = None,
        dtype: Any = "complex128",
        *,
        graph: bool = False,
        routine: Any = gemm,
        **options: Any,
    ) -> None:
        if "out" in options:
            text = "a Product has no out of its own"
            raise ArgumentError(text, "Give it to each call", "out")
        call = ask(routine, (A,) if B is None else (A, B), options, type(self))
        terms = call.terms
        if call.C is not None:
            count = terms.routine.matrices
            text = f"a Product of {terms.routine.name} is made of {count} shapes"
            raise ArgumentError(text, "Give C to each call", "two-b")
        if terms.choice.pairs:
            text = "a Product takes matrices of two dimensions, not pairs"
            raise ArgumentError(text, "Call the routine itself", "pairs")
        if call.diag is not None:
            text = "a Product takes no diag"
            raise ArgumentError(text, "Call the routine itself", "diag")
        if call.names is not None:
            text = "a Product has no named dimensions"
            raise ArgumentError(text, "Give a routine of plain arrays", "routine")
        if terms.beta is not None:
            terms = terms._replace(beta=as_number(terms.beta, "beta"))
        self._terms = terms._replace(alpha=as_number(terms.alpha, "alpha"))
        self._headers = {
            name: read_shape(name, shape, dtype)
            for name, shape in (("A", call.A), ("B", call.B))
            if shape is not None
        }
        left, right = (self._headers.get(name) for name in ("A", "B"))
        posed = of_headers(Call(terms._replace(beta=None), left, right))
        self._graph = as_flag("graph", graph)
        looks = posed.spec.exact and is_floating(posed.a.dtype)
        if self._graph and (looks or posed.spec.looks):
            text = "graph=True captures a product before its data are known"
            remedy = (
                "Give num_moduli, accuracy='normwise' or a number, and "
                "equilibrate=False; of an exact product integers"
            )
            raise PlanError(text, remedy, "graph")
        self._own: OwnMemory | None = None
        # Streams, events and graphs belong to a device.
        self._graphs: dict[int, Graphs] = {}

    def __call__(self, A: Any, B: Any = None, C: Any = None, *, out: Any = None) -> Any:
        """Compute the routine of these matrices, into `out` if that is given.

        Parameters
        ----------
        A, B, C : array
            Arrays in memory that `gemm` takes, of the host or of a GPU.
        out : (m, n) array, optional
            As in the routine.

        Returns
        -------
        array
        """
        (A, B, C, out), give_back = adopt(A=A, B=B, C=C, out=out)
        A, B = self._check("A", A), self._check("B", B)
        compute = partial(compute_arrays, Call(self._terms, A, B, C, out))
        with self._memory(A):
            if not self._graph or out is None or family_of(out) == "numpy":
                return give_back(compute())
            graphs = self._graphs.get(out.device.id)
            if graphs is None:
                graphs = self._graphs.setdefault(out.device.id, Graphs())
            graphs.run(_places(A, B, C, out), compute)
            return give_back(out)

    def _check(self, name: str, x: Any) -> Any:
        """Return a matrix; refuse what the product was not made for."""
        made = self._headers.get(name)
        if made is None or x is None:
            return x  # the routine knows how many it takes
        if is_dask(x):
            text = f"{name} is a dask array, and a Product is of arrays in memory"
            raise ArgumentError(text, "Call the routine itself", "dask")
        x = as_matrix(x, name)
        if (x.shape, x.dtype) != (made.shape, made.dtype):
            raise PlanError(
                f"{name} is {_name(x)}, and the product was made for {_name(made)}",
                "Make another Product",
                "other-matrix",
            )
        return x

    def _memory(self, x: Any) -> AbstractContextManager[None]:
        """Allocate on a GPU from memory that nobody else takes from."""
        if family_of(x) == "numpy":
            return nullcontext()
        if self._own is None:
            self._own = OwnMemory()
        return self._own.use()


def _places(*arrays: Any) -> Hashable:
    """Tell where arrays lie; dtypes and shapes but those of C and out are known."""
    return tuple(
        None if x is None else (x.data.ptr, x.shape, x.strides, x.dtype) for x in arrays
    )


def _name(x: Any) -> str:
    return f"{' x '.join(map(str, x.shape))} of {np.dtype(x.dtype)}"
