"""Installed packages: their versions, and those that do not go together."""

from collections.abc import Iterator
from importlib.metadata import Distribution, distributions

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .report import Finding, failure, fine, warning

# All that they ask for is needed.
_CORE = ("twom-dist", "distributed")
_HOST = ("numpy", "dask", "numba", "onnxruntime", "zarr", "h5py")
_CUPY = ("cupy", "cupy-cuda12x", "cupy-cuda13x")
_GPU = (
    *_CUPY,
    "dask-cuda",
    "rapids-dask-dependency",  # holds dask-cuda's pin of dask
    "numba-cuda",
    *("rmm-cu12", "rmm-cu13"),
    *("distributed-ucxx-cu12", "distributed-ucxx-cu13"),
)
_SUBJECTS = (*_CORE, *_HOST, *_GPU)

Installed = dict[str, Distribution]


def find_packages() -> Installed:
    """Find what is installed, by canonical name; the first on the path counts."""
    found: Installed = {}
    for distribution in distributions():
        # What a broken removal leaves behind has no name.
        if "Name" in distribution.metadata:
            name = canonicalize_name(distribution.metadata["Name"])
            found.setdefault(name, distribution)
    return found


def check_versions() -> Iterator[Finding]:
    """List the packages that a product runs through."""
    found = find_packages()
    shown = [f"{name} {found[name].version}" for name in _SUBJECTS if name in found]
    yield fine("packages", ", ".join(shown))
    cupys = [name for name in _CUPY if name in found]
    if len(cupys) > 1:
        advice = f"pip uninstall {' '.join(cupys)}, then install one of them"
        yield failure("packages", f"{', '.join(cupys)} overwrite each other", advice)


def check_pins() -> Iterator[Finding]:
    """Hold what these packages ask of each other against what is installed."""
    found = find_packages()
    clashes = [
        clash for name in _SUBJECTS if name in found for clash in _clashes(name, found)
    ]
    if not clashes:
        yield fine("pins", "every package finds the versions that it asks for")
    yield from clashes


def _clashes(name: str, found: Installed) -> Iterator[Finding]:
    """List the requirements of a package that are not met."""
    for text in found[name].requires or ():
        wanted = Requirement(text)
        other = canonicalize_name(wanted.name)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        if name not in _CORE and other not in _SUBJECTS:
            continue
        version = found[other].version if other in found else None
        if version and wanted.specifier.contains(version, prereleases=True):
            continue
        state = (
            f"{name} {found[name].version} asks for {other}{wanted.specifier}, "
            f"{version or 'none'} is installed"
        )
        advice = f"pip install '{other}{wanted.specifier}'"
        make = failure if name in _CORE else warning
        yield make("pins", state, advice)
