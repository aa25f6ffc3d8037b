"""Memory of a device that others use as well: what a product takes of it."""

from types import SimpleNamespace
from unittest import mock

import dask

from twom_dist.kernels.cuda import workspace
from twom_dist.moduli import residue_system


def test_a_workspace_is_of_what_is_free_and_tiles_fit_it():
    """With a quarter for encoded tiles that wait for reuse."""
    for setting, needed, free, expected in (
        (None, 100, 0, 1600),  # so little that it does not ask
        (None, 101, 4000, 1600),
        (None, 101, 1000, 800),
        (None, 5000, 10, 100),
        (None, 5000, None, 1600),
        (700, 5000, 10, 700),
    ):
        given = {"total_bytes": lambda: 3200, "free_bytes": lambda free=free: free}
        with dask.config.set({"twom-dist.workspace-bytes": setting}):
            found = workspace.available_bytes(SimpleNamespace(**given), needed)
        assert found == expected, (setting, needed, free)
    given["free_bytes"] = lambda: None
    state = SimpleNamespace(nthreads=4)
    with mock.patch(
        "distributed.get_worker", return_value=SimpleNamespace(state=state)
    ):
        # Threads of a worker share what nobody can ask for.
        assert workspace.available_bytes(SimpleNamespace(**given), 5000) == 1600 // 4
    system, shape = residue_system("2m", 16), (4096, 4096, 4096)
    for limit in range(1 << 27, 1 << 32, 1 << 27):
        tiles = workspace.fit_tiles(system, shape, limit, 0)
        taken = tiles.mb, tiles.nb, tiles.kb
        used = workspace.working_bytes(system, taken, 0)
        assert used + (taken != shape) * tiles.cache_bytes <= limit
