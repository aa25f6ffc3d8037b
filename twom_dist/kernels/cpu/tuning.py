"""Tuned numbers of the CPU engine, each with the measurement that gave it."""

# Blocks of C that one int8 product fills. AMD EPYC (Zen 4), one core, u8 x s8:
# 512 x 512 x k runs at 393-413 Gop/s for k = 512..2048, one 2048 block at 300-330.
BLOCK = 512

# Columns of k between two reductions modulo p:
# |sum| <= 2^16 * 255 * 128 < 2^31.
LARGEST_K = 1 << 16
