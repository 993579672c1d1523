"""Kafka's default partitioner: murmur2 of the key's bytes. Kafka Streams uses it unless the application sets another one."""

from __future__ import annotations

from typing import Final

_MASK: Final = 0xFFFFFFFF
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_R: Final = 24


def murmur2(data: bytes) -> int:
    """The hash as Java's clients compute it, as an unsigned 32-bit number."""
    value = _SEED ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> _R) * _M & _MASK
        value = value * _M & _MASK ^ k
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15


def default_partition(key: bytes, partitions: int) -> int:
    """The partition of a record with this key in a topic with this number of partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
