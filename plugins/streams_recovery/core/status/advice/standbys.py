"""How an application gets its state back by itself when an instance is lost: standby replicas, and when a task moves to one."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.status.advice.facts import AdviceFacts, as_number
from streams_recovery.core.status.advice.words import advice
from streams_recovery.core.status.finding import Severity, StatusFinding

KIND, LAG = "standbys", "recovery-lag"
# An instance reads some ten thousand records a second from a changelog into its store.
_RECORDS_A_SECOND = 50_000
_OFFSETS = 3_000_000
_LAG = "acceptable.recovery.lag"
_LAG_DEFAULT = 10_000
# Of Java: with it no task is ever warmed up.
NO_LIMIT = 2**63 - 1
_NO_WARM_UP = 2**62


def standbys(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Much state, and no second copy of it on another instance."""
    offsets = facts.changelog_offsets
    if facts.standbys or offsets < _OFFSETS:
        return
    cost = (
        " With standby replicas Kafka Streams cannot be paused for a savepoint (KAFKA-20731): it is stopped, or not held."
        if facts.pauses
        else ""
    )
    yield advice(
        KIND,
        Severity.INFO,
        f"The changelogs have {offsets:,} offsets, and there is no standby replica. The stores of an instance that is lost are read from them, by some "
        f"{_RECORDS_A_SECOND:,} records a second, while their partitions stand still. num.standby.replicas=1 in the application keeps a second copy, and needs "
        f"a second instance.{cost} Write application.standby_replicas then.",
        offsets=offsets,
        seconds=offsets / _RECORDS_A_SECOND,
    )


def recovery_lag(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Tasks that move to an instance that is far behind; or that are warmed up elsewhere first, which a pause does not survive."""
    lag = as_number(facts.streams.get(_LAG))
    if lag is None:
        return
    if facts.pauses and lag < _NO_WARM_UP:
        yield advice(
            LAG,
            Severity.WARNING,
            f"The application is paused for savepoints, and with {_LAG}={lag:,} Kafka Streams warms tasks up on another instance after a restart. An "
            f"instance with a task that is warmed up ends when it is resumed (KAFKA-20731). Set {_LAG}={NO_LIMIT} in the application, or "
            "backup.consistency.mode: stop.",
            records=lag,
        )
    elif not facts.pauses and lag > 10 * _LAG_DEFAULT:
        yield advice(
            LAG,
            Severity.WARNING,
            f"An instance counts as ready for a task while it is up to {lag:,} records behind ({_LAG}). The task stands still there until they are read. "
            f"Kafka Streams' default is {_LAG_DEFAULT:,}.",
            records=lag,
        )
