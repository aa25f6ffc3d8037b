"""A command as it was typed, without what only its own run needed."""

import shlex
from collections.abc import Collection
from typing import Any

import click
from click.core import ParameterSource

from ..store._location import parse_location

# Parameters that name a file, which another folder must not change.
_FILES = ("a", "b", "c", "diag", "output")


def spell_command(context: click.Context, without: Collection[str]) -> str:
    """Spell the command of a context with what was given, but for these options."""
    words = ["twom-dist", str(context.command.name)]
    for parameter in context.command.params:
        name = str(parameter.name)
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in without:
            words += _spell(parameter, context.params[name])
    return shlex.join(words)


def _spell(parameter: click.Parameter, value: Any) -> list[str]:
    text = str(parse_location(value)) if parameter.name in _FILES else _show(value)
    if not isinstance(parameter, click.Option):
        return [text]
    if parameter.is_flag:
        return [(parameter.opts if value else parameter.secondary_opts)[0]]
    return [parameter.opts[0], text]


def _show(value: Any) -> str:
    """Show a value as it may be typed: a number without parentheses."""
    if isinstance(value, complex) and value.imag == 0:
        value = value.real
    return str(value).strip("()")
