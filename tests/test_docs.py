"""The examples of the docs run as they stand."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
WITH_EXAMPLES = sorted(p for p in DOCS.glob("*.md") if ">>> " in p.read_text("utf-8"))


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda p: p.name)
def test_examples_give_what_they_say(page):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, count = doctest.testfile(
        str(page), module_relative=False, optionflags=flags, encoding="utf-8"
    )
    assert count > 0
    assert failed == 0


def test_there_are_pages_with_examples():
    assert [x.name for x in WITH_EXAMPLES] == ["accuracy.md", "covariance.md"]
