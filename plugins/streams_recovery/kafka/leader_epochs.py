"""How far a log goes that was written up to a leader epoch: what tells a log that grew from one that was cut back and grew again."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.kafka import errors
from streams_recovery.kafka.clients import Clients

# LEADER_NOT_AVAILABLE
_NO_LEADER = 5
_TOPIC = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
_PARTITION = _TOPIC.OffsetForLeaderPartition


def epoch_ends(clients: Clients, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
    """Where the records of leader epochs up to the given one end in each log as it is now; None where the broker does not know the epoch.

    Raises ``NotFound`` for a partition that does not exist.
    """
    if not epochs:
        return {}

    def ask() -> dict[TopicPartition, int | None]:
        found: dict[TopicPartition, int | None] = {}
        for leader, partitions in _by_leader(clients, epochs).items():
            found |= _ends(clients.send(_request(partitions, epochs), leader))
        return found

    found = clients.patiently("asking where leader epochs end", ask)
    missing = sorted(str(tp) for tp in epochs if tp not in found)
    if missing:
        raise errors.by_code(None, f"the answer about leader epochs leaves out {', '.join(missing[:20])}")
    return found


def _by_leader(clients: Clients, epochs: Mapping[TopicPartition, int]) -> dict[int, list[TopicPartition]]:
    leaders: dict[int, list[TopicPartition]] = {}
    for topic in clients.pure.describe_topics(sorted({tp.topic for tp in epochs})):
        if topic["error_code"]:
            raise errors.by_code(topic["error_code"], f"describing topic {topic['name']} failed: {errors.name_of(topic['error_code'])}")
        for part in topic["partitions"]:
            if (tp := TopicPartition(topic["name"], part["partition_index"])) in epochs:
                if part["leader_id"] < 0:
                    raise errors.by_code(_NO_LEADER, f"{tp} has no leader")
                leaders.setdefault(part["leader_id"], []).append(tp)
    return leaders


def _request(partitions: list[TopicPartition], epochs: Mapping[TopicPartition, int]) -> Any:
    topics = [
        _TOPIC(
            topic=name, partitions=[_PARTITION(partition=tp.partition, current_leader_epoch=-1, leader_epoch=epochs[tp]) for tp in group]
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
