"""The log cleaner and deletions: for how long a copy of a compacted topic may be continued.

A deletion is a record without a value. The cleaner may remove it once ``delete.retention.ms`` has passed. A copy that reads on only after that time misses the
deletion: a restore of both parts would bring the deleted key back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.topic_settings import compacts

_DELETE_RETENTION = "delete.retention.ms"
# Kafka's default of delete.retention.ms, if the broker does not report the effective value: how long the cleaner keeps a tombstone after it has first
# cleaned it.
_DEFAULT_DELETE_RETENTION_MS: Final = 86_400_000
# Two machines that look one after the other: so much may the clock of the second one be behind.
_CLOCKS_MS: Final = 60_000


def compacted(role: TopicRole, *settings: Mapping[str, str]) -> bool:
    """True if the cleaner may come to a topic of this role with any of these settings."""
    return role is TopicRole.CHANGELOG or any(map(compacts, settings))


def deletion_retention(settings: Iterable[Mapping[str, str]]) -> int:
    """For how many milliseconds a deletion stays at least, by the shortest of these settings. The cleaner sets the time of a deletion when it first cleans it,
    from the setting at that time.
    """
    return min((int(found[_DELETE_RETENTION]) for found in settings if _DELETE_RETENTION in found), default=_DEFAULT_DELETE_RETENTION_MS)


def deletions_gone(settings: Iterable[Mapping[str, str]], *, last: int, now: int, after: str) -> str | None:
    """The reason deletions may have been removed between ``last``, when all that there was had been read, and ``now`` (ms). ``after`` is what read last."""
    if now < last:
        return f"{after} was taken {last - now} ms from now by its clock: tombstones may be gone"
    retention = deletion_retention(settings)
    if now - last >= retention:
        return f"tombstones may be gone: {now - last} ms since {after}, {_DELETE_RETENTION} is {retention}"
    return None


def looked_too_late(settings: Mapping[str, Iterable[Mapping[str, str]]], *, last: int, now: int) -> dict[str, str]:
    """The compacted topics whose deletions may be gone, with the reason, when an archiver had archived all by ``last`` and looks again ``now``."""
    # Its clock may be a little behind that of the archiver before it.
    now = now if now < last - _CLOCKS_MS else max(now, last)
    found = {name: deletions_gone(known, last=last, now=now, after="the last look that had all") for name, known in settings.items()}
    return {name: why for name, why in found.items() if why is not None}
