"""Facts of an application on the cluster and on its disks, and consumer groups as the cluster has them now. Reads only.

``ping`` tells a service outside that a look was made. A service that misses the request can say that Airflow itself is dead.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from streams_recovery.application.http_control import exchange
from streams_recovery.core.archive.log import Archive, goes_into_archive
from streams_recovery.core.errors import NotFound, RecoveryError
from streams_recovery.core.kafka_types import GroupDescription, TopicPartition, TopicRole
from streams_recovery.core.lag import Lag, lags
from streams_recovery.core.remedies.transactions import OpenTransaction
from streams_recovery.core.repository.manifest import Manifest, TopicImage
from streams_recovery.core.status.facts import BROKER, ClusterFacts, DiskFacts, InputState
from streams_recovery.core.status.look import GroupLag, InputLogs, first_unsaved, group_lag, input_state, retention_seconds
from streams_recovery.core.status.report import DiskStatus, TopicStatus
from streams_recovery.kafka.range_consumer import first_timestamps
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import Discovery, discover_remaining, repartition_partitions
from streams_recovery.operations.lag import measure
from streams_recovery.operations.status.estimate import refusals
from streams_recovery.operations.status.stored import ArchiveSeen

_TOPIC: Final = "topic "
# For the first records of all inputs: one fetch of each partition.
_FIRST_SECONDS: Final = 10.0
_PING_SECONDS: Final = 10.0
_MOST_ANSWER: Final = 1_000

Logs = Mapping[TopicPartition, Lag]


def cluster_facts(recovery: RecoveryContext, newest: Manifest | None, archive: ArchiveSeen) -> ClusterFacts:
    """The facts that rules judge. ``newest`` is the newest exact savepoint, without its ranges, and ``archive`` what is behind it. Raises what asking the
    cluster raises.
    """
    expected = [topic.name for topic in newest.topics if topic.role.internal] if newest is not None else []
    found, missing = discover_remaining(recovery, expected)
    logs = _logs(recovery, found)
    roles = {topic.name: topic.role for topic in found.inventory.topics}
    return ClusterFacts(
        tools=recovery.connection.tools,
        group=found.group,
        topics=tuple(_topic(found, name, roles[name], logs) for name in found.topics),
        # An application that has never run has committed nothing.
        missing=tuple(name.removeprefix(_TOPIC) for name in missing if newest is not None or name.startswith(_TOPIC)),
        inputs=_inputs(recovery, found, archive.saved, logs),
        transactions=_transactions(recovery, logs),
        unattributed=found.inventory.unattributed,
        refused=refusals(recovery, newest) if newest is not None else (),
        all_archived=_all_archived(found, archive.archive, logs),
        committed=_committed(found, logs),
    )


def _logs(recovery: RecoveryContext, found: Discovery) -> Logs:
    partitions = found.partitions()
    if not partitions:
        return {}
    starts = recovery.cluster.log_starts(partitions)
    # In this order an end is never below what was committed or decided before it.
    committed = recovery.groups.last_committed(recovery.application_id)
    stable = recovery.cluster.last_stable_offsets(partitions)
    return lags(committed, starts, stable, recovery.cluster.high_watermarks(partitions))


def _all_archived(found: Discovery, archive: Archive, logs: Logs) -> bool:
    """True if there is something to archive, and the archive has all of it."""
    newest = archive.newest
    names = [topic.name for topic in found.inventory.topics if goes_into_archive(topic) and topic.name in found.topics]
    return bool(names) and all(
        (log := newest.get(tp)) is not None and log.topic_id == found.topics[name].topic_id and logs[tp].end <= log.end
        for name in names
        for tp in _of(found, name)
    )


def _committed(found: Discovery, logs: Logs) -> int:
    names = [topic.name for topic in found.inventory.topics if topic.role is TopicRole.INPUT and topic.name in found.topics]
    return sum(logs[tp].committed or 0 for name in names for tp in _of(found, name))


def _of(found: Discovery, name: str) -> list[TopicPartition]:
    return [TopicPartition(name, number) for number in range(found.topics[name].partitions)]


def _topic(found: Discovery, name: str, role: TopicRole, logs: Logs) -> TopicStatus:
    own = [logs[tp] for tp in _of(found, name)]
    return TopicStatus(
        name=name,
        role=role,
        partitions=len(own),
        records=sum(max(0, lag.end - lag.start) for lag in own),
        disk_bytes=None,
        lag=sum(lag.behind for lag in own) if role is TopicRole.INPUT else None,
    )


def _inputs(recovery: RecoveryContext, found: Discovery, newest: Manifest | None, logs: Logs) -> tuple[InputState, ...]:
    names = [topic.name for topic in found.inventory.topics if topic.role is TopicRole.INPUT and topic.name in found.topics]
    settings = recovery.cluster.settings(names) if names else {}
    images = {name: _same(found, newest, name) for name in names}
    by_topic = {name: InputLogs(lags={tp.partition: logs[tp] for tp in _of(found, name)}) for name in names}
    expiring = [name for name in names if retention_seconds(settings[name]) is not None]
    times = _first_times(recovery, {name: first_unsaved(by_topic[name], images[name]) for name in expiring})
    captured_at = newest.captured_at if newest is not None else 0
    return tuple(
        input_state(name, replace(by_topic[name], first_times=times.get(name, {})), settings[name], images[name], captured_at)
        for name in names
    )


def _first_times(recovery: RecoveryContext, unsaved: Mapping[str, Mapping[int, int]]) -> dict[str, dict[int, int]]:
    """Timestamps (ms) of the records at these offsets, by topic and partition, as far as they can be read: a look is not to fail for want of them."""
    offsets = {TopicPartition(name, partition): offset for name, first in unsaved.items() for partition, offset in first.items()}
    try:
        found = first_timestamps(recovery.connection, offsets, seconds=_FIRST_SECONDS) if offsets else {}
    except RecoveryError:
        found = {}
    return {name: {tp.partition: at for tp, at in found.items() if tp.topic == name} for name in unsaved}


def _same(found: Discovery, newest: Manifest | None, name: str) -> TopicImage | None:
    """The topic in the savepoint, unless it was made again since: then the offsets of one mean nothing in the other."""
    image = newest.topic(name) if newest is not None else None
    return image if image is not None and image.topic_id == found.topics[name].topic_id else None


def _transactions(recovery: RecoveryContext, logs: Logs) -> tuple[OpenTransaction, ...]:
    return recovery.transactions.seen([tp for tp, lag in logs.items() if lag.stable < lag.end])


@dataclass(frozen=True, slots=True, kw_only=True)
class DisksSeen:
    """The disks that could be seen, with the bytes of local state, None if it is elsewhere. ``problem`` says why the brokers' disks could not be seen."""

    facts: DiskFacts
    state_bytes: int | None
    problem: str | None


def disks_seen(recovery: RecoveryContext, partitions: Mapping[str, int] | None) -> DisksSeen:
    """All disks. ``partitions`` are those of the application's topics, None when the cluster was not seen."""
    disks, topics, problem = [*_repository(recovery), *_state_disks(recovery)], dict[str, int](), None
    if partitions is None:
        problem = "the cluster was not seen, so its disks were not either"
    else:
        try:
            for found in recovery.cluster.log_dirs(partitions):
                for name, size in found.topics.items():
                    topics[name] = topics.get(name, 0) + size
                if found.total_bytes is not None and found.free_bytes is not None:
                    name = f"{BROKER}{found.broker} {found.path}"
                    disks.append(DiskStatus(name=name, total_bytes=found.total_bytes, free_bytes=found.free_bytes))
        except RecoveryError as error:
            problem = error.reason
    return DisksSeen(
        facts=DiskFacts(disks=tuple(disks), topic_bytes=topics, brokers_seen=problem is None),
        state_bytes=_state_bytes(recovery),
        problem=problem,
    )


def _repository(recovery: RecoveryContext) -> Iterator[DiskStatus]:
    location = recovery.repository.location
    if location.backend == "filesystem" and location.path is not None:
        yield from _disk("repository", Path(location.path))


def _state_disks(recovery: RecoveryContext) -> Iterator[DiskStatus]:
    for name, directory in _state_directories(recovery).items():
        yield from _disk(f"state {name}", directory)


def _disk(name: str, directory: Path) -> Iterator[DiskStatus]:
    try:
        usage = shutil.disk_usage(directory)
    except OSError:
        # It is made with the first savepoint, or with the first start.
        return
    yield DiskStatus(name=name, total_bytes=usage.total, free_bytes=usage.free)


def _state_directories(recovery: RecoveryContext) -> dict[str, Path]:
    process = recovery.config.runs.process if recovery.config.runs.kind == "process" else None
    return {instance.name: Path(instance.state_directory) for instance in process.instances} if process is not None else {}


def _state_bytes(recovery: RecoveryContext) -> int | None:
    own = [path for directory in _state_directories(recovery).values() if (path := directory / recovery.application_id).is_dir()]
    return sum(map(_size, own)) if own else None


def _size(directory: Path) -> int:
    """Bytes of all files below. RocksDB makes and removes them meanwhile."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += (Path(folder) / name).lstat().st_size
            except OSError:
                continue
    return total


def look_at_group(recovery: RecoveryContext, group_id: str | None = None) -> GroupLag:
    """A group's members, and how far it is behind: the application's own in its inputs and its repartition topics, another one wherever it has committed
    or reads. Topics that do not exist are left out. Raises ``NotFound`` for another group that does not exist.
    """
    group = recovery.groups.describe(group_id or recovery.application_id)
    if group.group_id != recovery.application_id:
        if group.kind == "absent":
            raise NotFound(
                f"there is no group {group.group_id}", next_step="streams-recovery groups list has the names", groups=[group.group_id]
            )
        return group_lag(group, {}, _lags(recovery, group))
    inputs = recovery.cluster.describe_topics(recovery.topics.inputs)
    roles = {TopicPartition(name, number): TopicRole.INPUT for name, found in inputs.items() for number in range(found.partitions)}
    roles |= dict.fromkeys(repartition_partitions(recovery), TopicRole.REPARTITION)
    return group_lag(group, roles, measure(recovery, roles))


def _lags(recovery: RecoveryContext, group: GroupDescription) -> dict[TopicPartition, Lag]:
    committed = recovery.groups.last_committed(group.group_id)
    read = {*committed, *(tp for member in group.members for tp in member.assigned)}
    topics = recovery.cluster.describe_topics({tp.topic for tp in read})
    wanted = sorted(tp for tp in read if tp.topic in topics and tp.partition < topics[tp.topic].partitions)
    if not wanted:
        return {}
    starts, stable = recovery.cluster.log_starts(wanted), recovery.cluster.last_stable_offsets(wanted)
    return lags(committed, starts, stable, recovery.cluster.high_watermarks(wanted))


def ping(url: str) -> str | None:
    """Request the address. Returns the reason of a failure, None without one. No redirect is followed. The path may be a secret, so only the host is named."""
    parts = urlsplit(url)
    path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    try:
        answer = exchange("GET", parts._replace(path="", query="", fragment="").geturl(), path, seconds=_PING_SECONDS, limit=_MOST_ANSWER)
    except (OSError, HTTPException) as error:
        return f"{parts.hostname}: {error or type(error).__name__}"
    good = HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES
    return None if good else f"{parts.hostname} answered {answer.status}"
