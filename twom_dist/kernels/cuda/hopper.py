"""Code for sm_90a, and tensor maps of planes for TMA, which CuPy cannot create.

Both need direct calls of NVRTC and of the driver.
"""

import ctypes
import hashlib
import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from ...errors import INSTALL_CUDA, KernelError
from .driver import driver_function
from .sources import Module, source_of

TENSOR_MAP = np.dtype([("word", "<u8", (16,))])  # a CUtensorMap for products.cu

_OPTIONS = ("--std=c++17", "-arch=sm_90a")
_CACHE = "~/.cupy/kernel_cache"
_DIGEST_BYTES = hashlib.sha256().digest_size

# Rows of planes whose order the copies change, see row_of_slot in products.cu; and the
# bytes of a row that are copied at once, a line of the cache if rows begin with one.
ROW_GROUP, LINE = 64, 128
# Enumerators of cuda.h: CU_TENSOR_MAP_...
_UINT8, _NO_INTERLEAVE, _SWIZZLE_128B, _PROMOTE_256B, _FILL_ZEROS = 0, 0, 3, 3, 0


def cubin_of(module: Module) -> bytes:
    """Compile for sm_90a, or read what an earlier process has compiled.

    The code is kept next to CuPy's, where CuPy keeps any and that can be written to,
    behind a digest: damaged code is recognised, and compiled again.
    """
    from cupy.cuda import nvrtc

    options = (*_OPTIONS, *module.options)
    text = source_of(module)
    key = repr((nvrtc.getVersion(), options, text)).encode()
    folder = os.environ.get("CUPY_CACHE_DIR") or os.path.expanduser(_CACHE)
    path = Path(folder) / f"twom_dist-{hashlib.sha256(key).hexdigest()}.cubin"
    in_memory = os.environ.get("CUPY_CACHE_IN_MEMORY", "0") == "1"
    with suppress(OSError):
        kept = b"" if in_memory else path.read_bytes()
        digest, code = kept[:_DIGEST_BYTES], kept[_DIGEST_BYTES:]
        if digest == _digest(code):
            return code
    program = nvrtc.createProgram(text, f"{module.family}.cu", (), ())
    try:
        nvrtc.compileProgram(program, options)
        code = bytes(nvrtc.getCUBIN(program))
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(program)
        problem = f"NVRTC cannot compile {module.family}.cu ({error}): {log}"
        remedy = f"Install CuPy with {INSTALL_CUDA}"
        raise KernelError(problem, remedy, "nvrtc") from None
    finally:
        nvrtc.destroyProgram(program)
    with suppress(OSError):
        if not in_memory:
            _keep(path, _digest(code) + code)
    return code


def _digest(code: bytes) -> bytes:
    return hashlib.sha256(code).digest()


def _keep(path: Path, code: bytes) -> None:
    """Write so that other processes see the whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{uuid4().hex}")
    try:
        partial.write_bytes(code)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _array(kind: Any, *values: int) -> Any:
    return (kind * len(values))(*values)


# The pool gives the same addresses again and again; a call took 35 us in a profile.
@lru_cache(maxsize=256)
def map_planes(address: int, shape: tuple[int, int, int]) -> bytes:
    """Describe planes to the copy engine.

    A copy moves 128 rows x 128 bytes. Of 64 rows, row ``16 t + 2 j + b`` comes at place
    ``8 j + 2 t + b``: five axes, ``k, b, t, j`` and groups of 64 rows. The address is a
    multiple of 128; the shape (planes, rows, k) that of contiguous int8, with rows in
    multiples of 64 and k of 128. Returns the bytes of a `TENSOR_MAP`, which a kernel
    takes as an argument.
    """
    count, rows, k = shape
    lengths = k, 2, 4, 8, count * rows // ROW_GROUP
    return _map(address, lengths, (k, 16 * k, 2 * k, ROW_GROUP * k), (LINE, 2, 4, 8, 2))


def map_rows(address: int, rows: int, nbytes: int, distance: int) -> bytes:
    """Describe rows as they lie: the address and the distance are multiples of 16."""
    box = LINE, 1, 1, 1, 2 * ROW_GROUP
    return _map(address, (nbytes, 1, 1, 1, rows), (distance,) * 4, box)


def _map(
    address: int,
    lengths: tuple[int, ...],
    distances: tuple[int, ...],
    box: tuple[int, ...],
) -> bytes:
    steps = _array(ctypes.c_uint32, 1, 1, 1, 1, 1)
    sizes = (_array(ctypes.c_uint64, *x) for x in (lengths, distances))
    # The driver wants it at a multiple of 64 bytes.
    buffer = np.zeros(3 * TENSOR_MAP.itemsize // 2, np.uint8)
    start = -buffer.ctypes.data % 64
    out = buffer[start : start + TENSOR_MAP.itemsize].view(TENSOR_MAP)
    status = driver_function("cuTensorMapEncodeTiled")(
        *(ctypes.c_void_p(out.ctypes.data), _UINT8, ctypes.c_uint32(5)),
        *(ctypes.c_void_p(address), *sizes, _array(ctypes.c_uint32, *box), steps),
        *(_NO_INTERLEAVE, _SWIZZLE_128B, _PROMOTE_256B, _FILL_ZEROS),
    )
    if status != 0:
        problem = f"the driver cannot map {lengths} bytes (error {status})"
        raise KernelError(problem, "Update the NVIDIA driver", "tensor-map")
    return out.tobytes()
