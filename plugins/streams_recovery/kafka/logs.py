"""Questions to brokers about logs and topics.

Offsets: one request for all partitions, and only those that were not ready are asked for again.
Leader epochs: how far a log goes that was written up to an epoch tells a log that grew from one that was cut back and grew again.
Disks: bytes of topics, replicas included, and the space of the disks where brokers tell it (Kafka 3.3 and later).
Configurations: overrides and settings in force are read, and overrides are changed.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but its stubs do not say so
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ListOffsetsResultInfo,
    OffsetSpec,
    ResourceType,
)
from kafka.protocol.admin import DescribeLogDirsRequest
from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.topic_settings import IN_FORCE, InForce, SettingSource
from streams_recovery.kafka import errors
from streams_recovery.kafka.clients import Clients, Deadline

EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_NEWEST = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]

# How long a partition may be unknown before it is called missing: news of a topic that was just created takes a moment.
_UNKNOWN_SECONDS = 3.0
_HOPELESS = 2

_DIR_TOPIC = DescribeLogDirsRequest.DescribableLogDirTopic

_EPOCH_TOPIC = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
_EPOCH_PARTITION = _EPOCH_TOPIC.OffsetForLeaderPartition

Changes = Mapping[str, Mapping[str, str | None]]
# What to alter of a topic with these overrides: None deletes one, and nothing is to be altered when it is empty.
Change = Callable[[Mapping[str, str]], Mapping[str, str | None]]

_SOURCES = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: SettingSource.TOPIC,
    ConfigSource.DYNAMIC_BROKER_CONFIG: SettingSource.DYNAMIC_BROKER,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: SettingSource.DYNAMIC_BROKER,
    ConfigSource.STATIC_BROKER_CONFIG: SettingSource.STATIC_BROKER,
    ConfigSource.DEFAULT_CONFIG: SettingSource.DEFAULT,
}


def at_time(timestamp: int) -> OffsetSpec:
    """The first record at ``timestamp`` (ms) or later; its offset is -1 where there is none."""
    spec: OffsetSpec = OffsetSpec.for_timestamp(timestamp)
    return spec


def list_offsets(
    clients: Clients, partitions: Collection[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel
) -> dict[TopicPartition, int]:
    """The offset ``spec`` stands for, of every partition, or an error. Raises ``NotFound`` for a partition that does not exist.

    The latest offset is the high watermark when uncommitted records count, and the last stable offset when they do not.
    """
    return {partition: int(found.offset) for partition, found in _look_up(clients, partitions, spec, isolation).items()}


def newest_timestamps(clients: Clients, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
    """The highest timestamp (ms) in each log, None for a log without records. Raises ``NotFound`` for a partition that does not exist."""
    found = _look_up(clients, partitions, _NEWEST, IsolationLevel.READ_UNCOMMITTED)
    return {partition: int(newest.timestamp) if newest.offset >= 0 else None for partition, newest in found.items()}


def _look_up(
    clients: Clients, partitions: Collection[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel
) -> dict[TopicPartition, ListOffsetsResultInfo]:
    found: dict[TopicPartition, ListOffsetsResultInfo] = {}
    pending = set(partitions)
    deadline, unknown_deadline = Deadline(clients.timeout), Deadline(min(_UNKNOWN_SECONDS, clients.timeout))
    while pending:
        answered, failed = _ask_once(clients, pending, spec, isolation)
        found |= answered
        pending -= answered.keys()
        if not failed:
            continue
        partition, error = max(failed.items(), key=_urgency)
        code = errors.code_of(error)
        # librdkafka says the same of a partition without a leader as of one that does not exist.
        unknown = errors.unknown_partition(code)
        leaderless = _without_leader(clients, failed) if unknown else {}
        waiting = unknown_deadline if unknown and not leaderless else deadline
        if _urgency((partition, error)) == _HOPELESS or not waiting.pause():
            if leaderless:
                raise errors.no_leader(leaderless) from error
            raise errors.translated(error, clients.connection, f"asking for the offsets of {partition}", timeout=clients.timeout) from error
        if errors.stale_leader(code) or errors.unreachable(code):
            _refresh_metadata(clients)
    return found


def _ask_once(
    clients: Clients, partitions: Collection[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel
) -> tuple[dict[TopicPartition, ListOffsetsResultInfo], dict[TopicPartition, KafkaException]]:
    answered: dict[TopicPartition, ListOffsetsResultInfo] = {}
    failed: dict[TopicPartition, KafkaException] = {}
    with clients.requesting("asking for offsets"):
        request = {ClientPartition(tp.topic, tp.partition): spec for tp in partitions}
        answers = clients.librdkafka.list_offsets(request, isolation_level=isolation, request_timeout=clients.attempt_timeout)
    for requested, future in answers.items():
        partition = TopicPartition(requested.topic, requested.partition)
        try:
            result = future.result()
        except KafkaException as error:
            failed[partition] = error
            continue
        if result.offset <= OFFSET_INVALID:
            # No offset and no error either: the client leaves it so when the partition's leader went away while it was asked.
            failed[partition] = KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, "the answer has no offset"))
        else:
            answered[partition] = result
    return answered, failed


def _urgency(failed: tuple[TopicPartition, KafkaException]) -> int:
    """Rank of a failed partition: ``_HOPELESS`` ends the waiting, then those count that are waited for least."""
    code = errors.code_of(failed[1])
    if errors.transient(code) or errors.unreachable(code):
        return 0
    return 1 if errors.unknown_partition(code) else _HOPELESS


def _refresh_metadata(clients: Clients) -> ClusterMetadata:
    # librdkafka answers from its cache, and only a question for all topics corrects it at once.
    return clients.patiently("reading the cluster's metadata", lambda: clients.librdkafka.list_topics(timeout=clients.attempt_timeout))


def _without_leader(clients: Clients, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, ...]]:
    """Those of these partitions that exist and have no leader now, each with the brokers that have its replicas."""
    topics = _refresh_metadata(clients).topics
    found = {tp: topics[tp.topic].partitions.get(tp.partition) for tp in partitions if tp.topic in topics}
    return {tp: tuple(part.replicas) for tp, part in found.items() if part is not None and part.leader < 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """A directory of one broker. The bytes of its disk are None if the broker does not tell; ``logs`` are the bytes of partitions that were asked for."""

    broker: int
    path: str
    total_bytes: int | None
    free_bytes: int | None
    logs: dict[TopicPartition, int]

    @property
    def topics(self) -> dict[str, int]:
        """The bytes of each topic."""
        found: Counter[str] = Counter()
        for tp, size in self.logs.items():
            found[tp.topic] += size
        return dict(found)


def read_log_dirs(clients: Clients, partitions: Mapping[str, int], brokers: Collection[int]) -> tuple[LogDir, ...]:
    """The directories of these brokers, with the sizes of topics that have so many ``partitions``. Raises ``Refused`` without Describe on the cluster, and
    ``PermanentError`` for a directory that its broker cannot read.
    """
    topics = [_DIR_TOPIC(topic=name, partitions=list(range(count))) for name, count in sorted(partitions.items())]

    def ask() -> list[LogDir]:
        # The client's own verb leaves out whether the broker refused.
        return [
            found
            for broker in sorted(brokers)
            for found in directories_of(broker, clients.send(DescribeLogDirsRequest(topics=topics), broker))
        ]

    return tuple(clients.patiently("asking for the sizes of logs", ask))


def directories_of(broker: int, answer: Any) -> Iterable[LogDir]:
    """The directories in a broker's answer."""
    # Before version 3 a broker that refuses has an answer without directories.
    code = answer.error_code or (0 if answer.results else errors.CLUSTER_AUTHORIZATION_FAILED)
    if code:
        raise errors.by_code(code, f"asking broker {broker} for the sizes of its logs failed: {errors.name_of(code)}")
    for found in answer.results:
        if found.error_code:
            # A disk that is gone does not come back while we wait.
            raise errors.by_code(None, f"broker {broker} cannot read {found.log_dir}: {errors.name_of(found.error_code)}")
        known = found.total_bytes is not None and found.total_bytes >= 0
        yield LogDir(
            broker=broker,
            path=found.log_dir,
            total_bytes=found.total_bytes if known else None,
            free_bytes=found.usable_bytes if known else None,
            logs={
                TopicPartition(topic.name, part.partition_index): part.partition_size for topic in found.topics for part in topic.partitions
            },
        )


def epoch_ends(clients: Clients, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
    """The end, in each log as it is now, of the records of leader epochs up to the given one; None if the broker does not know the epoch.

    Raises ``NotFound`` for a partition that does not exist.
    """
    if not epochs:
        return {}

    def ask() -> dict[TopicPartition, int | None]:
        found: dict[TopicPartition, int | None] = {}
        for leader, partitions in by_leader(clients, epochs).items():
            found |= _ends(clients.send(_request(partitions, epochs), leader))
        return found

    found = clients.patiently("asking where leader epochs end", ask)
    missing = sorted(str(tp) for tp in epochs if tp not in found)
    if missing:
        raise errors.by_code(None, f"the answer about leader epochs leaves out {', '.join(missing[:20])}")
    return found


def by_leader(clients: Clients, wanted: Collection[TopicPartition]) -> dict[int, list[TopicPartition]]:
    """These partitions by the broker that leads them. Raises what a topic that is not there, or partitions without a leader, are."""
    leaders: dict[int, list[TopicPartition]] = {}
    leaderless: dict[TopicPartition, tuple[int, ...]] = {}
    for topic in clients.pure.describe_topics(sorted({tp.topic for tp in wanted})):
        if topic["error_code"]:
            raise errors.by_code(topic["error_code"], f"describing topic {topic['name']} failed: {errors.name_of(topic['error_code'])}")
        for part in topic["partitions"]:
            if (tp := TopicPartition(topic["name"], part["partition_index"])) in wanted:
                if part["leader_id"] < 0:
                    leaderless[tp] = tuple(part["replica_nodes"])
                leaders.setdefault(part["leader_id"], []).append(tp)
    if leaderless:
        raise errors.no_leader(leaderless)
    return leaders


def _request(partitions: list[TopicPartition], epochs: Mapping[TopicPartition, int]) -> Any:
    topics = [
        _EPOCH_TOPIC(
            topic=name,
            partitions=[_EPOCH_PARTITION(partition=tp.partition, current_leader_epoch=-1, leader_epoch=epochs[tp]) for tp in group],
        )
        for name, group in itertools.groupby(sorted(partitions), key=lambda tp: tp.topic)
    ]
    # Replica -1 is a client. Without a current leader epoch (-1) the broker does not compare ours with its own: we have none.
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)


def _ends(answer: Any) -> dict[TopicPartition, int | None]:
    found: dict[TopicPartition, int | None] = {}
    for topic in answer.topics:
        for part in topic.partitions:
            tp = TopicPartition(topic.topic, part.partition)
            if part.error_code:
                raise errors.by_code(part.error_code, f"asking {tp} where a leader epoch ends failed: {errors.name_of(part.error_code)}")
            found[tp] = part.end_offset if part.end_offset >= 0 else None
    return found


def read_overrides(clients: Clients, topics: Iterable[str], *, broker: int | None = None) -> dict[str, dict[str, str]]:
    """Overrides set on each topic itself, as ``broker`` (any, when None) has them. Raises the client's errors, also for one topic only.

    Broker-wide dynamic defaults are not overrides: putting those back on a topic would pin them there.
    """
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    if not resources:
        return {}
    options = {} if broker is None else {"broker": broker}
    answers = clients.librdkafka.describe_configs(resources, request_timeout=clients.attempt_timeout, **options)
    return {resource.name: _topic_entries(future.result()) for resource, future in answers.items()}


def read_topics(clients: Clients, topics: Iterable[str]) -> dict[str, tuple[dict[str, str], dict[str, InForce]]]:
    """By topic its overrides, and the settings in force on it that decide what it keeps and takes. Raises the client's errors."""
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    answers = clients.librdkafka.describe_configs(resources, request_timeout=clients.attempt_timeout) if resources else {}
    found = {resource.name: future.result() for resource, future in answers.items()}
    return {name: (_topic_entries(entries), _in_force(entries)) for name, entries in found.items()}


def read_in_force(clients: Clients, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    """Every setting of each topic as it is in force, defaults included. Raises the client's errors, also for one topic only."""
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    answers = clients.librdkafka.describe_configs(resources, request_timeout=clients.attempt_timeout) if resources else {}
    return {resource.name: _values(future.result()) for resource, future in answers.items()}


def read_broker_settings(clients: Clients, broker: int) -> dict[str, str]:
    """The settings of one broker, secret ones left out. Raises the client's errors."""
    resource = ConfigResource(ResourceType.BROKER, str(broker))
    return _values(
        clients.librdkafka.describe_configs([resource], request_timeout=clients.attempt_timeout, broker=broker)[resource].result()
    )


def read_topic_setting(clients: Clients, topic: str, name: str) -> str:
    """A setting in force on one topic, from whatever source. Raises the client's errors, and ``KeyError`` when the broker does not tell it."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = clients.librdkafka.describe_configs([resource], request_timeout=clients.attempt_timeout)[resource].result()
    return str(entries[name].value)


def alter(clients: Clients, changes: Changes) -> None:
    """Send an incremental alter: None deletes an override, keys that are not named stay as they are. Raises the client's errors."""
    resources = [
        ConfigResource(ResourceType.TOPIC, topic, incremental_configs=_operations(settings)) for topic, settings in changes.items()
    ]
    for future in clients.librdkafka.incremental_alter_configs(resources, request_timeout=clients.attempt_timeout).values():
        future.result()


def _values(entries: Mapping[str, ConfigEntry]) -> dict[str, str]:
    return {name: str(entry.value) for name, entry in sorted(entries.items()) if entry.value is not None}


def _in_force(entries: Mapping[str, ConfigEntry]) -> dict[str, InForce]:
    return {
        name: InForce(value=str(entry.value), source=_SOURCES.get(ConfigSource(entry.source), SettingSource.BROKER))
        for name in IN_FORCE
        if (entry := entries.get(name)) is not None and entry.value is not None
    }


def _topic_entries(entries: Mapping[str, ConfigEntry]) -> dict[str, str]:
    # The stubs call a source an enumeration; it is its number.
    return {
        name: str(entry.value)
        for name, entry in sorted(entries.items())
        if ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG and entry.value is not None
    }


def _operations(settings: Mapping[str, str | None]) -> list[ConfigEntry]:
    return [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
