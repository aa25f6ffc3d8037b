"""GPUs: driver, CuPy, the int8 product, and what dask needs to move their blocks."""

from collections.abc import Iterator
from importlib import import_module

import numpy as np

from ..errors import EngineUnavailableError
from .cuda import has_ucx
from .engines import describe_rate, extreme_operands, measure
from .nvml import Gpus
from .report import Finding, failure, fine, warning

# Large enough for a GPU's full rate, small enough for milliseconds.
_SIDE = 4096


def check_gpus(gpus: Gpus) -> Iterator[Finding]:
    """Say what NVML counts."""
    if gpus.visible:
        models = sorted({(gpu.name, gpu.total_bytes >> 30) for gpu in gpus.visible})
        named = ", ".join(f"{name} ({size} GiB)" for name, size in models)
        versions = "driver {}, for CUDA up to {}.{}".format(gpus.driver, *gpus.cuda)
        yield fine("GPU", f"{gpus.count}, {named}; {versions}")
    elif gpus.present:
        advice = "unset CUDA_VISIBLE_DEVICES to use them"
        yield warning("GPU", f"none, as {gpus.reason}", advice)
    else:
        yield fine("GPU", f"none, as {gpus.reason}")


def check_cupy(gpus: Gpus) -> Iterator[Finding]:
    """Open the device as the CUDA engine does, multiply on it, and send a block."""
    from ..kernels.cuda.device import open_device

    if not gpus.visible:
        return
    try:
        open_device()
    except EngineUnavailableError:
        # The finding about engines says so.
        return
    import cupy
    from cupy.cuda import cublas, device

    cuda = cupy.cuda.runtime.runtimeGetVersion()
    blas = cublas.getVersion(device.get_cublas_handle())
    capability = cupy.cuda.Device().compute_capability
    yield fine(
        "CuPy",
        f"{cupy.__version__}, CUDA {cuda // 1000}.{cuda % 1000 // 10}, cuBLAS {blas}, "
        f"compute capability {capability}",
    )
    yield _check_int8()
    yield _check_blocks(gpus)


def _check_int8() -> Finding:
    """Multiply extreme values through cuBLAS, and time a product."""
    import cupy

    from ..kernels.cuda.device import open_device

    name, device = "int8 product, cuda", open_device()
    x, y = extreme_operands()
    sums = device.empty((1, x.shape[1], y.shape[1]), np.int32)
    device.multiply_int8(cupy.asarray(x), cupy.asarray(y), sums)
    exact = x.astype(np.int64) @ y.swapaxes(1, 2).astype(np.int64)
    if not np.array_equal(cupy.asnumpy(sums), exact):
        advice = "update the driver and CuPy; if that does not help, report it"
        return failure(name, "cuBLAS is not exact", advice)
    # Zeros would cost less power, and so time.
    values = np.random.default_rng(0).integers(-128, 128, (1, _SIDE, _SIDE), np.int8)
    a, out = cupy.asarray(values), device.empty((1, _SIDE, _SIDE), np.int32)

    def multiply() -> None:
        device.multiply_int8(a, a, out)
        device.synchronize()

    rate = describe_rate(measure(multiply, 2 * _SIDE**3))
    return fine(name, f"cuBLAS, exact, {rate}")


def _check_blocks(gpus: Gpus) -> Finding:
    """Send a block through dask's serialisation, as a transfer or a spill does."""
    import cupy
    from distributed.protocol import deserialize, serialize

    name, block = "CuPy blocks", cupy.arange(16)
    try:
        sent = serialize(block, serializers=["dask"], on_error="raise")
        same = bool((deserialize(*sent) == block).all())
    except Exception as error:
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        found = f"none can be sent, gathered or spilled ({text})"
        advice = f"distributed needs numba-cuda: {_install(gpus)}"
        return failure(name, found, advice)
    if not same:
        return failure(name, "sending one changes it", "report it")
    return fine(name, "dask sends and spills them")


def check_dask_on_gpus(gpus: Gpus) -> Iterator[Finding]:
    """Import what puts workers on GPUs, and what connects them."""
    if not gpus.visible:
        return
    for name, module, cost in (
        ("dask-cuda", "dask_cuda", "local_cluster and `dask cuda worker` need it"),
        ("RMM", "rmm", "CuPy and transfers share no pool of memory"),
    ):
        try:
            version = getattr(import_module(module), "__version__", "unknown version")
        except ImportError as error:
            yield warning(name, f"{error}: {cost}", _install(gpus))
        else:
            yield fine(name, str(version))
    if has_ucx():
        yield fine("UCX", 'distributed-ucxx gives the protocol "ucx"')
    else:
        cost = "blocks go from GPU to GPU through host memory and TCP"
        yield warning("UCX", cost, _install(gpus))


def _install(gpus: Gpus) -> str:
    return f"pip install 'twom-dist[{gpus.extra}]'"
