"""``python -m twom_dist``: the command ``twom-dist``."""

from .cli import main

if __name__ == "__main__":
    main(prog_name="twom-dist")
