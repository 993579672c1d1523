"""Why a range stopped moving, told apart by what the broker says about the log."""

from __future__ import annotations

from typing import Final

from streams_recovery.core.errors import BrokerUnavailable, Damaged, OffsetsGone, OffsetsUnstable, RecoveryError, TransientError
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection

ASK_SECONDS: Final = 10.0


def gone(tp: TopicPartition, first: int, log_start: int) -> OffsetsGone:
    """Offsets from ``first`` on that the log does not have any more."""
    return OffsetsGone(
        f"offsets {first}..{log_start - 1} of {tp} are gone: its log now starts at {log_start}",
        next_step="take a savepoint that records the gap, and give the topic more retention",
        topic=tp.topic,
        partition=tp.partition,
        gone_start=first,
        gone_end=log_start,
    )


def why_nothing_comes(
    connection: KafkaConnection, tp: TopicPartition, position: int, end: int, last_error: str, seconds: float
) -> RecoveryError:
    """The error for a reader that has stood at ``position``, short of ``end``, for ``seconds``."""
    facts = {"topic": tp.topic, "partition": tp.partition, "position": position, "end": end, "seconds": seconds}
    silent = f"{tp} stands at {position}, short of {end}, for {seconds:g} s"
    try:
        with KafkaCluster(connection, timeout=ASK_SECONDS) as cluster:
            log_start, last = cluster.log_starts([tp])[tp], cluster.high_watermarks([tp])[tp]
            stable = cluster.last_stable_offsets([tp])[tp]
    except TransientError as error:
        return BrokerUnavailable(f"{silent}: {error.reason} {last_error}".strip(), next_step=error.next_step, **facts)
    except RecoveryError as error:
        return error
    if log_start > position:
        return gone(tp, position, log_start)
    if last < end:
        return Damaged(
            f"{tp} ends at {last}, before {end}: the topic was truncated, or deleted and created again",
            next_step="take a full savepoint of this topic",
            log_end=last,
            **facts,
        )
    if stable < end:
        return OffsetsUnstable(
            f"{silent}: an open transaction keeps its last stable offset at {stable}",
            next_step="end or abort the transaction (kafka-transactions.sh find-hanging), then try again",
            last_stable=stable,
            **facts,
        )
    return BrokerUnavailable(
        f"{silent} although the broker has the records {last_error}".strip(),
        next_step="check the brokers' health and quotas, then try again",
        brokers=connection.bootstrap_servers,
        **facts,
    )
