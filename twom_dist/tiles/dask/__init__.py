"""The program of a product as a dask graph, and the places of its tasks."""
