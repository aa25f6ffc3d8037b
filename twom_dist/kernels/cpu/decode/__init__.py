"""Reconstruct entries from residues, and finish tiles."""
