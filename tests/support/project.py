"""Where the project is, whatever file asks."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[2]
# The repositories that were written once and are read by every release since: a folder for each, by its name.
GOLDEN: Final = PROJECT / "tests" / "data" / "golden"
