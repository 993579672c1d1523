"""What is on the brokers' disks: bytes of topics, replicas included, and the space of the disks where brokers tell it (Kafka 3.3 and later)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeLogDirsRequest

from streams_recovery.kafka import errors
from streams_recovery.kafka.clients import Clients
from streams_recovery.kafka.permissions import DENIED_CLUSTER

_TOPIC = DescribeLogDirsRequest.DescribableLogDirTopic


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """A directory of one broker. The bytes of its disk are None where the broker does not tell; ``topics`` are the bytes of those that were asked for."""

    broker: int
    path: str
    total_bytes: int | None
    free_bytes: int | None
    topics: dict[str, int]


def read_log_dirs(clients: Clients, partitions: Mapping[str, int], brokers: Collection[int]) -> tuple[LogDir, ...]:
    """The directories of these brokers, with the sizes of topics that have so many ``partitions``. Raises ``Refused`` without Describe on the cluster, and
    ``PermanentError`` for a directory that its broker cannot read.
    """
    topics = [_TOPIC(topic=name, partitions=list(range(count))) for name, count in sorted(partitions.items())]

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
    code = answer.error_code or (0 if answer.results else DENIED_CLUSTER)
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
            topics={topic.name: sum(part.partition_size for part in topic.partitions) for topic in found.topics},
        )
