"""Reconstruct entries from residues, and finish the tile."""
