"""Advice about brokers and about the application: local state, standby replicas, and time-outs of transactions and sessions.

The settings of brokers here cannot be changed while they run, and no broker knows the settings of an application.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from streams_recovery.core.kafka_types import Guarantee
from streams_recovery.core.preflight.findings import AUTO_CREATE
from streams_recovery.core.remedies.groups import add_standby, shorten_session
from streams_recovery.core.remedies.topics import stop_auto_create
from streams_recovery.core.status.advice.facts import DAY_SECONDS, AdviceFacts, advice, as_number, span
from streams_recovery.core.status.report import Severity, StatusFinding
from streams_recovery.core.words import first_names

_EMPTIED = "which is emptied when the machine starts"
_CLEANED = "where many systems delete what nobody has touched for 30 days"
# Named so that nobody uses them.
_TEMPORARY = {"/tmp": _EMPTIED, "/dev/shm": _EMPTIED, "/run": _EMPTIED, "/var/tmp": _CLEANED}  # noqa: S108
_POLL = "restore.consumer.max.poll.records"
# With Kafka Streams' defaults.
_RESTORE_CONSUMER = {_POLL: 1_000, "restore.consumer.max.partition.fetch.bytes": 1 << 20}
_SETTER = "rocksdb.config.setter"
# Offsets of all changelogs: from here on other settings of RocksDB, or standby replicas, pay.
_MUCH_FOR_ROCKSDB, _MUCH_FOR_ONE_COPY = 10_000_000, 3_000_000
# An instance reads some ten thousand records a second from a changelog into its store.
_RECORDS_A_SECOND = 50_000
_LAG, _LAG_DEFAULT = "acceptable.recovery.lag", 10_000
# Of Java: with it no task is ever warmed up.
_NO_LIMIT = 2**63 - 1
_NO_WARM_UP = 2**62
# The default is what Kafka Streams sets where the application sets nothing (StreamsConfig).
_TIMEOUT, _DEFAULT_MS = "producer.transaction.timeout.ms", 10_000
_LONG_SESSION_MS = 120_000


def auto_topic_creation(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Brokers that create a topic for whoever names it."""
    if facts.broker.get(AUTO_CREATE) == "true":
        yield advice(
            "auto-topic-creation",
            Severity.WARNING,
            f"The brokers create topics on first use ({AUTO_CREATE}=true). While a restore has deleted a topic, a client that is still running makes it "
            "again with the wrong partitions and settings.",
            remedy=stop_auto_create(),
        )


def offsets_retention(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Brokers that forget the offsets of a group that is down for some days."""
    minutes = as_number(facts.broker.get("offsets.retention.minutes"))
    if minutes is None:
        return
    kept, down = minutes * 60, facts.down_seconds
    if down is None and kept >= 7 * DAY_SECONDS:
        return
    if down is not None and kept >= 2 * down:
        return
    often = "" if down is None else f", and {facts.application_id} runs every {span(down * 1000)}"
    yield advice(
        "offsets-retention",
        Severity.CRITICAL if down is not None and kept < down else Severity.WARNING,
        f"The brokers forget the offsets of a group without members after {span(kept * 1000)} (offsets.retention.minutes){often}. An application that is "
        "down for longer does not know where it was. Set offsets.retention.minutes in server.properties and restart the brokers one by one.",
        kept_seconds=kept,
    )


def settings_not_readable(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Settings without advice, because the user of the connection may not look at them."""
    unseen = [*(["the brokers"] if not facts.broker else []), *facts.unreadable]
    if unseen:
        yield advice(
            "settings-not-readable",
            Severity.INFO,
            f"The settings of {first_names(unseen)} may not be read, so there is no advice "
            "about them. `streams-recovery preflight` has the command that grants the right.",
            unreadable=len(unseen),
        )


def settings_not_known(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Settings of the application that advice depends on and that the configuration does not tell. Those that it tells are believed."""
    wanted = [_LAG, _POLL, _SETTER, *([_TIMEOUT] if facts.guarantee is Guarantee.EXACTLY_ONCE_V2 else [])]
    unknown = [name for name in wanted if name not in facts.streams]
    if facts.streams or not unknown:
        return
    yield advice(
        "settings-not-known",
        Severity.INFO,
        f"No broker knows the application's own settings, so Kafka Streams' defaults are assumed for {', '.join(unknown)}. What the application sets can be "
        "written under application.streams_config.",
        unknown=len(unknown),
    )


def state_directory(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """State in a place that somebody else empties."""
    for directory in sorted({*facts.state_directories, *filter(None, [facts.streams.get("state.dir")])}):
        why = next((why for place, why in _TEMPORARY.items() if PurePosixPath(directory).is_relative_to(place)), None)
        if why is None:
            continue
        yield advice(
            "state-directory",
            Severity.WARNING,
            f"The local state is in {directory}, {why}. Every store is then read from its changelog "
            f"({facts.changelog_offsets:,} offsets in all). Set state.dir to a disk that stays.",
            subject=directory,
        )


def restore_consumer(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """A restore consumer that fetches less at once than it does by default."""
    for setting, default in _RESTORE_CONSUMER.items():
        value = as_number(facts.streams.get(setting))
        if value is None or value >= default:
            continue
        yield advice(
            "restore-consumer",
            Severity.WARNING,
            f"The application reads its changelogs with {setting}={value:,}, and the default is {default:,}: after a restore it needs more requests for the "
            "same records. Take the setting out of the application.",
            subject=setting,
            value=value,
        )


def rocksdb(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Much state in RocksDB as it is set up for little."""
    # Without any setting nobody knows whether there is one.
    if not facts.streams or _SETTER in facts.streams or facts.changelog_offsets < _MUCH_FOR_ROCKSDB:
        return
    yield advice(
        "rocksdb",
        Severity.INFO,
        f"The changelogs have {facts.changelog_offsets:,} offsets, and the application sets no {_SETTER}. Each store then has its own block cache of 50 MB and "
        "write buffers of 16 MB, of which loading fills three before it waits for the disk. Larger write buffers and a shared cache make a restore faster.",
        offsets=facts.changelog_offsets,
    )


def standbys(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Much state, and no second copy of it on another instance."""
    offsets = facts.changelog_offsets
    if facts.standbys or offsets < _MUCH_FOR_ONE_COPY:
        return
    yield advice(
        "standbys",
        Severity.INFO,
        f"The changelogs have {offsets:,} offsets, and there is no standby replica. The stores of an instance that is lost are read from them, by some "
        f"{_RECORDS_A_SECOND:,} records a second, while their partitions stand still. A standby replica keeps a second copy, and needs a second instance.",
        remedy=add_standby(facts.tools, facts.application_id, facts.group_kind, pauses=facts.pauses),
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
            "recovery-lag",
            Severity.WARNING,
            f"The application is paused for savepoints, and with {_LAG}={lag:,} Kafka Streams warms tasks up on another instance after a restart. An "
            f"instance with a task that is warmed up ends when it is resumed (KAFKA-20731). Set {_LAG}={_NO_LIMIT} in the application, or "
            "backup.consistency.mode: stop.",
            records=lag,
        )
    elif not facts.pauses and lag > 10 * _LAG_DEFAULT:
        yield advice(
            "recovery-lag",
            Severity.WARNING,
            f"An instance counts as ready for a task while it is up to {lag:,} records behind ({_LAG}). The task stands still there until they are read. "
            f"Kafka Streams' default is {_LAG_DEFAULT:,}.",
            records=lag,
        )


def transaction_timeout(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Transactions that a dead instance leaves open for longer than a savepoint waits, or than the brokers or the application allow."""
    if facts.guarantee is not Guarantee.EXACTLY_ONCE_V2:
        return
    timeout = as_number(facts.streams.get(_TIMEOUT, facts.streams.get("transaction.timeout.ms"))) or _DEFAULT_MS
    most = as_number(facts.broker.get("transaction.max.timeout.ms"))
    if most is not None and timeout > most:
        yield _advice(
            Severity.CRITICAL,
            f"and the brokers allow {span(most)} (transaction.max.timeout.ms): the application cannot start",
            timeout,
            most,
        )
    elif timeout <= facts.commit_interval_ms:
        yield _advice(
            Severity.CRITICAL,
            f"and it commits every {span(facts.commit_interval_ms)} (commit.interval.ms): brokers abort its transactions before it commits them",
            timeout,
            facts.commit_interval_ms,
        )
    elif timeout > facts.capture_seconds * 1000:
        limit = facts.capture_seconds * 1000
        yield _advice(
            Severity.WARNING,
            f"and a savepoint waits {span(limit)} (backup.consistency.timeout_seconds): after an instance died, savepoints fail until the brokers abort "
            "what it left open",
            timeout,
            limit,
        )


def _advice(severity: Severity, against: str, timeout: float, limit: float) -> StatusFinding:
    return advice(
        "transaction-timeout",
        severity,
        f"A transaction of the application may stay open for {span(timeout)} ({_TIMEOUT}), {against}. It is a setting of the application.",
        timeout_seconds=timeout / 1000,
        limit_seconds=limit / 1000,
    )


def session_timeout(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Sessions that are so long that a dead instance holds its partitions for minutes."""
    timeout = facts.session_timeout_ms
    if timeout > _LONG_SESSION_MS:
        yield advice(
            "session-timeout",
            Severity.INFO,
            f"The group notices the death of an instance after {span(timeout)} (application.session_timeout_ms). Its partitions stand still until then, and "
            "a restore waits as long for the group to become empty.",
            remedy=shorten_session(facts.tools, facts.application_id, facts.group_kind),
            timeout_seconds=timeout / 1000,
        )
