"""Tiles: grids, block tasks, the task graph, placement and the encoded-tile cache."""
