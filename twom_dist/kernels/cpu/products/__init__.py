"""Products of int8 planes: by the microkernel, by AMX, or by a BLAS."""
