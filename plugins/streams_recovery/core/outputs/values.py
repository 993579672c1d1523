"""Compares two values of an output: bytes as bytes, numbers within a tolerance, JSON as a document without the fields to be ignored. Pure."""

from __future__ import annotations

import enum
import hashlib
import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from streams_recovery.core.codec import document
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.state.table import PLAIN_BYTES, Cell, Format, ValueFormat
from streams_recovery.core.words import moment

Decode = Callable[[bytes], Cell]
# A name in a document, or several from the outermost one on.
Path = tuple[str, ...]

_NUMBERS: Final = (Format.LONG, Format.INTEGER, Format.DOUBLE)
# Of numbers with more digits, or with larger exponents, a calculation would need memory without end. They are compared as they are written.
_MOST_DIGITS: Final = 1_000
_TIME: Final = struct.Struct(">q")
_SESSION: Final = struct.Struct(">qq")


class Windowed(enum.StrEnum):
    """The part behind the application's key in a record's key: nothing, the start of a window (8 bytes, as Kafka Streams' serialiser of
    windowed keys writes it), or the end and the start of a session (16 bytes).
    """

    NONE = "none"
    TIME = "time"
    SESSION = "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """The distance that two numbers may be apart: by ``absolute``, or by this part (``relative``) of the larger one. 0 and 0 is not at all."""

    absolute: float = 0.0
    relative: float = 0.0

    def __post_init__(self) -> None:
        if not all(math.isfinite(one) and one >= 0 for one in (self.absolute, self.relative)):
            raise ConfigInvalid(
                f"a tolerance of {self.absolute} and {self.relative} is none", next_step="give numbers that are not negative, such as 0.001"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordForm:
    """Form of an output's records. ``ignore`` are fields of JSON values, with a dot between a field and the field that it is in. In a list they are fields of
    each element.
    """

    key: ValueFormat = PLAIN_BYTES
    value: ValueFormat = PLAIN_BYTES
    window: Windowed = Windowed.NONE
    ignore: tuple[str, ...] = ()
    tolerance: Tolerance = Tolerance()

    @property
    def paths(self) -> tuple[Path, ...]:
        """The ignored fields, in parts."""
        return tuple(tuple(name.split(".")) for name in self.ignore)


def same_value(one: bytes | None, other: bytes | None, form: RecordForm, decode: Decode) -> bool:
    """True when both say the same. A tombstone, None, is the same as nothing but a tombstone. Bytes that do not have the format are compared as bytes: what
    comes from a topic is data, and one odd record is no reason not to compare the others.
    """
    if one == other:
        return True
    kind = form.value.format
    if one is None or other is None or not (kind.document or kind in _NUMBERS):
        return False
    try:
        mine, theirs = decode(one), decode(other)
        if kind.document:
            return _same(_document(mine), _document(theirs), form.paths, form.tolerance)
    except (ConfigInvalid, ValueError):
        return False
    return near(mine, theirs, form.tolerance)


@dataclass(frozen=True, slots=True)
class _Written:
    """A number that is only compared with others that are written like it."""

    text: str


def _document(cell: Cell) -> Any:
    """The document, with each number as exact as it is written: a program that counts money writes more digits than a float has. One in which an object has a
    name twice has no one meaning, and is not read. Raises ``ValueError``.
    """
    return document(str(cell), fraction=_exact, members=_members)


def _exact(text: str) -> Decimal | _Written:
    if len(text) > _MOST_DIGITS:
        return _Written(text)
    number = Decimal(text)
    return number if not number or abs(number.adjusted()) < _MOST_DIGITS else _Written(text)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a name twice")
    return found


def near(one: Any, other: Any, tolerance: Tolerance) -> bool:
    """True for two numbers that are no further apart than allowed. NaN is near NaN, and an infinity near itself. Exact whatever their size."""
    special = [isinstance(each, float) and not math.isfinite(each) for each in (one, other)]
    if any(special):
        return all(special) and (one == other or (math.isnan(one) and math.isnan(other)))
    mine, theirs = Fraction(one), Fraction(other)
    apart = abs(mine - theirs)
    return apart <= _limit(tolerance.absolute) or apart <= _limit(tolerance.relative) * max(abs(mine), abs(theirs))


def _limit(allowed: float) -> Fraction:
    """As it was typed, and as the float that this became: 0.03 is a little less, and 0.1 a little more. Both are allowed."""
    return max(Fraction(allowed), Fraction(repr(allowed)))


def _same(one: Any, other: Any, ignored: tuple[Path, ...], tolerance: Tolerance) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        left_out = {path[0] for path in ignored if len(path) == 1}
        names = one.keys() - left_out
        return names == other.keys() - left_out and all(_same(one[name], other[name], _below(ignored, name), tolerance) for name in names)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_same(mine, theirs, ignored, tolerance) for mine, theirs in zip(one, other, strict=True))
    if _is_number(one) and _is_number(other):
        return near(one, other, tolerance)
    return type(one) is type(other) and one == other


def _below(ignored: tuple[Path, ...], name: str) -> tuple[Path, ...]:
    return tuple(path[1:] for path in ignored if len(path) > 1 and path[0] == name)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def identity(value: bytes | None, form: RecordForm, decode: Decode) -> bytes:
    """Mark that tells records without a key apart: a digest of the value, for JSON of the document without the ignored fields. No tolerance: numbers that
    are merely near have different ones.
    """
    if value is None:
        return b"\x00"
    if form.value.format.document:
        try:
            plain = _plain(_document(decode(value)), form.paths)
            return b"\x02" + hashlib.sha256(json.dumps(plain, sort_keys=True, default=_number_text).encode()).digest()
        except (ConfigInvalid, ValueError):
            pass
    return b"\x01" + hashlib.sha256(value).digest()


def _plain(value: Any, ignored: tuple[Path, ...]) -> Any:
    if isinstance(value, dict):
        left_out = {path[0] for path in ignored if len(path) == 1}
        return {name: _plain(part, _below(ignored, name)) for name, part in value.items() if name not in left_out}
    if isinstance(value, list):
        return [_plain(part, ignored) for part in value]
    return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value


def _number_text(number: Decimal | _Written) -> dict[str, str]:
    return {"\0number": number.text if isinstance(number, _Written) else str(Fraction(number))}


def split_window(window: Windowed, key: bytes) -> tuple[bytes, str]:
    """The application's key, and its window for people; empty without one. A key that is too short for its window is left as it is."""
    if window is Windowed.TIME and len(key) >= _TIME.size:
        (start,) = _TIME.unpack_from(key, len(key) - _TIME.size)
        return key[: -_TIME.size], moment(start)
    if window is Windowed.SESSION and len(key) >= _SESSION.size:
        end, start = _SESSION.unpack_from(key, len(key) - _SESSION.size)
        return key[: -_SESSION.size], f"{moment(start)} to {moment(end)}"
    return key, ""
