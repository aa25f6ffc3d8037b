"""Scale, round to integers, and reduce to planes of residues."""
