"""Computation of a problem: arrays in memory at once, dask arrays lazily."""
