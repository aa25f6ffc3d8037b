"""Tuned numbers of the CPU engine, each with the measurement that gave it."""

# Bytes of a plane of the left operand that stay in L2 while the right one passes by,
# and columns of k that are summed before sums are reduced. They hardly matter: from 730
# to 850 Gop/s for 2^16 to 2^20 bytes and 1024 to 4096 columns, n = 2048 (AMD EPYC
# family 26, one thread, beside other work).
BLOCK_BYTES = 1 << 18
LONGEST_SUM = 4096
# Bytes of a strip of AMX's left operand: 256 rows of 4096 columns, whose 8 blocks fetch
# the columns that follow. Products of 4096 ran at 3.65 Tera-operations a second with
# 2^20 bytes and at 2.72 with 2^19, products of 2048 at 1.96 and 1.92, on two busy cores
# (gemm-cpu-amx.jsonl).
TILES_BYTES = 1 << 20

# Entries of rows whose factors are found before their planes are made.
QUANTISED = 1 << 13

# Planes and residues of the rows of C that are computed at a time, which find the pages
# of those before; and the fewest rows. n = 4096 took 7.4, 5.6, 5.3, 5.8 s with 2^24 to
# 2^27 bytes, and 8.7 whole (AMD EPYC family 26, 2 threads, beside other work, where
# NumPy took 6.7). Where Winograd's algorithm multiplies, strips are so many times as
# high: n = 4096 took 4.65 s of both cores with 2^27 bytes, 4.35 with 2^28, and as many
# with 2^29, whose pages exceed `REUSE_BYTES`; with 3 x 2^27 in place of 2^28 and 17
# moduli n = 4096 took 0.94 of the time by default and 0.98 with these given, and 2048,
# which is then one strip, 0.97 and 0.99 (the same machine).
STRIP_BYTES, SMALLEST_STRIP, QUARTERED = 1 << 27, 256, 3

# Side from which tiles of updates are cut whose diagonal ones cost half: herk of 1024,
# 2048 and 4096 took 0.98, 0.89 and 0.88 of the time of tiles of 512, real syrk 0.88,
# 0.74 and 0.94; tiles of 4096 took 1.04 and 1.01 of that of tiles of 2048 (AMD EPYC
# family 26, 2 threads; rank-k-cpu-zen5.jsonl).
UPDATE_TILE = 2048

# Harmonic means of m, n and k from which one level and two levels of Winograd's
# algorithm pay. Products of planes took, with one level and with two, 0.98 and 1.07 of
# the time at 1024, 1.0 and 1.03 for 512 x 2048 x 2048 (a mean of 1024), 0.96 and 0.94
# at 2048, 0.85 and 0.81 at 4096: one thread, the same machine.
CROSSOVERS = (1200.0, 3900.0)
# Cores of a process that takes it by default: 16 threads leave each other no room in
# the caches. There whole products of 2048 and 4096 took 1.10 and 1.20 times as long
# with a level (Intel Xeon with AMX). Not measured between 2 and 16.
MOST_CORES = 4

# Planes and residues of the matrices of a stack that a thread computes together: the
# fewest, below which our Python takes longer, and the most.
STACK_BYTES = 1 << 21, 1 << 24
