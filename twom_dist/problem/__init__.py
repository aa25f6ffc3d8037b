"""A problem: a call and its matrices, checked once."""
