"""What the headers of a Parquet file's pages say, read without Parquet's own reader.

That reader takes memory for whatever size a page claims, and zstd fills it from next to nothing. So the claims are read first: sizes, the number of
values, the encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from streams_recovery.segments.thrift import NotThrift, Reader

PLAIN: Final = 0
DELTA_BINARY_PACKED: Final = 5
_DATA_PAGE: Final = 0
_MOST_PAGES: Final = 1 << 16
# Sizes, counts and two statistics of eight bytes: a header of ours has less than a hundred.
_LONGEST_HEADER: Final = 1 << 10


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
    reader = Reader(data)
    try:
        fields = reader.struct()
    except NotThrift as error:
        raise NoPage(f"a page has no header: {error}") from None
    data_page = fields.get(5)
    if not isinstance(data_page, dict):
        raise NoPage("a page is no data page of the first version")
    found = [fields.get(1), fields.get(2), fields.get(3), data_page.get(1), data_page.get(2)]
    kind, unpacked, packed, values, encoding = (one if isinstance(one, int) else -1 for one in found)
    if min(kind, unpacked, packed, values, encoding) < 0:
        raise NoPage("the header of a page has no size or no encoding")
    return Page(kind=kind, size=reader.at + packed, unpacked=reader.at + unpacked, values=values, encoding=encoding)
