"""One word for a thing: no module and no class is named by a synonym of a term."""

import ast
import re

from tests.support.places import ROOT
from tests.support.sources import package, read


def synonyms():
    words = read(ROOT / "docs/contributing/words.md")
    rows = re.findall(r"^\| (.*?) \| .*? \| (.*?) \|$", words, re.M)
    return {word: term for term, others in rows for word in others.split(", ")}


def test_modules_and_classes_are_named_by_the_terms_of_the_glossary():
    instead, wrong = synonyms(), {}
    assert instead["recipe"] == "prepared"
    for path, found in package():
        names = [*path.parts, *(x.name for x in found if isinstance(x, ast.ClassDef))]
        for name in names:
            words = re.findall(r"[A-Z]?[a-z]+", name.removesuffix(".py"))
            for word in {x.lower() for x in words} & instead.keys():
                wrong[f"{path}: {name}"] = instead[word]
    assert wrong == {}
