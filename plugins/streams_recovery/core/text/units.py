"""Numbers as people read them."""

from __future__ import annotations

from typing import Final

_STEPS: Final = ("B", "KB", "MB", "GB", "TB", "PB")
_STEP, _TENS = 1000, 10


def bytes_text(size: float) -> str:
    """Bytes with the unit in which they are short: ``38 GB``, ``1.2 MB``."""
    step = next((at for at in range(len(_STEPS) - 1) if abs(size) < _STEP ** (at + 1)), len(_STEPS) - 1)
    number = size / _STEP**step
    return f"{number:.0f} {_STEPS[step]}" if step == 0 or abs(number) >= _TENS else f"{number:.1f} {_STEPS[step]}"


def age_text(seconds: float) -> str:
    """A length of time with its largest unit: ``12 min``, ``3 h``, ``2 days``."""
    for limit, length, unit in ((60, 1, "s"), (7200, 60, "min"), (2 * 86_400, 3600, "h")):
        if seconds < limit:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86_400:.0f} days"
