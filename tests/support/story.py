"""A long story on one costly stage is one test with named steps: what fails is told once, and by the step it failed in."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

P = TypeVar("P")


def play_through(steps: tuple[Callable[[P], None], ...], on: P) -> None:
    """Take the steps in their order. The error of the one that fails has a note with its name and number."""
    for number, step in enumerate(steps, 1):
        name = step.__name__.replace("_", " ")
        began = time.monotonic()
        try:
            step(on)
        except BaseException as error:
            error.add_note(f"in step {number} of {len(steps)}: {name}")
            raise
        sys.stdout.write(f"{number}/{len(steps)} {name}: {time.monotonic() - began:.0f} s\n")
        sys.stdout.flush()
