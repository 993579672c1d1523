"""Local state: where it lies, and the settings with which it is filled from changelogs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from streams_recovery.core.status.advice.facts import AdviceFacts, as_number
from streams_recovery.core.status.advice.words import advice
from streams_recovery.core.status.finding import Severity, StatusFinding

DIRECTORY, CONSUMER, ROCKSDB = "state-directory", "restore-consumer", "rocksdb"
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", "/run")  # noqa: S108  # named so that nobody uses them
_POLL, _POLL_DEFAULT = "restore.consumer.max.poll.records", 1_000
_FETCH, _FETCH_DEFAULT = "restore.consumer.max.partition.fetch.bytes", 1 << 20
_SETTER = "rocksdb.config.setter"
_MANY = 10_000_000


def state_directory(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """State in a place that is emptied when the machine starts."""
    for directory in sorted({*facts.state_directories, *filter(None, [facts.streams.get("state.dir")])}):
        if not any(PurePosixPath(directory).is_relative_to(place) for place in _TEMPORARY):
            continue
        yield advice(
            DIRECTORY,
            Severity.WARNING,
            f"The local state is in {directory}, which is emptied when the machine starts. Every store is then read from its changelog "
            f"({facts.changelog_offsets:,} offsets in all). Set state.dir to a disk that stays.",
            subject=directory,
        )


def restore_consumer(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """A restore consumer that fetches less at once than it does by default."""
    for setting, default in ((_POLL, _POLL_DEFAULT), (_FETCH, _FETCH_DEFAULT)):
        value = as_number(facts.streams.get(setting))
        if value is None or value >= default:
            continue
        yield advice(
            CONSUMER,
            Severity.WARNING,
            f"The application reads its changelogs with {setting}={value:,}, and the default is {default:,}: after a restore it needs more requests for the "
            "same records. Take the setting out of the application.",
            subject=setting,
            value=value,
        )


def rocksdb(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Much state in RocksDB as it is set up for little."""
    # Without any setting nobody knows whether there is one.
    if not facts.streams or _SETTER in facts.streams or facts.changelog_offsets < _MANY:
        return
    yield advice(
        ROCKSDB,
        Severity.INFO,
        f"The changelogs have {facts.changelog_offsets:,} offsets, and the application sets no {_SETTER}. Each store then has its own block cache of 50 MB and "
        "write buffers of 16 MB, of which loading fills three before it waits for the disk. Larger write buffers and a shared cache make a restore faster.",
        offsets=facts.changelog_offsets,
    )
