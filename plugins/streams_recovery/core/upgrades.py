"""Manifests of older format versions, brought to the newest before they are read. One step a version; nothing stored is ever changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streams_recovery.core.errors import Damaged

READABLE_VERSIONS = (1, 2)


def upgraded(plain: dict[str, Any], *, where: str) -> dict[str, Any]:
    """A manifest's JSON, of a version that can be read, in the shape of the newest one. ``plain`` is changed in place.

    What is not as its own version wants it stays as it is, for the reader to refuse. Raises ``Damaged`` for a key that came later.
    """
    if plain.get("format_version") == 1:
        _one_to_two(plain, where)
    return plain


def _one_to_two(plain: dict[str, Any], where: str) -> None:
    """Version 2 knows ranges that are reduced, and savepoints made from others. Nothing of version 1 is either."""
    for topic in _objects(plain.get("topics")):
        for partition in _objects(topic.get("partitions")):
            for copied in _objects(partition.get("ranges")):
                _added(copied, "reduced", where)
    for provenance in _objects([plain.get("provenance")]):
        _added(provenance, "reduced_from", where)
    plain["format_version"] = 2


def _objects(value: object) -> Iterator[dict[str, Any]]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def _added(entry: dict[str, Any], key: str, where: str) -> None:
    if key in entry:
        raise Damaged(f"{where} is of format version 1, which does not know {key}", next_step="choose another savepoint", where=where)
    entry[key] = None
