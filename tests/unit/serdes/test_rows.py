"""Values of Avro as text, and back to the byte."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.serdes.rows import AvroCodec

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Account",
    "fields": [
        {"name": "owner", "type": "string"},
        {"name": "cents", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "raw", "type": "bytes"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "rates", "type": {"type": "map", "values": "double"}},
        {"name": "level", "type": {"type": "enum", "name": "Level", "symbols": ["LOW", "HIGH"]}},
    ],
}
PARSED = fastavro.parse_schema(json.loads(json.dumps(SCHEMA)))
RECORDS = st.fixed_dictionaries(
    {
        "owner": st.text(),
        "cents": st.integers(-(2**63), 2**63 - 1),
        "note": st.none() | st.text(),
        "at": st.integers(0, 4_102_444_800_000),
        "raw": st.binary(),
        "price": st.decimals(-1000, 1000, places=2),
        "rates": st.dictionaries(st.text(min_size=1), st.floats(allow_nan=False, allow_infinity=False)),
        "level": st.sampled_from(["LOW", "HIGH"]),
    }
)


def binary(record: dict[str, Any], schema: Any = PARSED) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, schema, record)
    return target.getvalue()


@given(RECORDS, st.booleans())
def test_a_value_comes_back_to_the_byte(record: dict[str, Any], confluent: bool) -> None:
    codec = AvroCodec(json.dumps(SCHEMA), confluent=confluent)
    data = (b"\0\0\0\1\2" if confluent else b"") + binary(record)
    cell = codec.decode(data)
    assert codec.encode(cell, data) == data
    assert codec.same(cell, data)


def test_the_text_is_avros_own_json() -> None:
    codec = AvroCodec(json.dumps({"type": "record", "name": "R", "fields": SCHEMA["fields"][:3]}), confluent=False)
    data = binary(
        {"owner": "ü", "cents": 5, "note": "n"}, fastavro.parse_schema({"type": "record", "name": "R", "fields": SCHEMA["fields"][:3]})
    )
    assert json.loads(str(codec.decode(data))) == {"owner": "ü", "cents": 5, "note": {"string": "n"}}
    assert codec.encode('{"owner": "ü", "cents": 6, "note": null}', None) == b"\x04\xc3\xbc\x0c\x00"
    assert not codec.same('{"owner": "ü", "cents": 6, "note": null}', data)


def test_a_registrys_prefix_is_kept_and_not_made_up() -> None:
    codec = AvroCodec('"long"', confluent=True)
    assert codec.decode(b"\0\0\0\0\x09\x04") == "2"
    assert codec.encode("3", b"\0\0\0\0\x09\x04") == b"\0\0\0\0\x09\x06"
    with pytest.raises(ConfigInvalid, match="shows the id"):
        codec.encode("3", None)
    for data in (b"\1\0\0\0\x09\x04", b"\0\0\0\0", b"\x04"):
        with pytest.raises(ConfigInvalid, match="do not begin with a zero"):
            codec.decode(data)


def test_what_the_text_cannot_hold_is_refused() -> None:
    rates = fastavro.parse_schema({"type": "map", "values": "double"})
    with pytest.raises(ConfigInvalid, match="are not avro"):
        AvroCodec('{"type": "map", "values": "double"}', confluent=False).decode(binary({"": 1.0}, rates))


@pytest.mark.parametrize("data", [b"", b"\x04a", b"\x02a\x02\x00\x00\x00\x00\x00\x00left"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ConfigInvalid, match="are not avro"):
        AvroCodec(json.dumps(SCHEMA), confluent=False).decode(data)


def test_what_would_be_read_back_as_something_else_is_refused() -> None:
    both = [{"type": "record", "name": name, "fields": [{"name": "x", "type": "int"}]} for name in ("One", "Two")]
    codec = AvroCodec(json.dumps(both), confluent=False)
    data = binary(("Two", {"x": 1}), fastavro.parse_schema(both))  # type: ignore[arg-type]
    cell = str(codec.decode(data))
    assert json.loads(cell) == {"Two": {"x": 1}}
    with pytest.raises(ConfigInvalid, match="read back as"):
        codec.encode(cell, None)
    number = AvroCodec('"double"', confluent=False)
    assert number.encode("2", None) == binary(2.0, "double"), "a whole number is a number"  # type: ignore[arg-type]
    for bad in ("{", '{"owner": 1}', "[]", '"text"'):
        with pytest.raises(ConfigInvalid, match="cannot be written as avro"):
            AvroCodec(json.dumps(SCHEMA), confluent=False).encode(bad, None)


@pytest.mark.parametrize("schema", ["", "{", '{"type": "nothing"}', '{"type": "record"}', "5"])
def test_a_schema_that_is_none_is_refused(schema: str) -> None:
    with pytest.raises(ConfigInvalid, match="no Avro schema"):
        AvroCodec(schema, confluent=False)
