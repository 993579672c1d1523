from __future__ import annotations

import pytest

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.state.peek import PeekRecord, PeekRequest, first_offset, shown_bytes


@pytest.mark.parametrize(
    ("start", "end", "wanted", "first"),
    [(0, 100, None, 90), (95, 100, None, 95), (0, 100, 20, 20), (50, 100, 20, 50), (0, 100, 500, 100), (7, 7, None, 7)],
)
def test_where_to_begin(start: int, end: int, wanted: int | None, first: int) -> None:
    assert first_offset(start, end, wanted, 10) == first


def test_an_offset_needs_its_partition() -> None:
    with pytest.raises(ConfigInvalid, match="an offset belongs to one partition"):
        PeekRequest(topic="in", savepoint="live", partition=None, offset=3, count=1)


def test_text_is_shown_as_it_is_and_other_bytes_in_hex() -> None:
    assert [shown_bytes(data) for data in (None, b"", "gül".encode(), b"\x00\x01", b"\xff")] == [None, "", "gül", "0x0001", "0xff"]
    record = PeekRecord(topic="in", partition=1, offset=2, timestamp=3, key=b"\xff", value=None, headers=(("trace", b"x"), ("none", None)))
    assert record.as_json() == {
        "topic": "in",
        "partition": 1,
        "offset": 2,
        "timestamp": 3,
        "key_hex": "ff",
        "value": None,
        "headers": [{"key": "trace", "value": "x"}, {"key": "none", "value": None}],
    }
