"""Packages that tests do without where they are not installed."""

from unittest.mock import patch

import numba
import pytest


def require(package):
    """Import a package, or skip the test.

    quimb's own kernels stay uncompiled: numba would take 17 s for them at every import
    that finds no cache (two cores of an AMD EPYC).
    """
    with patch.object(numba.config, "DISABLE_JIT", 1):
        return pytest.importorskip(package)
