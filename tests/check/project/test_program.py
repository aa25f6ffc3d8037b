"""The program of a product: short, the only caller of its stages, and shown."""

from tests.check.project.test_layering import PACKAGE, ROOT, our_imports

PROGRAM = (ROOT / PACKAGE / "tiles" / "program.py").read_text("utf-8")


def test_the_program_is_one_page_and_alone_calls_its_stages():
    assert len(PROGRAM.splitlines()) <= 200
    for stages, program in (("stages", "program"), ("pair_stages", "choice_of_moduli")):
        imports = [(name, target) for name, _, target in our_imports()]
        callers = {name for name, target in imports if target == f"tiles.{stages}"}
        assert callers == {f"tiles.{program}"}


def test_how_it_works_shows_the_program():
    shown = (ROOT / "docs" / "how-it-works.md").read_text("utf-8")
    for name in ("look", "multiply", "multiply_cell"):
        text = PROGRAM[PROGRAM.index(f"def {name}(") :]
        assert text[: text.index("\n\n\n")] in shown
