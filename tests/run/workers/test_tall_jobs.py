"""Jobs on tall matrices: workers share k, and continue where they were stopped."""

from functools import partial

import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import sample
from tests.support.command import make, read, save
from tests.support.jobs import stop_after
from twom_dist.api.files import multiply_files, update_files
from twom_dist.jobs import run
from twom_dist.jobs.reads import Reads
from twom_dist.plan import Layout

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture
def layouts(monkeypatch):
    """Layouts of the jobs of a test."""
    found = []
    describe = run.describe_layout

    def note(layout: Layout):
        found.append(layout)
        return describe(layout)

    monkeypatch.setattr(run, "describe_layout", note)
    return found


@sample("name", ["A.npy", "A.zarr"], ["A.zarr"])
def test_the_workers_of_a_job_share_k(client, here, layouts, name):
    a = make(500, 24, 1)
    save(name, a)
    job = partial(update_files, td.herk, name, op="C", client=client, chunks=16)
    summary = job("H.zarr", verify=True)
    assert len(layouts[0].grid.layers) == 2
    assert summary.residual <= summary.residual_bound
    expected = td.herk(a, op="C")
    assert same_bits(read("H.zarr"), expected)
    stop_after(1, lambda **x: job("K.npy", **x))
    assert job("K.npy").resumed >= 1
    assert same_bits(read("K.npy"), expected)
    # Alone, and so along another tree.
    update_files(td.herk, name, "L.npy", op="C", chunks=16)
    assert same_bits(read("L.npy"), expected)


def test_workers_tell_what_they_have_read(client, here, monkeypatch):
    counted = []
    monkeypatch.setattr(Reads, "add", lambda _, nbytes: counted.append(nbytes))
    a = make(500, 24, 1)
    save("A.zarr", a)
    update_files(td.herk, "A.zarr", "H.zarr", op="C", client=client, chunks=16)
    # What is told last may come too late.
    assert a.nbytes <= sum(counted) <= 4 * a.nbytes


def test_a_product_that_is_native_keeps_its_order(client, here, layouts):
    a = make(16, 400, 1)
    np.save("A.npy", a)
    options = {"op_b": "C", "chunks": 16, "method": "blas"}
    multiply_files("A.npy", "A.npy", "C.npy", client=client, **options)
    assert len(layouts[0].grid.parts) == 1
