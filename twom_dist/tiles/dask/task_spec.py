"""dask's task classes; `dask.task_spec` lacks what converts old graphs."""

from dask._task_spec import (
    Alias,
    DataNode,
    List,
    NestedContainer,
    Task,
    TaskRef,
    convert_legacy_graph,
)
from dask._task_spec import _execute_subgraph as execute_subgraph
