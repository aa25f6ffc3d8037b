"""Products of integers without any rounding, beyond what a double holds, too."""
