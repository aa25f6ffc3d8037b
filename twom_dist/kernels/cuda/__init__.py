"""CUDA kernels, one family a file, with the tables and launch shapes they expect."""
