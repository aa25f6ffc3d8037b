"""autoray's backend "twom_dist", in which only products are this package's.

autoray, and so cotengra and quimb, look up every function in the module with the name
of the backend.
"""

import sys
from typing import Any

from . import linalg, numpy

OURS = {
    **{name: getattr(numpy, name) for name in ("dot", "vecdot")},
    **{f"linalg.{name}": getattr(linalg, name) for name in linalg.__all__},
}


class OfArrays:
    """Function that autoray finds for the arrays that it gets, or a module of such."""

    def __init__(self, path: str) -> None:
        self._path = path  # its name to autoray, such as "linalg.svd"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _find(f"{self._path}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Have autoray call it."""
        autoray = sys.modules["autoray"]
        arrays = [*autoray.tree_iter((args, kwargs), autoray.is_array)]
        # Named, since the backend of all calls may be this package.
        library = autoray.infer_backend_multi(*arrays) if arrays else "numpy"
        return autoray.do(self._path, *args, like=library, **kwargs)


def _find(path: str) -> Any:
    return OURS.get(path) or OfArrays(path)


def __getattr__(name: str) -> Any:
    """Return what autoray knows by a name; `twom_dist` has nothing else called so."""
    autoray = sys.modules.get("autoray")
    if autoray is not None and not name.startswith("_"):
        try:
            getattr(autoray.get_namespace("numpy"), name)
        except ImportError:
            pass
        else:
            return _find(name)
    raise AttributeError(f"module 'twom_dist' has no attribute {name!r}")
