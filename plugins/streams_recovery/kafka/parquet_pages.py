"""What the headers of a Parquet file's pages say, read without Parquet's own reader.

That reader takes memory for whatever size a page claims, and zstd fills it from next to nothing. So the claims are read first. A header is a struct
in Thrift's compact encoding; of it only the sizes, the number of values and the encodings are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

PLAIN: Final = 0
DELTA_BINARY_PACKED: Final = 5
_DATA_PAGE: Final = 0
_MOST_PAGES: Final = 1 << 16

# Sizes, counts and two statistics of eight bytes: a header of ours has less than a hundred.
_LONGEST_HEADER: Final = 1 << 10
_DEEPEST: Final = 4
_MOST_FIELDS: Final = 64
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 12

_Fields = dict[int, "int | _Fields"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page: ``size`` includes its header, and ``unpacked`` counts it too, as a file's footer does. ``encoding`` is that of the values."""

    kind: int
    size: int
    unpacked: int
    values: int
    encoding: int


class Totals(NamedTuple):
    """What a column has in all its pages."""

    values: int
    unpacked: int


class NoPage(ValueError):
    """Raised where no header of a page is that this software would have written."""


def pages(read_at: Callable[[int, int], bytes], start: int, end: int) -> Iterator[Page]:
    """The pages in the bytes ``[start, end)`` of a file. Raises ``NoPage``."""
    at = start
    while at < end:
        page = _page(read_at(at, min(_LONGEST_HEADER, end - at)))
        at += page.size
        if at > end:
            raise NoPage(f"a page ends {at - end} bytes behind its column")
        yield page


def check_pages(found: Iterable[Page], encoding: int, claimed: Totals) -> None:
    """Raise ``NoPage`` unless these are pages of this encoding, that have together what is claimed of them."""
    totals = Totals(0, 0)
    for number, page in enumerate(found):
        totals = Totals(totals.values + page.values, totals.unpacked + page.unpacked)
        if page.kind != _DATA_PAGE or page.encoding != encoding or number == _MOST_PAGES:
            raise NoPage("a page is not as this software writes it")
        if totals.values > claimed.values or totals.unpacked > claimed.unpacked:
            break
    if totals != claimed:
        raise NoPage(
            f"its pages have {totals.values} values in {totals.unpacked} bytes, the footer claims {claimed.values} in {claimed.unpacked}"
        )


def _page(data: bytes) -> Page:
    reader = _Reader(data)
    fields = reader.struct(_DEEPEST)
    data_page = fields.get(5)
    if not isinstance(data_page, dict):
        raise NoPage("a page is no data page of the first version")
    found = [fields.get(1), fields.get(2), fields.get(3), data_page.get(1), data_page.get(2)]
    kind, unpacked, packed, values, encoding = (one if isinstance(one, int) else -1 for one in found)
    if min(kind, unpacked, packed, values, encoding) < 0:
        raise NoPage("the header of a page has no size or no encoding")
    return Page(kind=kind, size=reader.at + packed, unpacked=reader.at + unpacked, values=values, encoding=encoding)


class _Reader:
    """Reads the compact encoding. Of what is no number, and no struct of numbers, only the end is looked for."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def struct(self, depth: int) -> _Fields:
        if depth == 0:
            raise NoPage("the header of a page is nested too deep")
        fields: _Fields = {}
        number = 0
        for _ in range(_MOST_FIELDS):
            head = self._byte()
            if head == 0:
                return fields
            number = number + (head >> 4) if head >> 4 else self._signed()
            value = self._value(head & 0x0F, depth)
            if value is not None:
                fields[number] = value
        raise NoPage("the header of a page has too many fields")

    def _value(self, kind: int, depth: int) -> int | _Fields | None:
        if kind in (_TRUE, _FALSE):
            return None
        if kind in (_I16, _I32, _I64):
            return self._signed()
        if kind == _STRUCT:
            return self.struct(depth - 1)
        if kind not in (_BYTE, _DOUBLE, _BINARY):
            raise NoPage(f"the header of a page has a field of kind {kind}")
        length = {_BYTE: 1, _DOUBLE: 8}[kind] if kind != _BINARY else self._unsigned()
        self.at += length
        return None

    def _signed(self) -> int:
        found = self._unsigned()
        return (found >> 1) ^ -(found & 1)

    def _unsigned(self) -> int:
        found = 0
        for shift in range(0, 64, 7):
            byte = self._byte()
            found |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004  # the highest bit says that more follows
                return found
        raise NoPage("the header of a page has a number of more than 64 bits")

    def _byte(self) -> int:
        if self.at >= len(self._data):
            raise NoPage("the header of a page has no end")
        self.at += 1
        return self._data[self.at - 1]
