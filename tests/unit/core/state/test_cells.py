from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.state.cells import Format, decoded, encoded, from_text, same_document

CELLS = {
    Format.STRING: st.text(),
    Format.LONG: st.integers(-(2**63), 2**63 - 1),
    Format.INTEGER: st.integers(-(2**31), 2**31 - 1),
    Format.DOUBLE: st.floats(allow_nan=False),
    Format.BYTES: st.binary(),
    Format.JSON: st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists).map(json.dumps),
}


@given(st.data(), st.sampled_from(list(CELLS)))
def test_every_cell_comes_back(data: st.DataObject, kind: Format) -> None:
    cell = data.draw(CELLS[kind])
    back = decoded(kind, encoded(kind, cell))
    assert (back, type(back)) == (cell, type(cell))


@given(st.binary(max_size=12), st.sampled_from(list(CELLS)))
def test_bytes_are_refused_or_come_back(data: bytes, kind: Format) -> None:
    try:
        cell = decoded(kind, data)
    except ConfigInvalid:
        return
    again = encoded(kind, cell)
    assert again == data or struct.unpack(">d", again)[0] != struct.unpack(">d", again)[0], "only of a NaN there are many"


def test_numbers_are_big_endian_as_the_serialisers_write_them() -> None:
    assert encoded(Format.LONG, -2) == b"\xff" * 7 + b"\xfe"
    assert encoded(Format.INTEGER, 258) == b"\0\0\1\2"
    assert encoded(Format.DOUBLE, 1) == b"\x3f\xf0" + b"\0" * 6


@pytest.mark.parametrize(
    ("kind", "data"),
    [(Format.LONG, b"\0" * 4), (Format.INTEGER, b"\0" * 8), (Format.STRING, b"\xff"), (Format.JSON, b"{"), (Format.JSON, b"")],
)
def test_what_a_format_does_not_write_is_refused(kind: Format, data: bytes) -> None:
    with pytest.raises(ConfigInvalid, match=f"are not {kind}"):
        decoded(kind, data)


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        (Format.LONG, 2**63),
        (Format.LONG, 1.0),
        (Format.LONG, True),
        (Format.INTEGER, 2**31),
        (Format.DOUBLE, "1"),
        (Format.STRING, 1),
        (Format.STRING, "\ud800"),
        (Format.BYTES, "00"),
        (Format.JSON, "{"),
        (Format.JSON, {}),
    ],
)
def test_a_cell_that_does_not_fit_is_refused(kind: Format, cell: object) -> None:
    with pytest.raises(ConfigInvalid, match=f"cannot be written as {kind}"):
        encoded(kind, cell)


def test_documents_are_compared_by_what_they_say() -> None:
    assert same_document('{"a": 1.50, "b": "\\u00fc"}', '{"b":"ü","a":1.5}')
    assert not same_document('{"a": 1}', '{"a": 1.0}')
    assert not same_document("[1, 2]", "[2, 1]")
    assert same_document("12345678901234567.01", "12345678901234567.010")
    assert not same_document("12345678901234567.01", "12345678901234567.02"), "as floats they are the same"
    assert not same_document("1e400", "2e400")


def test_what_somebody_types() -> None:
    assert (from_text(Format.LONG, "-5"), from_text(Format.BYTES, "ff00"), from_text(Format.DOUBLE, "NaN") != 0) == (-5, b"\xff\x00", True)
    assert from_text(Format.STRING, "5") == "5"
    with pytest.raises(ConfigInvalid):
        from_text(Format.LONG, "five")
