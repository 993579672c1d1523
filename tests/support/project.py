"""Where the project is, whatever file asks, and what its Makefile says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[2]
# The repositories that were written once and are read by every release since: a folder for each, by its name.
GOLDEN: Final = PROJECT / "tests" / "data" / "golden"


def linters() -> list[str]:
    """The command lines of the target ``lint``, each without the folder of its program."""
    target = re.search(r"^lint:.*\n((?:\t.*\n)+)", (PROJECT / "Makefile").read_text(), re.M)
    assert target is not None, "the Makefile has no target lint"
    return [line.strip().removeprefix("@$(BIN)/") for line in target[1].splitlines()]
