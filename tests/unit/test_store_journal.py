"""Journals: what is finished of an output survives a kill at any point."""

import json
import os

import pytest

from tests.expect import raises
from twom_dist.errors import StoreError
from twom_dist.store import Journal, create_matrix, open_journal


@pytest.fixture
def begun(tmp_path):
    """A journal without tiles, and the writer of its output."""
    writer = create_matrix(tmp_path / "C.zarr", (4, 4), "f8", (2, 2))
    journal = Journal(writer.path, writer.temporary, {"x": 1})
    journal.add([])
    yield journal, writer
    journal.close()


def test_a_journal_begins_with_its_first_tiles(tmp_path):
    writer = create_matrix(tmp_path / "C.npy", (4, 4), "f8", (2, 2))
    journal = Journal(writer.path, writer.temporary, {"x": 1})
    assert not journal.begun
    journal.remove()
    assert open_journal(tmp_path / "C.npy") is None
    journal.add([(1, 0)])
    assert journal.begun
    with raises(StoreError, "output-busy"):
        open_journal(tmp_path / "C.npy")
    with raises(StoreError, "output-busy"):
        Journal(writer.path, writer.temporary, {}).add([])
    journal.close()
    again = open_journal(tmp_path / "C.npy")
    assert (again.finished, again.subject) == ({(1, 0)}, {"x": 1})
    again.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_line_that_was_cut_short_does_not_count(tmp_path, begun):
    journal, _ = begun
    journal.add([(0, 1)])
    journal.close()
    with open(journal.path, "ab") as stream:
        stream.write(b'{"finished": [[1, 1]')
    again = open_journal(tmp_path / "C.zarr")
    assert (again.finished, again.subject) == ({(0, 1)}, {"x": 1})
    again.add([(1, 0), (0, 0)])
    again.close()
    last = open_journal(tmp_path / "C.zarr")
    assert last.finished == {(0, 1), (1, 0), (0, 0)}
    last.close()


def test_a_damaged_journal_is_refused(tmp_path):
    # What is named is renamed, written to and removed: it is a draft of C.npy.
    names = ["C.npy", "../C.npy", ".B.npy.0123456789ab.partial"]
    moved = [json.dumps({"subject": {}, "temporary": x}) + "\n" for x in names]
    damaged = "[1]\n", "}\n", '{"subject": {}}\n', '{"finished": 1}\n', '{"subj'
    for text in (*damaged, *moved):
        (tmp_path / ".C.npy.resume").write_text(text)
        with raises(StoreError, "journal-damaged"):
            open_journal(tmp_path / "C.npy")


def test_a_journal_of_nothing_goes(tmp_path, begun):
    journal, writer = begun
    journal.close()
    writer.discard()
    assert open_journal(tmp_path / "C.zarr") is None
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".C.npy.resume").write_bytes(b"")
    assert open_journal(tmp_path / "C.npy") is None
    assert list(tmp_path.iterdir()) == []


def test_a_kill_while_the_temporary_is_renamed_costs_nothing(
    tmp_path, begun, monkeypatch
):
    journal, writer = begun
    moved = tmp_path / ".C.zarr.0123456789ab.partial"
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", lambda *_: 1 / 0)
        with pytest.raises(StoreError):
            journal.move(str(moved))
    journal.close()
    again = open_journal(tmp_path / "C.zarr")
    assert again.temporary == writer.temporary
    again.move(str(moved))
    again.close()
    last = open_journal(tmp_path / "C.zarr")
    assert last.temporary == str(moved)
    last.close()
