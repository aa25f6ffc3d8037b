"""Docstrings of public names: summary, short signature, See Also, examples that run."""

import doctest
import inspect
import pydoc
import types

import twom_dist
from tests.support.cases import cases

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
# `help` shows a signature in one line, which a terminal of 80 columns breaks.
MOST_SIGNATURE = 5 * 80


def public_names():
    """Yield the callables of ``__all__`` and of the spaces there."""
    for name in twom_dist.__all__:
        value = getattr(twom_dist, name)
        if isinstance(value, types.ModuleType):
            yield from ((f"{name}.{x}", getattr(value, x)) for x in value.__all__)
        elif callable(value):
            yield name, value


@cases(("name", "value"), public_names())
def test_docstrings_are_those_of_a_reference(name, value):
    text = inspect.getdoc(value)
    summary = text.partition("\n")[0]
    assert len(summary) < 80
    assert summary.endswith(".")
    if inspect.isclass(value) and issubclass(value, BaseException):
        return
    for section in ("See Also", "Examples"):
        assert f"\n\n{section}\n{'-' * len(section)}\n" in text
    examples = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert examples.examples
    assert doctest.DocTestRunner(optionflags=FLAGS).run(examples).failed == 0
    if inspect.isfunction(value):
        shown = pydoc.plain(pydoc.render_doc(value)).splitlines()[2]
        assert len(shown) <= MOST_SIGNATURE
