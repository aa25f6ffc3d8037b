"""The CPU engine, beside a CUDA engine of NumPy arrays."""


def on_cpu(routine, *args, **options):
    """Compute with the CPU engine, whatever "auto" is."""
    import twom_dist.kernels.registry as registry

    patched = registry._OF_FAMILY["numpy"]
    registry._OF_FAMILY["numpy"] = "cpu"
    try:
        return routine(*args, **options)
    finally:
        registry._OF_FAMILY["numpy"] = patched
