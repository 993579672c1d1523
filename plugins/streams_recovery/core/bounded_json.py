"""JSON that anybody may have written, parsed only when that costs little.

A parser makes an object of every two or three characters, so a few kilobytes that were packed well become gigabytes, and a deep text ends the
interpreter's stack. The text is measured first, in pieces, with no memory of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final, NoReturn

# A manifest of a million files. The largest one that is honest and the worst one that is not cost about the same memory.
MOST_BYTES: Final = 512 << 20
# One entry of a log, or anything else that is no description of all partitions.
MOST_BYTES_OF_ENTRY: Final = 16 << 20
_MOST_VALUES: Final = 24_000_000
# What this software writes has ten bytes a value and more.
_BYTES_A_VALUE: Final = 8
_VALUES_FREE: Final = 1 << 16
_DEEPEST: Final = 32
_DEEPEST_DOCUMENT: Final = 200
_PIECE: Final = 1 << 18
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_MARKS: Final = b'"[]{},'
_NO_MARKS: Final = bytes(sorted(set(range(256)) - set(_MARKS)))
_NO_BRACKETS: Final = b'",'


class Unusable(ValueError):
    """Raised for text that is no JSON, or costs more than what this software writes. Says what is wrong with it, without quoting it."""


def parsed(data: bytes, *, most_bytes: int = MOST_BYTES) -> Any:
    """The value of a UTF-8 text. ``NaN`` and infinities are no JSON. Raises ``Unusable``."""
    measure(data, most_bytes=most_bytes)
    why = ""
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        why = f"it is not UTF-8: {error.reason} at byte {error.start}"
    except ValueError as error:
        why = str(error)
    # Outside: the parser's error keeps the whole text alive for as long as somebody keeps ours.
    raise Unusable(why)


def measure(data: bytes, *, most_bytes: int = MOST_BYTES) -> None:
    """Raise ``Unusable`` for a text that is too long, too deep, or has too many values for its length. Whether it is JSON is left to the parser."""
    if len(data) > most_bytes:
        raise Unusable(f"it has {len(data)} bytes, the limit is {most_bytes}")
    most = min(_MOST_VALUES, _VALUES_FREE + len(data) // _BYTES_A_VALUE)
    values = 1
    for marks in _checked_depth(data, _DEEPEST):
        values += marks.count(b",") + marks.count(b"[") + marks.count(b"{")
        if values > most:
            raise Unusable(f"it has more than {most} values in {len(data)} bytes")


def document(text: str) -> Any:
    """The value of a text that an application wrote: as long as it likes, and not so deep that nothing could work on it. Raises ``Unusable``."""
    if text.count("[") + text.count("{") > _DEEPEST_DOCUMENT:
        for _ in _checked_depth(text.encode(errors="replace"), _DEEPEST_DOCUMENT):
            pass
    why = ""
    try:
        return json.loads(text)
    except ValueError as error:
        why = str(error)
    raise Unusable(why)


def _checked_depth(data: bytes, deepest: int) -> Iterator[bytes]:
    """The marks outside of strings, piece by piece. Raises ``Unusable`` when they nest deeper."""
    # Pairs from the left: what is left of a row of backslashes belongs to the character behind it.
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in data else data
    inside, depth = 0, 0
    for at in range(0, len(plain), _PIECE):
        parts = plain[at : at + _PIECE].translate(None, _NO_MARKS).split(b'"')
        marks = b"".join(parts[inside::2])
        inside = (inside + len(parts) - 1) % 2
        depths = list(accumulate(map(_STEPS.__getitem__, marks.translate(None, _NO_BRACKETS)), initial=depth))
        depth = depths[-1]
        if max(depths) > deepest:
            raise Unusable(f"it is nested deeper than {deepest} levels")
        yield marks


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
