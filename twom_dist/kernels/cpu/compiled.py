"""How kernels are compiled: to run without Python's lock, and once for a machine."""

from functools import partial

from numba import njit

kernel = partial(njit, nogil=True, cache=True)
# Of those that kernels alone call: without what Python and C would call them by, which
# saves a tenth of the time. A call from Python ends the process.
inner = partial(kernel, no_cpython_wrapper=True, no_cfunc_wrapper=True)
