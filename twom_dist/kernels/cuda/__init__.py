"""CUDA kernels, one family per file, with the tables and launch shapes they expect."""
