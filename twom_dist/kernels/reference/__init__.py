"""The oracle: obvious, slow, exact (Python integers and NumPy)."""
