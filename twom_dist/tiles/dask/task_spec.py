"""dask's task classes, wherever this release keeps them."""

try:
    from dask.task_spec import (
        Alias,
        DataNode,
        List,
        Task,
        TaskRef,
        convert_legacy_graph,
    )
except ImportError:  # dask before 2026 has them under a private name
    from dask._task_spec import (
        Alias,
        DataNode,
        List,
        Task,
        TaskRef,
        convert_legacy_graph,
    )
