"""Folders of this repository."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
# The launch scripts, and what they find on PATH in the tests.
CLUSTER = ROOT / "cluster"
STAND_INS = ROOT / "tests" / "support" / "stand_ins"
