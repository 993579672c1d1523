"""Transactions: which of them hold back a log's last stable offset, and whether the writers of a log are transactional."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.structs import TopicPartition as PurePartition

from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.words import abort_command
from streams_recovery.kafka import errors
from streams_recovery.kafka.clients import ClusterVerbs
from streams_recovery.kafka.connection import Connecting

_UNDECIDED = ["Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that holds back one partition. ``start_offset`` is its first offset there. ``age_seconds`` is by this machine's clock.

    It is ``hanging`` when its coordinator does not have it open there: then nobody ends it. That is not said of one without a ``transactional_id``, whose
    producer no coordinator lists: they list only ids that the connection may describe. Its ``state`` is None, its age that of its last record.
    """

    tp: TopicPartition
    producer_id: int
    producer_epoch: int
    start_offset: int
    transactional_id: str | None
    state: str | None
    age_seconds: float | None

    @property
    def hanging(self) -> bool:
        """Return True if it has to be aborted by hand."""
        return self.transactional_id is not None and self.state is None

    def __str__(self) -> str:
        owner = self.transactional_id or "not among those that this connection sees"
        if self.hanging:
            return f"{self.tp}: producer {self.producer_id} ({owner}) hangs from offset {self.start_offset} on, no coordinator ends it"
        age = "of unknown age" if self.age_seconds is None else f"open for {self.age_seconds:.0f} s"
        return f"{self.tp}: producer {self.producer_id} ({owner}), {age}, from offset {self.start_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Writers:
    """Producer ids that a partition's leader remembers, by default for a day after their last record.

    ``transactional`` have ended or begun a transaction there, ``other`` have not. A producer that is not even idempotent is remembered by
    nobody, so this proves something about the application's own writers only when nobody else writes to its internal topics.
    """

    transactional: tuple[int, ...]
    other: tuple[int, ...]

    @property
    def proven(self) -> bool:
        """True when somebody wrote and all of them in transactions. No writer at all proves nothing."""
        return bool(self.transactional) and not self.other


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ProducerProgress:
    """The progress of a producer on a partition, as its leader remembers it. Equal at two moments: it wrote nothing in between."""

    producer_id: int
    producer_epoch: int
    last_sequence: int


class Transactions(ClusterVerbs):
    """The transactions of one cluster; reads only. ``now`` gives the time in seconds since the epoch. Verbs raise ``BrokerUnavailable``,
    ``TransientError`` when the cluster stayed busy, and ``NotFound`` for a partition that does not exist.
    """

    def __init__(self, connection: Connecting, *, timeout: float = 30.0, now: Callable[[], float] = time.time) -> None:
        super().__init__(connection, timeout=timeout)
        self._now = now

    def blocking(self, partitions: Collection[TopicPartition]) -> tuple[OpenTransaction, ...]:
        """The open transactions on ``partitions``, those with the lowest start first on each. A partition without one is not held back.

        A coordinator takes a partition out of a transaction once its leader has the marker (TransactionMarkerRequestCompletionHandler), or, after a loss of
        all brokers, while it knows of no leader (TransactionMarkerChannelManager): then the transaction stays open there for good.
        """
        opened = self._opened(partitions)
        ids = self._transactional_ids({producer.producer_id for _, producer in opened})
        found = {name: self._description(name) for name in set(ids.values())}
        transactions = [self._open(partition, producer, ids.get(producer.producer_id), found) for partition, producer in opened]
        # What ended between the question to its leader and the one to its coordinator hangs no more.
        suspected = {item.tp for item in transactions if item.hanging}
        still = {(tp, one.producer_id, one.current_transaction_start_offset) for tp, one in self._opened(suspected)}
        held = [item for item in transactions if not item.hanging or (item.tp, item.producer_id, item.start_offset) in still]
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

    def abort_command(self, hanging: OpenTransaction) -> str:
        """The command that aborts a transaction of this cluster where it hangs."""
        return abort_command(self._clients.connection.bootstrap_servers, *hanging.tp, hanging.start_offset)

    def transactional_writers(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Writers]:
        """The writers of each partition that its leader remembers. Every partition asked for is in the answer."""
        return {partition: _writers(producers) for partition, producers in self._producers(partitions).items()}

    def written(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, tuple[ProducerProgress, ...]]:
        """The progress of every producer that the leader of each partition remembers. One that is not idempotent is remembered by nobody: only the log's
        end tells of it.
        """
        return {
            partition: tuple(
                sorted(
                    ProducerProgress(producer_id=one.producer_id, producer_epoch=one.producer_epoch, last_sequence=one.last_sequence)
                    for one in producers
                )
            )
            for partition, producers in self._producers(partitions).items()
        }

    def undecided(self, transactional_id: re.Pattern[str]) -> tuple[str, ...]:
        """Transactional ids that match whole and have a transaction that is neither committed nor aborted yet.

        Until it is, its coordinator may write markers to every partition it has touched, also to a new topic under the old name.
        """

        def ask() -> Mapping[int, Any]:
            found: Mapping[int, Any] = self._clients.pure.list_transactions(state_filters=_UNDECIDED)
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

        answer = self._clients.patiently("describing producers", ask)
        missing = [str(TopicPartition(*partition)) for partition in requested if partition not in answer]
        if missing:
            raise errors.by_code(None, f"the answer about producers leaves out {', '.join(missing[:20])}")
        return {TopicPartition(*partition): list(answer[partition].active_producers) for partition in requested}

    def _transactional_ids(self, producer_ids: Collection[int]) -> dict[int, str]:
        if not producer_ids:
            return {}

        def ask() -> Mapping[int, Any]:
            found: Mapping[int, Any] = self._clients.pure.list_transactions(producer_id_filters=sorted(producer_ids))
            return found

        listed = self._clients.patiently("listing transactions", ask)
        return {item.producer_id: item.transactional_id for items in listed.values() for item in items}

    def _description(self, transactional_id: str) -> Any:
        """The coordinator's description, or None when the id has expired since it was listed."""
        try:
            return self._clients.patiently(
                f"describing transaction {transactional_id}",
                lambda: self._clients.pure.describe_transactions([transactional_id])[transactional_id],
            )
        except NotFound:
            return None

    def _open(self, partition: TopicPartition, producer: Any, transactional_id: str | None, found: Mapping[str, Any]) -> OpenTransaction:
        description = found.get(transactional_id) if transactional_id else None
        if description is not None and (
            description.state not in _UNDECIDED
            or description.producer_id != producer.producer_id
            or PurePartition(*partition) not in description.topic_partitions
        ):
            description = None
        started = producer.last_timestamp if transactional_id is None else description.transaction_start_time_ms if description else -1
        return OpenTransaction(
            tp=partition,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            start_offset=producer.current_transaction_start_offset,
            transactional_id=transactional_id,
            state=description.state.value if description else None,
            age_seconds=max(0.0, self._now() - started / 1000) if started >= 0 else None,
        )


def _writers(producers: Collection[Any]) -> Writers:
    # A coordinator epoch is written by the marker that ends a transaction, so a writer that has one, or is inside one, is transactional.
    transactional = {item.producer_id for item in producers if item.coordinator_epoch >= 0 or item.current_transaction_start_offset >= 0}
    other = {item.producer_id for item in producers} - transactional
    return Writers(transactional=tuple(sorted(transactional)), other=tuple(sorted(other)))
