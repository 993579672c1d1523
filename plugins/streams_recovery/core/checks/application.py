"""Checks of brokers and of the application: local state, standby replicas, and time-outs of transactions and sessions.

The settings of brokers here cannot be changed while they run, and no broker knows the settings of an application.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from streams_recovery.core.checks.check import CatalogueCheck, CheckPlace, Found, Occasion, Severity
from streams_recovery.core.checks.facts import AUTO_CREATE, DAY_SECONDS, AdviceFacts, Facts, as_number, span
from streams_recovery.core.kafka_types import Guarantee
from streams_recovery.core.named_transactions.way import CaptureWay
from streams_recovery.core.remedies.groups import add_standby, shorten_session
from streams_recovery.core.remedies.savepoints import hold_nothing, mirror_often
from streams_recovery.core.remedies.topics import stop_auto_create
from streams_recovery.core.words import first_names

_EMPTIED = "which is emptied when the machine starts"
_CLEANED = "where many systems delete what nobody has touched for 30 days"
# Named as places to avoid.
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


def _auto_topic_creation(facts: Facts, _place: CheckPlace) -> Iterator[Found]:
    if facts.brokers.settings.get(AUTO_CREATE) == "true":
        yield Found(
            severity=Severity.WARNING,
            text=f"the brokers create topics on first use ({AUTO_CREATE}=true): a client that comes too early, or still runs while a restore has deleted "
            "a topic, makes one with the wrong partitions and settings",
            remedy=stop_auto_create(),
        )


def _savepoint_way(facts: Facts, _place: CheckPlace) -> Iterator[Found]:
    """Savepoints that hold the application, or that need luck, and why they are not taken by the names of its transactions."""
    if facts.way is None or facts.way.way in (CaptureWay.NAMES, CaptureWay.DOWN):
        return
    missing, held = (
        facts.way.missing,
        f"The application is {'stopped' if facts.way.way is CaptureWay.STOP else 'paused'} for each savepoint",
    )
    if missing is None:
        yield Found(severity=Severity.INFO, text=f"{held}, and need not be: its transactions have names", remedy=hold_nothing())
    elif missing.remedy is not None and facts.way.way is CaptureWay.LIVE:
        yield Found(
            severity=Severity.WARNING,
            text=f"in mode live a savepoint is exact only if all logs stand still while they are read, because {missing.text}",
            remedy=missing.remedy,
        )
    elif missing.remedy is not None:
        yield Found(severity=Severity.INFO, text=f"{held}. Mode live would hold nothing, but {missing.text}", remedy=missing.remedy)


def _archive_in_one_place(facts: Facts, _place: CheckPlace) -> Iterator[Found]:
    """An archive that is copied to the second place behind savepoints only."""
    seconds = facts.archived_alone_seconds
    if seconds is not None:
        yield Found(
            severity=Severity.WARNING,
            text=f"what is archived comes to the second place behind a savepoint only, so the loss of the store would cost archived input of up to "
            f"{span(seconds * 1000)}",
            remedy=mirror_often(),
            numbers={"seconds": seconds},
        )


def _log_cleaner(facts: AdviceFacts, _place: CheckPlace) -> Iterator[Found]:
    """Nothing is ever compacted without it."""
    if facts.brokers.settings.get("log.cleaner.enable") == "false":
        yield Found(
            severity=Severity.CRITICAL,
            text="The brokers' log cleaner is off (log.cleaner.enable=false). Changelogs grow without end, and restores with them. Set "
            "log.cleaner.enable=true in server.properties and restart the brokers",
        )


def _offsets_retention(facts: AdviceFacts, _place: CheckPlace) -> Iterator[Found]:
    """Brokers that forget the offsets of a group that is down for some days."""
    minutes = as_number(facts.brokers.settings.get("offsets.retention.minutes"))
    if minutes is None:
        return
    kept, down = minutes * 60, facts.down_seconds
    if down is None and kept >= 7 * DAY_SECONDS:
        return
    if down is not None and kept >= 2 * down:
        return
    often = "" if down is None else f", and {facts.application_id} runs every {span(down * 1000)}"
    yield Found(
        severity=Severity.CRITICAL if down is not None and kept < down else Severity.WARNING,
        text=f"The brokers forget the offsets of a group without members after {span(kept * 1000)} (offsets.retention.minutes){often}. An application that is "
        "down for longer does not know where it was. Set offsets.retention.minutes in server.properties and restart the brokers one by one",
        numbers={"kept_seconds": kept},
    )


def _settings_not_readable(facts: AdviceFacts, _place: CheckPlace) -> Iterator[Found]:
    """Settings without advice, because the user of the connection may not look at them."""
    unseen = [*(["the brokers"] if not facts.brokers.settings else []), *facts.unreadable]
    if unseen:
        yield Found(
            severity=Severity.INFO,
            text=f"The settings of {first_names(unseen)} may not be read, so there is no advice "
            "about them. `streams-recovery preflight` has the command that grants the right",
            numbers={"unreadable": len(unseen)},
        )


def _settings_not_known(facts: AdviceFacts, _place: CheckPlace) -> Iterator[Found]:
    """Settings of the application that advice depends on and that the configuration does not tell. Those that it tells are believed."""
    wanted = [_LAG, _POLL, _SETTER, *([_TIMEOUT] if facts.guarantee is Guarantee.EXACTLY_ONCE_V2 else [])]
    unknown = [name for name in wanted if name not in facts.streams]
    if facts.streams or not unknown:
        return
    yield Found(
        severity=Severity.INFO,
        text=f"No broker knows the application's own settings, so Kafka Streams' defaults are assumed for {', '.join(unknown)}. What the application sets can "
        "be written under application.streams_config",
        numbers={"unknown": len(unknown)},
    )


def _state_directory(facts: AdviceFacts, _place: CheckPlace) -> Iterator[Found]:
    """State in a directory that the system empties."""
    for directory in sorted({*facts.state_directories, *filter(None, [facts.streams.get("state.dir")])}):
        why = next((why for place, why in _TEMPORARY.items() if PurePosixPath(directory).is_relative_to(place)), None)
        if why is None:
            continue
        yield Found(
            severity=Severity.WARNING,
            text=f"The local state is in {directory}, {why}. Every store is then read from its changelog "
            f"({facts.changelog_offsets:,} offsets in all). Set state.dir to a disk that stays",
            subject=directory,
        )


def _restore_consumer(facts: AdviceFacts, _place: CheckPlace) -> Iterator[Found]:
    """A restore consumer that fetches less at once than it does by default."""
    for setting, default in _RESTORE_CONSUMER.items():
        value = as_number(facts.streams.get(setting))
        if value is None or value >= default:
            continue
        yield Found(
            severity=Severity.WARNING,
            text=f"The application reads its changelogs with {setting}={value:,}, and the default is {default:,}: after a restore it needs more requests for "
            "the same records. Take the setting out of the application",
            subject=setting,
            numbers={"value": value},
        )


def _rocksdb(facts: AdviceFacts, _place: CheckPlace) -> Iterator[Found]:
    """Much state in RocksDB as it is set up for little."""
    # Without any known setting it is unknown whether RocksDB is configured.
    if not facts.streams or _SETTER in facts.streams or facts.changelog_offsets < _MUCH_FOR_ROCKSDB:
        return
    yield Found(
        severity=Severity.INFO,
        text=f"The changelogs have {facts.changelog_offsets:,} offsets, and the application sets no {_SETTER}. Each store then has its own block "
        "cache of 50 MB and write buffers of 16 MB, of which loading fills three before it waits for the disk. Larger write buffers and a shared cache make a "
        "restore faster",
        numbers={"offsets": facts.changelog_offsets},
    )


def _standbys(facts: AdviceFacts, _place: CheckPlace) -> Iterator[Found]:
    """Much state, and no second copy of it on another instance."""
    offsets = facts.changelog_offsets
    if facts.standbys or offsets < _MUCH_FOR_ONE_COPY:
        return
    yield Found(
        severity=Severity.INFO,
        text=f"The changelogs have {offsets:,} offsets, and there is no standby replica. The stores of an instance that is lost are read from them, by some "
        f"{_RECORDS_A_SECOND:,} records a second, while their partitions stand still. A standby replica keeps a second copy, and needs a second instance",
        remedy=add_standby(facts.tools, facts.application_id, facts.group_kind, pauses=facts.pauses),
        numbers={"offsets": offsets, "seconds": offsets / _RECORDS_A_SECOND},
    )


def _warm_up(facts: AdviceFacts, _place: CheckPlace) -> Iterator[Found]:
    """Tasks that are warmed up elsewhere first, which a pause does not survive."""
    lag = as_number(facts.streams.get(_LAG))
    if lag is not None and facts.pauses and lag < _NO_WARM_UP:
        yield Found(
            severity=Severity.WARNING,
            text=f"The application is paused for savepoints, and with {_LAG}={lag:,} Kafka Streams warms tasks up on another instance after a restart. An "
            f"instance with a task that is warmed up ends when it is resumed (KAFKA-20731). Set {_LAG}={_NO_LIMIT} in the application, or "
            "backup.consistency.mode: stop",
            numbers={"records": lag},
        )


def _recovery_lag(facts: AdviceFacts, _place: CheckPlace) -> Iterator[Found]:
    """Tasks that move to an instance that is far behind."""
    lag = as_number(facts.streams.get(_LAG))
    if lag is not None and not facts.pauses and lag > 10 * _LAG_DEFAULT:
        yield Found(
            severity=Severity.WARNING,
            text=f"An instance counts as ready for a task while it is up to {lag:,} records behind ({_LAG}). The task stands still there until they are read. "
            f"Kafka Streams' default is {_LAG_DEFAULT:,}",
            numbers={"records": lag},
        )


def _transaction_timeout(facts: AdviceFacts, _place: CheckPlace) -> Iterator[Found]:
    """Transactions that a dead instance leaves open for longer than a savepoint waits, or than the brokers or the application allow."""
    if facts.guarantee is not Guarantee.EXACTLY_ONCE_V2:
        return
    timeout = as_number(facts.streams.get(_TIMEOUT, facts.streams.get("transaction.timeout.ms"))) or _DEFAULT_MS
    most = as_number(facts.brokers.settings.get("transaction.max.timeout.ms"))
    if most is not None and timeout > most:
        yield _timeout(
            Severity.CRITICAL,
            f"and the brokers allow {span(most)} (transaction.max.timeout.ms): the application cannot start",
            timeout,
            most,
        )
    elif timeout <= facts.commit_interval_ms:
        yield _timeout(
            Severity.CRITICAL,
            f"and it commits every {span(facts.commit_interval_ms)} (commit.interval.ms): brokers abort its transactions before it commits them",
            timeout,
            facts.commit_interval_ms,
        )
    elif timeout > facts.capture_seconds * 1000:
        limit = facts.capture_seconds * 1000
        yield _timeout(
            Severity.WARNING,
            f"and a savepoint waits {span(limit)} (backup.consistency.timeout_seconds): after an instance died, savepoints fail until the brokers abort "
            "what it left open",
            timeout,
            limit,
        )


def _timeout(severity: Severity, against: str, timeout: float, limit: float) -> Found:
    return Found(
        severity=severity,
        text=f"A transaction of the application may stay open for {span(timeout)} ({_TIMEOUT}), {against}. It is a setting of the application",
        numbers={"timeout_seconds": timeout / 1000, "limit_seconds": limit / 1000},
    )


def _session_timeout(facts: AdviceFacts, _place: CheckPlace) -> Iterator[Found]:
    """Sessions that are so long that a dead instance holds its partitions for minutes."""
    timeout = facts.session_timeout_ms
    if timeout > _LONG_SESSION_MS:
        yield Found(
            severity=Severity.INFO,
            text=f"The group notices the death of an instance after {span(timeout)} (application.session_timeout_ms). Its partitions stand still until then, "
            "and a restore waits as long for the group to become empty",
            remedy=shorten_session(facts.tools, facts.application_id, facts.group_kind),
            numbers={"timeout_seconds": timeout / 1000},
        )


def _advised(
    question: str, kind: str, find: Callable[[AdviceFacts, CheckPlace], Iterable[Found]], *severities: Severity
) -> CatalogueCheck[AdviceFacts]:
    return CatalogueCheck(question, find, (CheckPlace(asked=Occasion.ADVICE, kind=kind),), severities or (Severity.WARNING,))


SHARED: Final[tuple[CatalogueCheck[Facts], ...]] = (
    CatalogueCheck(
        "Do the brokers create topics on first use?",
        _auto_topic_creation,
        (
            *(CheckPlace(asked=asked, kind=AUTO_CREATE) for asked in (Occasion.SAVEPOINT, Occasion.RESTORE)),
            CheckPlace(asked=Occasion.ADVICE, kind="auto-topic-creation"),
        ),
    ),
    CatalogueCheck(
        "Does the archive come to the second place as often as it grows?",
        _archive_in_one_place,
        tuple(CheckPlace(asked=asked, kind="archive-one-place") for asked in (Occasion.SAVEPOINT, Occasion.ADVICE)),
    ),
    CatalogueCheck(
        "Are savepoints taken by the names of transactions?",
        _savepoint_way,
        tuple(CheckPlace(asked=asked, kind="savepoint-way") for asked in (Occasion.SAVEPOINT, Occasion.ADVICE)),
        severities=(Severity.WARNING, Severity.INFO),
    ),
)
"""Asked in several places."""
CHECKS: Final[tuple[CatalogueCheck[AdviceFacts], ...]] = (
    _advised("Does the log cleaner work?", "log-cleaner", _log_cleaner, Severity.CRITICAL),
    _advised(
        "Do the brokers keep the offsets of a group that is down?",
        "offsets-retention",
        _offsets_retention,
        Severity.CRITICAL,
        Severity.WARNING,
    ),
    _advised(
        "Are transactions that an instance left open aborted in time?",
        "transaction-timeout",
        _transaction_timeout,
        Severity.CRITICAL,
        Severity.WARNING,
    ),
    _advised("Is the death of an instance noticed in time?", "session-timeout", _session_timeout, Severity.INFO),
    _advised("Has much state a second copy?", "standbys", _standbys, Severity.INFO),
    _advised("Does the application survive a pause while tasks are warmed up?", "recovery-lag", _warm_up),
    _advised("Do tasks go to instances that are ready for them?", "recovery-lag", _recovery_lag),
    _advised("Does local state stay?", "state-directory", _state_directory),
    _advised("Does the restore consumer fetch enough at once?", "restore-consumer", _restore_consumer),
    _advised("Is RocksDB set up for much state?", "rocksdb", _rocksdb, Severity.INFO),
    _advised("Does the configuration tell the application's settings?", "settings-not-known", _settings_not_known, Severity.INFO),
    CatalogueCheck(
        "May all settings be read?",
        _settings_not_readable,
        (CheckPlace(asked=Occasion.ADVICE, kind="settings-not-readable"),),
        severities=(Severity.INFO,),
        apart="Before a run each missing right is told with the command that grants it, whatever the run needs it for (acl). Advice only says of what it tells "
        "nothing.",
    ),
)
"""Asked as advice only."""
