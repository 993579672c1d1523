"""What every cut has, in whichever way its internal topics were read: the ends of all other topics, and the unread records of repartition topics."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.jobs.spec import RangeCopied, RangeToCopy
from streams_recovery.core.kafka_types import Consistency, TopicPartition, TopicRole
from streams_recovery.core.named_transactions.proof import NamedProof
from streams_recovery.core.repository.manifest import CutProof, PartitionCut
from streams_recovery.core.savepoint.cut import InternalEnds
from streams_recovery.kafka.application_logs import ApplicationLogs
from streams_recovery.kafka.range_copy import announce, copy_range
from streams_recovery.kafka.reader import Consumers
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import Discovery
from streams_recovery.operations.savepoint.values import Ticket


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A cut that is used, with the ends of all topics."""

    captured_at: int
    consistency: Consistency
    proof: CutProof
    partitions: dict[TopicPartition, PartitionCut]


def logs_of(recovery: RecoveryContext, found: Discovery) -> ApplicationLogs:
    """The logs of the application as they are read for its cut."""
    return ApplicationLogs(
        application_id=recovery.application_id,
        cluster=recovery.cluster,
        groups=recovery.groups,
        transactions=recovery.transactions,
        read=found.partitions(TopicRole.INPUT, TopicRole.REPARTITION),
        clock=recovery.clock,
        patience=float(recovery.config.backup.consistency.timeout_seconds),
        loads=recovery.loads,
    )


def completed(recovery: RecoveryContext, found: Discovery, internal: InternalEnds) -> dict[TopicPartition, PartitionCut]:
    """The partitions of a cut, with the ends of the other topics. Those of outputs are read now, so they have all that transactions in the cut wrote;
    ``await_outputs`` sees them decided. An input's end is its last stable offset: a hanging transaction of another team must not block this application's
    savepoint.
    """
    inputs = found.partitions(TopicRole.INPUT, TopicRole.GLOBAL)
    return logs_of(recovery, found).partitions(internal, found.topics, inputs=inputs, outputs=_written(recovery, found))


def await_outputs(recovery: RecoveryContext, found: Discovery, cut: Cut) -> None:
    """Wait until nothing that the application wrote below the cut's ends is undecided. Raises ``OffsetsUnstable``."""
    logs_of(recovery, found).await_decided({tp: cut.partitions[tp].end for tp in _written(recovery, found)})


def _read_too(recovery: RecoveryContext, found: Discovery) -> tuple[TopicPartition, ...]:
    """Partitions of inputs that the application writes too."""
    return tuple(tp for tp in found.partitions(TopicRole.INPUT) if tp.topic in recovery.config.topics.outputs)


def _written(recovery: RecoveryContext, found: Discovery) -> tuple[TopicPartition, ...]:
    """Partitions that the application writes, besides those of its internal topics. A topic that it reads as well counts as an input elsewhere."""
    return (*found.partitions(TopicRole.OUTPUT), *_read_too(recovery, found))


def tails_of(found: Discovery, partitions: Mapping[TopicPartition, PartitionCut]) -> list[PartitionCut]:
    """The repartition partitions whose unread records are to be archived."""
    return [part for tp, part in sorted(partitions.items()) if tp.topic in found.inventory.tails]


def copy_tails(
    recovery: RecoveryContext, ticket: Ticket, tails: Iterable[PartitionCut], names: NamedProof | None
) -> tuple[RangeCopied, ...]:
    """The unread records of repartition partitions: of a cut by ``names`` without those that it leaves out."""
    wanted = [
        RangeToCopy(tp=part.tp, start=part.tail_start, end=part.end, size_hint=0, names=None if names is None else names.logs[part.tp])
        for part in tails
        if part.tail_start < part.end
    ]
    with Consumers(recovery.connection, cluster=recovery.cluster) as consumers:
        announce(consumers, wanted)
        return tuple(_copied(recovery, ticket, consumers, tail) for tail in wanted)


def _copied(recovery: RecoveryContext, ticket: Ticket, consumers: Consumers, tail: RangeToCopy) -> RangeCopied:
    try:
        return copy_range(
            consumers,
            recovery.repository,
            recovery.layout,
            tail,
            compression_level=recovery.config.backup.compression_level,
            attempt=f"{ticket.savepoint_id}-{time.monotonic_ns():x}",
            key=recovery.repository.data_keys.writing(recovery.application_id),
        )
    except RecoveryError as error:
        error.add_note(f"while the unread tail {tail.tp} [{tail.start}, {tail.end}) was copied")
        raise
