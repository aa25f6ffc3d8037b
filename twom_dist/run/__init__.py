"""A problem computed: arrays in memory now, dask arrays lazily."""
