"""Other datasets and files from which an HDF5 dataset takes its values."""

import math
import os
from collections.abc import Iterator
from typing import Any

import h5py
from h5py import h5o, h5s

from ..errors import StoreError
from ._location import make_absolute
from ._tree import check_kind

# As many as HDF5 follows, one after the other.
_MOST_LINKS = 16
# Sources of a virtual dataset; opening one takes some 0.3 ms.
_MOST_SOURCES = 100_000


def look_up(group: Any, name: str) -> Any:
    """Return what has a name; None if nothing has."""
    _check_links(group, name)
    return group.get(name)


def _check_links(group: Any, name: str, left: int = _MOST_LINKS) -> None:
    """Refuse links to pipes: HDF5 would wait for who writes into them."""
    node, parts = group, [x for x in name.split("/") if x not in ("", ".")]
    for n, part in enumerate(parts if left else ()):
        if not isinstance(node, h5py.Group):
            return
        link = node.get(part, getlink=True)
        beyond = "/".join((getattr(link, "path", part), *parts[n + 1 :]))
        if isinstance(link, h5py.SoftLink):
            node = node.file if beyond.startswith("/") else node
            return _check_links(node, beyond, left - 1)
        if isinstance(link, h5py.ExternalLink):
            path = _find_file(node.file.filename, link.filename, "HDF5_EXT_PREFIX")
            if path:
                with h5py.File(path, "r") as file:
                    _check_links(file, beyond, left - 1)
            return
        node = node.get(part)


def _walk(dataset: Any, inside: tuple[Any, ...] = ()) -> Iterator[Any]:
    """Yield a dataset and all that it takes values from, some more than once.

    HDF5 would go round for ever where one takes values from itself.
    """
    own = dataset.file.filename
    # One dataset may have several names, in files that have several names.
    key = os.stat(own).st_dev, os.stat(own).st_ino, h5o.get_info(dataset.id).addr
    if key in inside:
        problem = f"{own!r} holds {dataset.name!r}, which takes values from itself"
        raise StoreError(problem, "Write it again, from other datasets", "source-cycle")
    yield dataset
    for _, source in _sources(dataset):
        yield from _walk(source, (*inside, key))


def _sources(dataset: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the mappings of a virtual dataset, each with the dataset it refers to."""
    own = dataset.file.filename
    for source in dataset.virtual_sources() if dataset.is_virtual else ():
        path, name = own, source.file_name
        if name != "." and not (path := _find_file(own, name, "HDF5_VDS_PREFIX")):
            raise _refuse_source(own, name)
        with h5py.File(path, "r") as file:
            found = look_up(file, source.dset_name)
            if not isinstance(found, h5py.Dataset):
                raise _refuse_source(own, f"{path}::{source.dset_name}")
            yield source, found


def _walk_all(dataset: Any) -> Iterator[Any]:
    for number, part in enumerate(_walk(dataset)):
        if number == _MOST_SOURCES:
            own = dataset.file.filename
            problem = f"{own!r} takes values from more than {_MOST_SOURCES} datasets"
            raise StoreError(problem, "Copy them to one", "many-sources")
        yield part


def list_files(dataset: Any) -> set[str]:
    """List the files that hold the values; HDF5 reads one that is missing as zeros.

    A linked dataset lies in another file; virtual ones, and those with external
    storage, refer to more.
    """
    return {path for part in _walk_all(dataset) for path in _find_own_files(part)}


def _find_own_files(dataset: Any) -> Iterator[str]:
    own = dataset.file.filename
    yield own
    # Without a prefix HDF5 looks in the working directory of the process.
    prefix = os.environ.get("HDF5_EXTFILE_PREFIX", "")
    prefix = prefix.replace("${ORIGIN}", os.path.dirname(own))
    left = (dataset.size or 0) * dataset.dtype.itemsize
    for name, offset, size in dataset.external or ():
        path = make_absolute(os.path.join(prefix, name))
        if not os.path.exists(path):
            raise _refuse_source(own, path)
        check_kind(path)
        part = min(size, left)
        if os.path.getsize(path) < offset + part:
            raise _refuse_source(own, path, "is too short")
        left -= part
        yield path


def _find_file(own: str, name: str, variable: str) -> str:
    """Find a file that another one refers to where HDF5 looks; empty if it is missing.

    `variable`: of the environment, which lists folders.
    """
    folders = [x for x in os.environ.get(variable, "").split(":") if x]
    folders += [os.path.dirname(own), "", os.path.dirname(os.path.realpath(own))]
    paths = [name] if os.path.isabs(name) else []
    end = os.path.basename(name) if paths else name
    paths += [make_absolute(os.path.join(folder, end)) for folder in folders]
    found = next(filter(os.path.exists, paths), "")
    if found:
        check_kind(found)
    return found


def _refuse_source(own: str, name: str, flaw: str = "is missing") -> StoreError:
    return StoreError(
        f"{own!r} takes values from {name!r}, which {flaw}",
        "Restore it: HDF5 would read zeros in its place",
        "source-missing",
    )


def count_chunks(dataset: Any) -> tuple[int, int]:
    """Count the chunks that a dataset and its sources have, and could have."""
    there, whole = zip(*map(_count_own, _walk_all(dataset)), strict=True)
    return sum(there), sum(whole)


def _count_own(dataset: Any) -> tuple[int, int]:
    if dataset.is_virtual:
        # What no source covers is one that is missing.
        return 0, int(not _covers(dataset))
    if dataset.chunks is None:
        return int(not dataset.size or dataset.id.get_storage_size() > 0), 1
    counts = (-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))
    return dataset.id.get_num_chunks(), math.prod(counts)


def _covers(dataset: Any) -> bool:
    """Tell whether the sources of a virtual dataset give all of its values."""
    covered = h5s.create_simple(dataset.shape)
    covered.select_none()
    for mapping, source in _sources(dataset):
        if not all(_fits(x, source.shape) for x in _list_slabs(mapping.src_space)):
            return False
        for start, stride, count, block in _list_slabs(mapping.vspace):
            # What has no end goes on to that of the dataset.
            count, block = (tuple(map(min, x, dataset.shape)) for x in (count, block))
            covered.select_hyperslab(start, count, stride, block, h5s.SELECT_OR)
    return bool(covered.get_select_npoints() >= dataset.size)


def _list_slabs(space: Any) -> list[Any]:
    """List start, stride, count and block of what is selected; nothing for all."""
    if space.get_select_type() != h5s.SEL_HYPERSLABS:
        return []
    if space.is_regular_hyperslab():
        return [space.get_regular_hyperslab()]
    ones = (1,) * space.get_simple_extent_ndims()
    blocks = space.get_select_hyper_blocklist()
    return [(low, ones, ones, high - low + 1) for low, high in blocks]


def _fits(slab: Any, shape: tuple[int, ...]) -> bool:
    sides = zip(*slab, shape, strict=True)
    return all(
        h5s.UNLIMITED in (count, block) or start + (count - 1) * stride + block <= n
        for start, stride, count, block, n in sides
    )
