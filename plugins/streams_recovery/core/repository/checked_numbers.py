"""Numbers of what is read from a repository, within what Kafka itself has: whoever works with one later sends it to a broker or counts with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streams_recovery.core.errors import Damaged

# Kafka's protocol has 32 bits for a leader epoch, and 16 for a replication factor.
_MOST_EPOCH: Final = 2**31 - 1
_MOST_REPLICAS: Final = 2**15 - 1
_LONG: Final = 2**63


def check_epoch(epoch: int | None, *, what: str, where: str) -> None:
    """Raise ``Damaged`` for a leader epoch that no broker gives."""
    if epoch is not None and not 0 <= epoch <= _MOST_EPOCH:
        raise _damaged(f"{where} has the leader epoch {epoch} of {what}, which is none", where)


def check_replicas(factor: int, *, topic: str, where: str) -> None:
    """Raise ``Damaged`` for a replication factor that no topic can have."""
    if not 1 <= factor <= _MOST_REPLICAS:
        raise _damaged(f"{where} has the replication factor {factor} of {topic}, which is none", where)


def check_settings(settings: Mapping[str, str], *, topic: str, where: str) -> None:
    """Raise ``Damaged`` for a duration among these settings of a topic that is no whole number: Kafka has them all in whole milliseconds."""
    for name, value in settings.items():
        if name.endswith(".ms") and not _is_long(value):
            raise _damaged(f"{where} has {name} {value[:50]!r} for {topic}, which is no whole number of milliseconds", where)


def _is_long(value: str) -> bool:
    try:
        return -_LONG <= int(value) < _LONG
    except ValueError:
        return False


def _damaged(reason: str, where: str) -> Damaged:
    return Damaged(reason, next_step="do not use this savepoint; verify the repository and choose another one", where=where)
