"""Parses untrusted JSON only if that is cheap.

A parser creates an object for every two or three characters. So a few well-compressed kilobytes can become gigabytes in memory, and deep nesting
overflows the interpreter's stack. The text is measured first, in pieces, without extra memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, Final, NoReturn

# A manifest of a million files. The largest valid one and the worst malicious one cost about the same memory.
MOST_BYTES: Final = 512 << 20
# One entry of a log, and all other objects that do not describe all partitions.
MOST_BYTES_OF_ENTRY: Final = 16 << 20
_MOST_VALUES: Final = 24_000_000
# JSON that this software writes has at least ten bytes for each value.
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
    """Raised for text that is not JSON, or that costs more to parse than anything this software writes. The message does not quote the text."""


def parsed(data: bytes, *, most_bytes: int = MOST_BYTES) -> Any:
    """Parse UTF-8 JSON. ``NaN`` and infinities are refused. Raises ``Unusable``."""
    measure(data, most_bytes=most_bytes)
    why = ""
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        why = f"it is not UTF-8: {error.reason} at byte {error.start}"
    except ValueError as error:
        why = str(error)
    # Raised outside of the handlers: the parser's error would keep the whole text in memory as long as this error exists.
    raise Unusable(why)


def measure(data: bytes, *, most_bytes: int = MOST_BYTES) -> None:
    """Raise ``Unusable`` for a text that is too long, too deep, or has too many values for its length. Does not check whether it is valid JSON."""
    if len(data) > most_bytes:
        raise Unusable(f"it has {len(data)} bytes, the limit is {most_bytes}")
    most = min(_MOST_VALUES, _VALUES_FREE + len(data) // _BYTES_A_VALUE)
    values = 1
    for marks in _checked_depth(data, _DEEPEST):
        values += marks.count(b",") + marks.count(b"[") + marks.count(b"{")
        if values > most:
            raise Unusable(f"it has more than {most} values in {len(data)} bytes")


def document(text: str, *, fraction: Callable[[str], Any] = float, members: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Parse JSON that an application wrote. The length is not limited, but the depth is. ``fraction`` makes a value of a number that is not whole, and
    ``members`` one of an object. Raises ``Unusable``.
    """
    if text.count("[") + text.count("{") > _DEEPEST_DOCUMENT:
        for _ in _checked_depth(text.encode(errors="replace"), _DEEPEST_DOCUMENT):
            pass
    why = ""
    try:
        return json.loads(text, parse_float=fraction, object_pairs_hook=members)
    except ValueError as error:
        why = str(error)
    raise Unusable(why)


def _checked_depth(data: bytes, deepest: int) -> Iterator[bytes]:
    """The JSON delimiters outside of strings, piece by piece. Raises ``Unusable`` if they nest too deeply."""
    # Remove pairs of backslashes from the left. A remaining backslash escapes the next character.
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
