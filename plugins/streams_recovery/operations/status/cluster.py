"""What the cluster says of an application: group, topics, offsets, retention, transactions. Reads only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from streams_recovery.core.archive.log import Archive, goes_into_archive
from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.lag import Lag, lags
from streams_recovery.core.repository.manifest import Manifest, TopicImage
from streams_recovery.core.status.facts import ClusterFacts, InputState, TransactionState
from streams_recovery.core.status.inputs import InputLogs, first_unsaved, input_state, retention_seconds
from streams_recovery.core.status.report import TopicStatus
from streams_recovery.kafka.first_records import first_timestamps
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import Discovery, discover_remaining
from streams_recovery.operations.status.estimate import refusals
from streams_recovery.operations.status.repository import ArchiveSeen

_TOPIC = "topic "
# For the first records of all inputs: one fetch of each partition.
_FIRST_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPositions:
    """Starts and ends of all logs, and how far the group is behind in each."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    lags: Mapping[TopicPartition, Lag]


def cluster_facts(recovery: RecoveryContext, newest: Manifest | None, archive: ArchiveSeen) -> ClusterFacts:
    """What rules judge. ``newest`` is the newest exact savepoint, without its ranges, and ``archive`` what is behind it. Raises what asking the cluster
    raises.
    """
    expected = [topic.name for topic in newest.topics if topic.role.internal] if newest is not None else []
    found, missing = discover_remaining(recovery, expected)
    logs = _logs(recovery, found)
    return ClusterFacts(
        bootstrap_servers=recovery.connection.bootstrap_servers,
        group=found.group,
        topics=tuple(_topic(found, name, logs) for name in found.topics),
        # An application that has never run has committed nothing.
        missing=tuple(name.removeprefix(_TOPIC) for name in missing if newest is not None or name.startswith(_TOPIC)),
        inputs=_inputs(recovery, found, archive.saved, logs),
        transactions=_transactions(recovery, logs),
        unattributed=found.inventory.unattributed,
        refused=refusals(recovery, newest) if newest is not None else (),
        all_archived=_all_archived(found, archive.archive, logs),
    )


def _logs(recovery: RecoveryContext, found: Discovery) -> LogPositions:
    partitions = found.partitions()
    if not partitions:
        return LogPositions(starts={}, ends={}, lags={})
    starts = recovery.cluster.log_starts(partitions)
    # In this order an end is never below what was committed or decided before it.
    committed = recovery.groups.last_committed(recovery.application_id)
    stable = recovery.cluster.last_stable_offsets(partitions)
    ends = recovery.cluster.high_watermarks(partitions)
    return LogPositions(starts=starts, ends=ends, lags=lags(committed, starts, stable, ends))


def _all_archived(found: Discovery, archive: Archive, logs: LogPositions) -> bool:
    """Whether there is something to archive, and the archive has all of it."""
    newest = archive.newest
    names = [topic.name for topic in found.inventory.topics if goes_into_archive(topic) and topic.name in found.topics]
    return bool(names) and all(
        (log := newest.get(tp)) is not None and log.topic_id == found.topics[name].topic_id and logs.ends[tp] <= log.end
        for name in names
        for tp in _of(found, name)
    )


def _role(found: Discovery, name: str) -> TopicRole:
    return next(topic.role for topic in found.inventory.topics if topic.name == name)


def _of(found: Discovery, name: str) -> list[TopicPartition]:
    return [TopicPartition(name, number) for number in range(found.topics[name].partitions)]


def _topic(found: Discovery, name: str, logs: LogPositions) -> TopicStatus:
    role, partitions = _role(found, name), _of(found, name)
    return TopicStatus(
        name=name,
        role=role,
        partitions=len(partitions),
        records=sum(max(0, logs.ends[tp] - logs.starts[tp]) for tp in partitions),
        disk_bytes=None,
        lag=sum(logs.lags[tp].behind for tp in partitions) if role is TopicRole.INPUT else None,
    )


def _inputs(recovery: RecoveryContext, found: Discovery, newest: Manifest | None, logs: LogPositions) -> tuple[InputState, ...]:
    names = [topic.name for topic in found.inventory.topics if topic.role is TopicRole.INPUT and topic.name in found.topics]
    settings = recovery.cluster.settings(names) if names else {}
    images = {name: _same(found, newest, name) for name in names}
    by_topic = {name: _logs_of(_of(found, name), logs) for name in names}
    expiring = [name for name in names if retention_seconds(settings[name]) is not None]
    times = _first_times(recovery, {name: first_unsaved(by_topic[name], images[name]) for name in expiring})
    captured_at = newest.captured_at if newest is not None else 0
    return tuple(
        input_state(name, replace(by_topic[name], first_times=times.get(name, {})), settings[name], images[name], captured_at)
        for name in names
    )


def _first_times(recovery: RecoveryContext, unsaved: Mapping[str, Mapping[int, int]]) -> dict[str, dict[int, int]]:
    """When the records at these offsets were made, by topic and partition, as far as they can be read: a look is not to fail for want of it."""
    offsets = {TopicPartition(name, partition): offset for name, first in unsaved.items() for partition, offset in first.items()}
    try:
        found = first_timestamps(recovery.connection, offsets, seconds=_FIRST_SECONDS) if offsets else {}
    except RecoveryError:
        found = {}
    return {name: {tp.partition: at for tp, at in found.items() if tp.topic == name} for name in unsaved}


def _logs_of(partitions: list[TopicPartition], logs: LogPositions) -> InputLogs:
    return InputLogs(lags={tp.partition: logs.lags[tp] for tp in partitions})


def _same(found: Discovery, newest: Manifest | None, name: str) -> TopicImage | None:
    """The topic in the savepoint, unless it was made again since: then the offsets of one mean nothing in the other."""
    image = newest.topic(name) if newest is not None else None
    return image if image is not None and image.topic_id == found.topics[name].topic_id else None


def _transactions(recovery: RecoveryContext, logs: LogPositions) -> tuple[TransactionState, ...]:
    held_back = [tp for tp, end in logs.ends.items() if logs.lags[tp].stable < end]
    return tuple(
        TransactionState(
            tp=one.tp,
            start_offset=one.start_offset,
            transactional_id=one.transactional_id,
            age_seconds=one.age_seconds,
        )
        for one in (recovery.transactions.blocking(held_back) if held_back else ())
    )
