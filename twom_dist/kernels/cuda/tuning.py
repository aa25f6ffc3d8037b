"""Tuned numbers of the CUDA engine, and what each was chosen by."""

# int32 sums of one cuBLAS call: written by it and read by the requantisation, best from
# L2 (50 MiB on an H100 or H200). By arithmetic; not measured.
SUMS_BYTES = 32 << 20

# Elements along k that one thread reduces in the norm pass, before its one atomic. By
# arithmetic; not measured.
STRIP = 32

# Atomics of a fingerprint spread over so many words.
FINGERPRINT_SLOTS = 1024

# Share of the device's memory that planes, residues and sums may take where the setting
# workspace-bytes is null: beside them lie A, B and C.
WORKSPACE_SHARE = 0.5

# Side of the tiles of rank-k updates without a half form: T x T tiles waste 1/(2T).
UPDATE_TILES = 8
SMALLEST_UPDATE_TILE = 2048
