"""A problem: what was asked of which matrices, checked once."""
