"""Where logs start and end. One request for all partitions, only those that were not ready are asked again."""

from __future__ import annotations

from collections.abc import Collection

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import ListOffsetsResultInfo, OffsetSpec  # type: ignore[attr-defined]  # public, but its stubs do not say so

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.kafka import errors
from streams_recovery.kafka.clients import Clients
from streams_recovery.kafka.deadline import Deadline

EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
NEWEST = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]

# How long a partition may be unknown before it is called missing: news of a topic that was just created takes a moment.
_UNKNOWN_SECONDS = 3.0
_HOPELESS = 2


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
    """The highest timestamp (ms) in each log, None where there is no record. Raises ``NotFound`` for a partition that does not exist."""
    found = _look_up(clients, partitions, NEWEST, IsolationLevel.READ_UNCOMMITTED)
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
        waiting = unknown_deadline if errors.unknown_partition(code) else deadline
        if _urgency((partition, error)) == _HOPELESS or not waiting.pause():
            raise errors.translated(error, clients.connection, f"asking for the offsets of {partition}", timeout=clients.timeout) from error
        if errors.unknown_partition(code) or errors.stale_leader(code) or errors.unreachable(code):
            _refresh_metadata(clients)
    return found


def _ask_once(
    clients: Clients, partitions: Collection[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel
) -> tuple[dict[TopicPartition, ListOffsetsResultInfo], dict[TopicPartition, KafkaException]]:
    answered: dict[TopicPartition, ListOffsetsResultInfo] = {}
    failed: dict[TopicPartition, KafkaException] = {}
    with clients.requesting("asking for offsets"):
        request = {ClientPartition(tp.topic, tp.partition): spec for tp in partitions}
        answers = clients.librdkafka.list_offsets(request, isolation_level=isolation, request_timeout=clients.timeout)
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
    """What one failed partition means for the rest: ``_HOPELESS`` ends the waiting, then those count that are waited for least."""
    code = errors.code_of(failed[1])
    if errors.transient(code) or errors.unreachable(code):
        return 0
    return 1 if errors.unknown_partition(code) else _HOPELESS


def _refresh_metadata(clients: Clients) -> None:
    # librdkafka answers from its cache, and only a question for all topics corrects it at once.
    with clients.requesting("reading the cluster's metadata"):
        clients.librdkafka.list_topics(timeout=clients.timeout)
