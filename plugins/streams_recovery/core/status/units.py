"""Lengths of time and sizes as people say them."""

from __future__ import annotations

from typing import Final

_TIMES: Final = (("d", 86_400), ("h", 3_600), ("min", 60))
_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP: Final = 1024


def span(seconds: float) -> str:
    """``3 h 12 min``: the two largest units that count."""
    left, parts = round(seconds), []
    for name, length in _TIMES:
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count} {name}")
    if not parts or (len(parts) == 1 and parts[0].endswith("min") and left):
        parts.append(f"{left} s")
    return " ".join(parts[:2])


def size(count: float) -> str:
    """``1.5 GiB``."""
    for unit in _SIZES:
        if abs(count) < _STEP or unit == _SIZES[-1]:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= _STEP
    raise AssertionError("the last unit takes every size")
