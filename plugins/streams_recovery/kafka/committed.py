"""Reading committed offsets so that they are one consistent, settled picture."""

from __future__ import annotations

from collections.abc import Collection

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as ClientPartition

from streams_recovery.core.errors import OffsetsUnstable, Refused
from streams_recovery.core.model import CommittedOffset, TopicPartition
from streams_recovery.kafka import failures
from streams_recovery.kafka.clients import Clients
from streams_recovery.kafka.waiting import Deadline


def read_committed_offsets(
    clients: Clients, group_id: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, CommittedOffset | None]:
    """What ``group_id`` committed for each of ``partitions``, from a single answer in which none was unsettled.

    An open transaction makes its partitions unstable for its length. Answering from several requests would mix moments, so all partitions
    are asked for again until one answer has them all. Raises ``OffsetsUnstable`` when that takes longer than the clients' timeout.
    """
    if not partitions:
        raise Refused(
            f"no partitions to read committed offsets of group {group_id} for", next_step="check that the application's topics exist"
        )
    deadline = Deadline(clients.timeout)
    while True:
        answer = clients.patiently(f"reading the offsets of group {group_id}", lambda: _ask(clients, group_id, partitions))
        unstable = sorted(TopicPartition(found.topic, found.partition) for found in answer if _unstable(found))
        if not unstable:
            return _offsets(group_id, partitions, answer)
        if not deadline.pause(0.02):
            raise OffsetsUnstable(
                f"group {group_id}: an open transaction kept {len(unstable)} offsets from settling for {clients.timeout:g} s: "
                f"{', '.join(map(str, unstable[:20]))}",
                next_step="look for a hanging transaction that holds them, or try again",
                group=group_id,
                partitions=[str(tp) for tp in unstable],
            )


def _ask(clients: Clients, group_id: str, partitions: Collection[TopicPartition]) -> list[ClientPartition]:
    asked = ConsumerGroupTopicPartitions(group_id, [ClientPartition(tp.topic, tp.partition) for tp in sorted(set(partitions))])
    answers = clients.librdkafka.list_consumer_group_offsets([asked], require_stable=True, request_timeout=clients.timeout)
    found: list[ClientPartition] = answers[group_id].result().topic_partitions
    for partition in found:
        if partition.error is not None and not _unstable(partition):
            code = int(partition.error.code())
            raise failures.by_code(
                code, f"reading the offset of {partition.topic}-{partition.partition} of group {group_id} failed: {partition.error.str()}"
            )
    return found


def _unstable(partition: ClientPartition) -> bool:
    return partition.error is not None and partition.error.code() == failures.UNSTABLE_OFFSET_COMMIT


def _offsets(
    group_id: str, partitions: Collection[TopicPartition], answer: list[ClientPartition]
) -> dict[TopicPartition, CommittedOffset | None]:
    found = {TopicPartition(item.topic, item.partition): _committed(item) for item in answer}
    missing = sorted(set(partitions) - found.keys())
    if missing:
        raise failures.by_code(None, f"the answer for group {group_id} leaves out {', '.join(map(str, missing[:20]))}")
    return found


def _committed(partition: ClientPartition) -> CommittedOffset | None:
    # Kafka's offset -1 arrives as librdkafka's "invalid offset": nothing was committed.
    if partition.offset < 0:
        return None
    return CommittedOffset(offset=partition.offset, metadata=partition.metadata or "", leader_epoch=partition.leader_epoch)
