"""Where tiles of C are computed: grids, triangles, and the scheduler plugin."""
