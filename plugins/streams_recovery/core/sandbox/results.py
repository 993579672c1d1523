"""Results of an interval in place of those that an output has: what can be claimed of it, decided from names, times and digests. Pure.

A log cannot be changed. Whoever reads only the newest record of each key (a compacted topic) sees a result replaced as soon as another one
comes behind it; whoever reads every record sees both. So the two kinds of topics differ in what can be done, and in what is refused.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from streams_recovery.core.sandbox.interval import Interval


class PublishPolicy(enum.StrEnum):
    """``side_by_side``: results stay in topics of the interval's own. ``replace``: they go into the application's outputs."""

    SIDE_BY_SIDE = "side_by_side"
    REPLACE = "replace"


class Readers(enum.StrEnum):
    """What those who read a topic see of it: the ``newest`` record of each key, or ``every`` record."""

    NEWEST = "newest"
    EVERY = "every"


def readers(settings: Mapping[str, str]) -> Readers:
    """Who reads a topic with these settings."""
    return Readers.NEWEST if "compact" in settings.get("cleanup.policy", "") else Readers.EVERY


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The newest record of a key: where it is, its time, a digest of all of it, and whether it deletes the key."""

    offset: int
    timestamp: int
    digest: bytes
    tombstone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """What becomes of the keys of one partition. ``write`` are the offsets of results to write; ``same`` keys have their result already, ``superseded``
    ones have a later result, and both stay. ``vanished`` keys have a result of the interval that processing it again did not bring.
    """

    write: frozenset[int]
    same: int
    superseded: int
    vanished: tuple[bytes, ...]


def decide_newest(interval: Interval, results: Mapping[bytes, Found], there: Mapping[bytes, Found]) -> Newest:
    """``results`` are those of the interval, ``there`` is what the output has since the interval began, both the newest of each key."""
    write, same, superseded = set(), 0, 0
    for key, result in results.items():
        known = there.get(key)
        if known is not None and known.timestamp >= interval.end:
            superseded += 1
        elif known is not None and known.digest == result.digest:
            same += 1
        else:
            write.add(result.offset)
    vanished = [key for key, known in there.items() if known.timestamp in interval and not known.tombstone and key not in results]
    return Newest(write=frozenset(write), same=same, superseded=superseded, vanished=tuple(sorted(vanished)))


class Every(enum.StrEnum):
    """What is done where every record counts: ``append`` the results, where the output has none of the interval; nothing, where it has the ``same``; or
    it is ``different``, and cannot be replaced.
    """

    APPEND = "append"
    SAME = "same"
    DIFFERENT = "different"


def decide_every(results: Counter[bytes], there: Counter[bytes]) -> Every:
    """Both are digests of records of the interval, in whatever order."""
    if there == results:
        return Every.SAME
    return Every.DIFFERENT if there else Every.APPEND


def why_not_replaced(topic: str, settings: Mapping[str, str], partitions: int, expected: int, earliest: int, now: int) -> str | None:
    """Why results as old as ``earliest`` cannot be put into an output with these settings, or None when they can."""
    if partitions != expected:
        return f"{topic} has {partitions} partitions, and the results have {expected}"
    if settings.get("message.timestamp.type", "CreateTime") != "CreateTime":
        return f"{topic} gives every record the time of its arrival, so that the results would be of now"
    before = int(settings.get("message.timestamp.before.max.ms", str(2**63 - 1)))
    if earliest < now - before:
        return f"{topic} takes no record that is more than {before} ms old (message.timestamp.before.max.ms)"
    retention = int(settings.get("retention.ms", "-1"))
    if "delete" in settings.get("cleanup.policy", "delete") and 0 <= retention < now - earliest:
        return f"{topic} keeps records for {retention} ms (retention.ms), so that the results could be deleted at once"
    return None
