"""Reading committed offsets so that they are one consistent, settled picture.

Neither client can do it alone. kafka-python does not know ``require_stable``: with an open transaction it gives the offset from before. And
confluent-kafka reads metadata past its end, because librdkafka's buffer has no closing NUL: 12 characters came back with bytes of other
objects behind them in most answers. So the one says that nothing is pending, the other says what there is, before and after.
"""

from __future__ import annotations

from collections.abc import Collection

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as ClientPartition
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PurePartition

from streams_recovery.core.errors import OffsetsUnstable, Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.kafka import errors
from streams_recovery.kafka.clients import Clients
from streams_recovery.kafka.deadline import Deadline

Committed = dict[TopicPartition, CommittedOffset | None]


def read_committed_offsets(clients: Clients, group_id: str, partitions: Collection[TopicPartition]) -> Committed:
    """What ``group_id`` committed for each of ``partitions``, at one moment at which none was unsettled.

    Offsets in an open transaction, and offsets that change while they are read, are asked for again, always all of them: answers of two
    moments are never mixed. Raises ``OffsetsUnstable`` when that takes longer than the clients' timeout.
    """
    if not partitions:
        raise Refused(
            f"no partitions to read committed offsets of group {group_id} for", next_step="check that the application's topics exist"
        )
    deadline = Deadline(clients.timeout)
    while True:
        before = read_unsettled(clients, group_id, partitions)
        settled, pending = _read_settled(clients, group_id, partitions)
        after = read_unsettled(clients, group_id, partitions)
        # A pending partition has no settled offset, so this is false while there is one.
        if before == after and settled == _only_offsets(after):
            return after
        if not deadline.pause(0.02):
            raise _unstable(clients, group_id, pending)


def read_unsettled(clients: Clients, group_id: str, partitions: Collection[TopicPartition] | None) -> Committed:
    """What the group committed, metadata byte for byte, without regard to open transactions. None for ``partitions`` means all that have any."""
    requested = None if partitions is None else [PurePartition(*partition) for partition in sorted(set(partitions))]

    def ask() -> dict[PurePartition, OffsetAndMetadata]:
        return dict(clients.pure.list_group_offsets({group_id: requested})[group_id])

    answer = clients.patiently(f"reading the offsets of group {group_id}", ask)
    found = {TopicPartition(*partition): _committed(item) for partition, item in answer.items()}
    missing = sorted(set(partitions or ()) - found.keys())
    if missing:
        raise errors.by_code(None, f"the answer about group {group_id} leaves out {', '.join(map(str, missing[:20]))}")
    return found


def _read_settled(
    clients: Clients, group_id: str, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, int | None], list[TopicPartition]]:
    """Offsets, and the partitions whose offsets an open transaction may change. Must not touch the answer's metadata, see above."""

    def ask() -> list[ClientPartition]:
        requested = ConsumerGroupTopicPartitions(group_id, [ClientPartition(tp.topic, tp.partition) for tp in sorted(set(partitions))])
        answers = clients.librdkafka.list_consumer_group_offsets([requested], require_stable=True, request_timeout=clients.timeout)
        return list(answers[group_id].result().topic_partitions)

    offsets: dict[TopicPartition, int | None] = {}
    pending: list[TopicPartition] = []
    for item in clients.patiently(f"reading the settled offsets of group {group_id}", ask):
        partition = TopicPartition(item.topic, item.partition)
        code = 0 if item.error is None else int(item.error.code())
        if code == errors.UNSTABLE_OFFSET_COMMIT:
            pending.append(partition)
        elif code:
            raise errors.by_code(code, f"reading the offset of {partition} of group {group_id} failed: {errors.name_of(code)}")
        else:
            # Kafka's -1 arrives as librdkafka's "invalid offset", also below zero: nothing was committed.
            offsets[partition] = item.offset if item.offset >= 0 else None
    return offsets, sorted(pending)


def _only_offsets(committed: Committed) -> dict[TopicPartition, int | None]:
    return {partition: None if found is None else found.offset for partition, found in committed.items()}


def _committed(found: OffsetAndMetadata) -> CommittedOffset | None:
    if found.offset < 0:
        return None
    epoch = found.leader_epoch
    return CommittedOffset(
        offset=found.offset, metadata=found.metadata or "", leader_epoch=epoch if epoch is not None and epoch >= 0 else None
    )


def _unstable(clients: Clients, group_id: str, pending: list[TopicPartition]) -> OffsetsUnstable:
    names = [str(partition) for partition in pending]
    why = (
        f"an open transaction kept {len(names)} of its offsets from settling: {', '.join(names[:20])}"
        if names
        else "its offsets kept changing"
    )
    return OffsetsUnstable(
        f"group {group_id}: after {clients.timeout:g} s, {why}",
        next_step="look for a hanging transaction that holds them, or try again",
        group=group_id,
        partitions=names,
    )
