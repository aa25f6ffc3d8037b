"""The tasks of a lazy product, counted by their stage."""

from collections import Counter

from twom_dist.tiles.dask.task_spec import Alias


def count_stages(array):
    """Count our tasks by the prefix of their keys; an alias is no task."""
    found = Counter()
    for key, task in dict(array.__dask_graph__()).items():
        name = key[0] if isinstance(key, tuple) else key
        if name.startswith("twom-") and not isinstance(task, Alias):
            found[name.rpartition("-")[0]] += 1
    return found
