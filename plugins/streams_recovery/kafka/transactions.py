"""Transactions: which of them hold back a log's last stable offset, and whether the writers of a log are transactional."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kafka.structs import TopicPartition as PurePartition

from streams_recovery.core.errors import BrokerUnavailable, NotFound, Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.remedies.remedy import Remedy
from streams_recovery.core.remedies.transactions import OpenTransaction, end, wait
from streams_recovery.core.savepoint.writers import ProducerProgress, Writers
from streams_recovery.kafka import errors
from streams_recovery.kafka.clients import ClusterVerbs
from streams_recovery.kafka.connection import Connecting
from streams_recovery.kafka.logs import by_leader

_ONGOING = "Ongoing"
_UNDECIDED = [_ONGOING, "PrepareCommit", "PrepareAbort", "PrepareEpochFence"]
_DECIDED = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


class Transactions(ClusterVerbs):
    """The transactions of one cluster; reads only. ``now`` gives the time in seconds since the epoch. Verbs raise ``BrokerUnavailable``,
    ``TransientError`` when the cluster stayed busy, and ``NotFound`` for a partition that does not exist.
    """

    def __init__(self, connection: Connecting, *, timeout: float = 30.0, now: Callable[[], float] = time.time) -> None:
        super().__init__(connection, timeout=timeout)
        self._now = now

    def blocking(self, partitions: Collection[TopicPartition]) -> tuple[OpenTransaction, ...]:
        """The open transactions on ``partitions``, those with the lowest start first on each. A partition without one is not held back.

        A coordinator that ends a transaction leaves out partitions of which it knows no leader (TransactionMarkerChannelManager), as after a loss of all
        brokers: there it stays open. While it still sends markers, a coordinator that takes over sends all of them again, so nothing hangs.
        """
        opened = self._opened(partitions)
        ids = self.transactional_ids({producer.producer_id for _, producer in opened})
        found = self._descriptions(sorted(set(ids.values())))
        transactions = [(self._open(tp, producer, ids.get(producer.producer_id), found), (tp, producer)) for tp, producer in opened]
        # What ended, or began anew, between the question to its leader and the one to its coordinator does not hang.
        suspected = {item.tp for item, _ in transactions if item.hanging}
        still = self._opened(suspected)
        held = [item for item, seen in transactions if not item.hanging or seen in still]
        return tuple(sorted(held, key=lambda item: (item.tp, item.start_offset)))

    def seen(self, partitions: Collection[TopicPartition]) -> tuple[OpenTransaction, ...]:
        """Like ``blocking``, without topics that the connection may not read: it may not see their producers either."""
        try:
            return self.blocking(partitions)
        except Refused:
            topics = sorted({tp.topic for tp in partitions})
            if len(topics) == 1:
                return ()
            return tuple(one for topic in topics for one in self.seen([tp for tp in partitions if tp.topic == topic]))

    def remedy(self, held: Collection[TopicPartition], blocking: Collection[OpenTransaction]) -> Remedy:
        """What ends the transactions on ``held``, as far as ``blocking`` says which they are."""
        known = [one for one in blocking if one.transactional_id is not None]
        return end(
            self._clients.connection.tools,
            hanging=[hangs for one in blocking if (hangs := one.proven) is not None],
            open_ids={one.transactional_id for one in known if one.transactional_id is not None},
            unseen={tp.topic for tp in {*held} - {one.tp for one in known}},
        )

    def waiting(self, transactional_ids: Collection[str]) -> Remedy:
        """What ends transactions that their coordinators have open."""
        return wait(self._clients.connection.tools, transactional_ids)

    def transactional_writers(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Writers]:
        """The writers of each partition that its leader remembers. Every partition asked for is in the answer."""
        return {partition: _writers(producers) for partition, producers in self._producers(partitions).items()}

    def transactional_ids(self, producer_ids: Collection[int]) -> dict[int, str]:
        """The transactional id that each of these producer ids belongs to now. One is left out whose id has got another producer id since (its epochs were at
        their end), has expired, or is not shown to this connection (Describe on it).
        """
        if not producer_ids:
            return {}

        def ask() -> Mapping[int, Any]:
            found: Mapping[int, Any] = self._clients.pure.list_transactions(producer_id_filters=sorted(producer_ids))
            return found

        listed = self._clients.patiently("listing transactions", ask)
        return {item.producer_id: item.transactional_id for items in listed.values() for item in items}

    def written(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, tuple[ProducerProgress, ...]]:
        """The progress of every producer that the leader of each partition remembers. Leaders do not remember a producer that is not idempotent: only the log's
        end tells of it.
        """
        return {partition: _progress(producers) for partition, producers in self._producers(partitions).items()}

    def undecided(self, transactional_id: re.Pattern[str]) -> tuple[str, ...]:
        """Transactional ids that match whole and have a transaction that is neither committed nor aborted yet.

        Until it is, its coordinator may write markers to every partition it has touched, also to a new topic under the old name.
        """
        return self._listed(transactional_id, state_filters=_UNDECIDED)

    def registered(self, transactional_id: re.Pattern[str]) -> tuple[str, ...]:
        """Transactional ids that match whole, in any state: a producer has one from its start on, and its coordinator keeps it for a week after its last
        transaction.
        """
        return self._listed(transactional_id)

    def _listed(self, transactional_id: re.Pattern[str], **filters: Any) -> tuple[str, ...]:
        def ask() -> Mapping[int, Any]:
            found: Mapping[int, Any] = self._clients.pure.list_transactions(**filters)
            return found

        listed = self._clients.patiently("listing transactions", ask)
        ids = (item.transactional_id for items in listed.values() for item in items)
        return tuple(sorted(found for found in ids if transactional_id.fullmatch(found)))

    def _opened(self, partitions: Collection[TopicPartition]) -> list[tuple[TopicPartition, Any]]:
        found = sorted(self._producers(partitions).items()) if partitions else []
        return [(tp, producer) for tp, producers in found for producer in producers if producer.current_transaction_start_offset >= 0]

    def _producers(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, list[Any]]:
        requested = [PurePartition(*partition) for partition in sorted(set(partitions))]

        def ask() -> Mapping[PurePartition, Any]:
            found: Mapping[PurePartition, Any] = self._clients.pure.describe_producers(requested)
            return found

        try:
            answer = self._clients.patiently("describing producers", ask)
        except BrokerUnavailable:
            # kafka-python asks a broker -1 for a partition without a leader.
            with self._clients.requesting("describing topics"):
                by_leader(self._clients, partitions)
            raise
        missing = [str(TopicPartition(*partition)) for partition in requested if partition not in answer]
        if missing:
            raise errors.by_code(None, f"the answer about producers leaves out {', '.join(missing[:20])}")
        return {TopicPartition(*partition): list(answer[partition].active_producers) for partition in requested}

    def _descriptions(self, transactional_ids: Sequence[str]) -> dict[str, Any]:
        """The coordinators' descriptions, without ids that have expired since they were listed."""
        try:
            ask = functools.partial(self._clients.pure.describe_transactions, transactional_ids)
            return dict(self._clients.patiently(f"describing {len(transactional_ids)} transactions", ask)) if transactional_ids else {}
        except NotFound:
            if len(transactional_ids) == 1:
                return {}
            return {name: found for one in transactional_ids for name, found in self._descriptions([one]).items()}

    def _open(self, partition: TopicPartition, producer: Any, transactional_id: str | None, found: Mapping[str, Any]) -> OpenTransaction:
        description = found.get(transactional_id) if transactional_id else None
        hanging = description is not None and _hangs(partition, producer, description)
        started = description.transaction_start_time_ms if description is not None and not hanging else -1
        return OpenTransaction(
            tp=partition,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            start_offset=producer.current_transaction_start_offset,
            transactional_id=transactional_id,
            state=description.state.value if description else None,
            hanging=hanging,
            age_seconds=max(0.0, self._now() - started / 1000) if started >= 0 else None,
        )


def _hangs(tp: TopicPartition, producer: Any, description: Any) -> bool:
    """True when the coordinator does not have this partition open. A transactional id gets another producer only once all of its transactions have ended."""
    if description.producer_id != producer.producer_id:
        return True
    if description.state == _ONGOING:
        return PurePartition(*tp) not in description.topic_partitions
    return description.state in _DECIDED


def _writers(producers: Collection[Any]) -> Writers:
    # A coordinator epoch is written by the marker that ends a transaction, so a writer that has one, or is inside one, is transactional.
    transactional = {item.producer_id for item in producers if item.coordinator_epoch >= 0 or item.current_transaction_start_offset >= 0}
    other = [item for item in producers if item.producer_id not in transactional]
    return Writers(transactional=tuple(sorted(transactional)), other=_progress(other))


def _progress(producers: Collection[Any]) -> tuple[ProducerProgress, ...]:
    return tuple(
        sorted(
            ProducerProgress(
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                last_sequence=one.last_sequence,
                last_timestamp=one.last_timestamp,
            )
            for one in producers
        )
    )
