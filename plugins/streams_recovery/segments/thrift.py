"""Thrift's compact encoding, read without believing it: what is not as it has to be is refused, and memory is bounded by the bytes there are.

Only what headers and footers of Parquet files are made of: structs, lists, numbers and texts.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Value: TypeAlias = "int | bytes | list[Value] | Struct"
Struct: TypeAlias = dict[int, Value]

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 12
_DEEPEST: Final = 8
# A struct of a footer has thirty bytes and more.
_STRUCTS_FREE: Final = 64
_BYTES_A_STRUCT: Final = 16
_LONG: Final = 15
_MORE: Final = 0x80


class NotThrift(ValueError):
    """Raised for bytes that are no struct, or one that this software would not have written."""


class Reader:
    """Reads structs from the beginning of ``data``; ``at`` is where the last one ended."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0
        self._structs = _STRUCTS_FREE + len(data) // _BYTES_A_STRUCT

    def struct(self, depth: int = _DEEPEST) -> Struct:
        """A struct's values by the numbers of their fields. Raises ``NotThrift``."""
        self._structs -= 1
        if depth == 0 or self._structs < 0:
            raise NotThrift("it is nested too deep, or has too many parts")
        fields: Struct = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            if number in fields:
                raise NotThrift(f"it has field {number} twice")
            kind = head & 0x0F
            fields[number] = 2 - kind if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Value:
        if kind in (_I16, _I32, _I64):
            return self._signed()
        if kind == _STRUCT:
            return self.struct(depth - 1)
        if kind == _LIST:
            return self._list(depth)
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if kind in (_DOUBLE, _BINARY):
            return self._bytes(8 if kind == _DOUBLE else self._unsigned())
        raise NotThrift(f"it has a value of kind {kind}")

    def _list(self, depth: int) -> Value:
        head = self._byte()
        count = self._unsigned() if head >> 4 == _LONG else head >> 4
        if count > len(self._data) - self.at:
            raise NotThrift("it has a list that is longer than it")
        return [self._value(head & 0x0F, depth) for _ in range(count)]

    def _signed(self) -> int:
        found = self._unsigned()
        return (found >> 1) ^ -(found & 1)

    def _unsigned(self) -> int:
        found = 0
        for shift in range(0, 64, 7):
            byte = self._byte()
            found |= (byte & ~_MORE) << shift
            if byte < _MORE:
                return found
        raise NotThrift("it has a number of more than 64 bits")

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _bytes(self, count: int) -> bytes:
        found = self._data[self.at : self.at + count]
        if len(found) < count:
            raise NotThrift("it has no end")
        self.at += count
        return found
