"""Arrays between workers, not through dask's connection."""
