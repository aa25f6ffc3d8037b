"""Sphinx's settings. Build the pages with `make docs`; they land in docs/_build."""

import os
import re
import shutil
import sys
import tomllib
from pathlib import Path

from sphinx.util import logging

import twom_dist

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))
from measurements import PAGES, find_faults  # noqa: E402

ROOT = DOCS.parent
# The one place of the address, beside the built README's links.
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
SOURCE = PROJECT["urls"]["Homepage"]

project = "twom_dist"
author = "The twom_dist developers"
version = release = twom_dist.__version__
extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

myst_heading_anchors = 3
# Examples are tested by tests/run/docs/test_docs.py; the comments say what they need.
myst_enable_extensions = ["colon_fence"]
numpydoc_show_class_members = False
autodoc_typehints = "none"  # overloads fill a page, and the docstrings name the types

html_theme = "pydata_sphinx_theme"
html_title = "twom_dist"
html_show_sourcelink = False
html_theme_options = {
    "github_url": SOURCE,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
}

LINK = re.compile(r"\]\((\.\./[^)#\s]+)")


def link_to_source(_app, page, source):
    """Let links to files beside docs/, which work on GitHub, lead there."""
    folder = (DOCS / page).parent

    def replace(match):
        path = Path(os.path.normpath(folder / match[1]))
        if path.is_relative_to(DOCS):
            return match[0]
        if not path.exists():
            logging.getLogger(__name__).warning("no file %s", path, location=page)
        return f"]({SOURCE}/blob/main/{path.relative_to(ROOT).as_posix()}"

    source[0] = LINK.sub(replace, source[0])


def check_measurements(_app):
    """Warn of every number that names no file, which fails the build."""
    for page in PAGES:
        for fault in find_faults(page):
            logging.getLogger(__name__).warning(
                "a measurement without its file: %s", fault, location=str(page)
            )


def setup(app):
    """Connect both rules, and drop the pages of names that are gone."""
    shutil.rmtree(DOCS / "generated", ignore_errors=True)
    app.connect("builder-inited", check_measurements)
    app.connect("source-read", link_to_source)
