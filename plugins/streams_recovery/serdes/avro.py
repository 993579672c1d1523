"""Avro's binary encoding by a schema, as Avro's own JSON encoding: a standard text that says which branch of a union was meant."""

from __future__ import annotations

import io
import json
from typing import Any, Final

import fastavro

from streams_recovery.core.bounded_json import document
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.state.cells import Cell, Format, not_of, same_document, unfit

_MAGIC: Final = b"\0"
_PREFIX: Final = 5


class AvroCodec:
    """One schema, read and written as it is: no schema evolution. With ``confluent`` each value has the id of its schema before it, and it stays."""

    def __init__(self, schema: str, *, confluent: bool) -> None:
        """Raises ``ConfigInvalid`` for text that is no Avro schema."""
        self._confluent = confluent
        try:
            self._schema = fastavro.parse_schema(_bare(json.loads(schema)))
        except Exception as error:  # noqa: BLE001  # what the library raises has no common root
            raise ConfigInvalid(
                f"this is no Avro schema: {type(error).__name__} {error}"[:300], next_step="correct the schema file that the store names"
            ) from None

    def decode(self, data: bytes) -> Cell:
        """See Codec. The whole of the bytes has to be used up."""
        body = self._body(data)
        try:
            source = io.BytesIO(body)
            datum: Any = fastavro.schemaless_reader(source, self._schema, None, return_named_type=True)
            left = len(body) - source.tell()
            target = io.StringIO()
            fastavro.json_writer(target, self._schema, [datum])
            document(target.getvalue())
        except Exception as error:  # noqa: BLE001  # as above; for an empty key in a map it is no more than this
            raise not_of(Format.AVRO, data, f"{type(error).__name__} {error}") from None
        if left:
            raise not_of(Format.AVRO, data, f"{left} bytes are left over")
        return target.getvalue().strip()

    def encode(self, cell: Cell, like: bytes | None) -> bytes:
        """See Codec. What is written is read back and compared: refused is what would come out as something else."""
        if not isinstance(cell, str):
            raise unfit(Format.AVRO, cell, "it is no JSON text")
        if self._confluent and like is None:
            raise unfit(Format.AVRO, cell, "no value of the store shows the id of the schema")
        try:
            (datum,) = fastavro.json_reader(io.StringIO(json.dumps(document(cell))), self._schema)
            target = io.BytesIO()
            fastavro.schemaless_writer(target, self._schema, datum)
        except Exception as error:  # noqa: BLE001  # as above; for an empty key in a map it is no more than this
            raise unfit(Format.AVRO, cell, f"{type(error).__name__} {error}") from None
        data = (like[:_PREFIX] if self._confluent and like else b"") + target.getvalue()
        # Of a union's branches the library takes the first that fits, whatever the text says.
        written = str(self.decode(data))
        if document(written) != document(cell) and not same_document(written, cell):
            raise unfit(
                Format.AVRO, cell, f"it would be read back as {written}; name every field, and see which branch of a union is meant"
            )
        return data

    def same(self, cell: Cell, data: bytes) -> bool:
        before = self.decode(data)
        return isinstance(cell, str) and isinstance(before, str) and same_document(cell, before)

    def _body(self, data: bytes) -> bytes:
        if not self._confluent:
            return data
        if len(data) < _PREFIX or data[:1] != _MAGIC:
            raise not_of(Format.AVRO, data, "they do not begin with a zero and the id of a schema")
        return data[_PREFIX:]


def _bare(schema: Any) -> Any:
    """A schema without logical types: dates and decimals are the numbers and bytes that they are, whatever their range."""
    if isinstance(schema, list):
        return [_bare(branch) for branch in schema]
    if isinstance(schema, dict):
        return {key: value if key == "default" else _bare(value) for key, value in schema.items() if key != "logicalType"}
    return schema
