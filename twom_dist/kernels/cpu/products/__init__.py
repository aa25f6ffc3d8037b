"""Products of int8 planes, by the microkernel or by AMX."""
