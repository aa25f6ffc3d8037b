"""The rule for numbers: a section that states a measurement names a file that has it.

One name a section is enough: one in every paragraph hides what the paragraph says.
Text that begins with "Predictions" states no measurement. The build of the pages and a
test fail where the rule is broken.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
# Decisions report what was known when they were made.
LEFT_OUT = {"decisions", "_build", "generated", "_templates"}
PAGES = [
    ROOT / "README.md",
    ROOT / "cluster" / "README.md",
    *sorted(
        page
        for page in (ROOT / "docs").rglob("*.md")
        if not LEFT_OUT & set(page.relative_to(ROOT).parts)
    ),
]
DEVICE = re.compile(
    r"\b(A100|B200|B300|EPYC|GB200|GH200|H100|H200|L40S?|MI300\w?|Ryzen|Xeon|Zen ?\d)\b"
)
FIGURE = re.compile(
    r"\d\.\d|\d ?(%|[GMK]iB|[GMT]B|TF/s|m?s|us|µs|W|pJ|times|seconds)\b"
)
MEASURED = re.compile(
    r"(?<!not )\bmeasured on\b|\d TF/s|\bTF/s\b.*\d|\d times as (fast|long|slow)"
    r"|\b(took|ran at) [\d.]+ (m?s|us|µs|seconds|minutes|of)\b"
)
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(?=#+ )", re.MULTILINE)
ITEM = re.compile(r"^ *([-*]|\d+\.) ")
FILE = re.compile(r"[\w-]+\.jsonl")


def find_blocks(text):
    """Split a page into paragraphs, list items and tables; return their texts."""
    blocks = []
    before = ""
    for line in text.splitlines():
        begins = ITEM.match(line) or (line.startswith("|") != before.startswith("|"))
        if not before.strip() or not line.strip() or begins:
            blocks.append("")
        blocks[-1] += line + "\n"
        before = line
    return [block for block in blocks if block.strip()]


def states_a_measurement(block):
    if block.startswith("Predictions"):
        return False
    return bool(DEVICE.search(block) and FIGURE.search(DEVICE.sub("", block))) or bool(
        MEASURED.search(block)
    )


def find_unsourced(text):
    """Find blocks that state a measurement, of sections that name no file."""
    found = []
    for section in HEADING.split(CODE.sub("", text)):
        if not FILE.search(section):
            found += filter(states_a_measurement, find_blocks(section))
    return found


def find_faults(page):
    """Find blocks of a page that break the rule, and named files that do not exist."""
    text = page.read_text("utf-8")
    missing = {name for name in FILE.findall(text) if not (RESULTS / name).exists()}
    return [*find_unsourced(text), *sorted(missing)]
