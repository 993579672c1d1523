"""The logs and committed offsets of one application, read for a cut: see ``core.savepoint.cut``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.errors import NotFound, OffsetsUnstable, Refused, TransientError
from streams_recovery.core.kafka_types import TopicDescription, TopicPartition
from streams_recovery.core.names import own_transactions
from streams_recovery.core.remedies.transactions import OpenTransaction
from streams_recovery.core.repository.manifest import PartitionCut
from streams_recovery.core.savepoint.cut import Committed, InternalEnds, Offsets, past_end
from streams_recovery.core.savepoint.writers import Loaded, LoadedEntry, Writers, loaded_by, not_proven
from streams_recovery.core.waiting import poll
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups
from streams_recovery.kafka.transactions import Transactions

# A running application is still for a few milliseconds between two transactions: who looks too late misses them.
_LOOK_SECONDS = 0.01


# Longer an archiver waits for no transaction, and for no coordinator: inputs are archived by the same look.
_PATIENCE_SECONDS, _CALL_SECONDS = 1.0, 5.0
# A transaction that goes on is decided long before that.
_SOON_SECONDS: Final = 10.0
_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationLogs:
    """The logs that one application writes and reads. ``read`` are the partitions of which it commits offsets; an open transaction is waited for ``patience``
    seconds. ``clock`` tells the time in ms. ``loads`` reads what restores of the application have recorded, newest first, and is asked only where a log has
    writers that are not proven transactional.
    """

    application_id: str
    cluster: KafkaCluster
    groups: ConsumerGroups
    transactions: Transactions
    read: tuple[TopicPartition, ...]
    clock: Callable[[], int]
    patience: float
    loads: Callable[[], Iterable[LoadedEntry]]

    def committed(self) -> Committed:
        """See ``LogReader``."""
        return self.groups.committed(self.application_id, self.read) if self.read else {}

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> Offsets:
        """See ``LogReader``."""
        return self.cluster.high_watermarks(partitions)

    def await_decided(self, ends: Offsets) -> Offsets:
        """See ``LogReader``. Raises ``OffsetsUnstable`` naming the transactions that stayed open."""
        stable: dict[TopicPartition, int] = {}

        def decided() -> bool | None:
            stable.update(self.cluster.last_stable_offsets(tuple(ends)))
            return True if all(stable[tp] >= end for tp, end in ends.items()) else None

        def stuck() -> dict[TopicPartition, str]:
            return {tp: f"{stable[tp]} < {end}" for tp, end in ends.items() if stable[tp] < end}

        def open_now() -> str:
            return f"{len(stuck())} of {len(ends)} partitions"

        blocking: tuple[OpenTransaction, ...] = ()
        first = min(self.patience, _SOON_SECONDS)
        for seconds in (first, self.patience - first):
            # A hanging transaction never ends: to wait longer for it is of no use.
            if seconds > 0 and not any(one.hanging for one in blocking):
                if poll(decided, seconds=seconds, interval=_LOOK_SECONDS, what="open transactions below the cut", message=open_now):
                    return stable
                blocking = self._owners(list(stuck()))
        raise self._undecided(stuck(), blocking)

    def past_end(self, committed: Committed, topics: Mapping[str, TopicDescription]) -> tuple[TopicPartition, ...]:
        """The partitions that ended before the offset that was committed by then, now or when they lost their end: see ``core.savepoint.cut``."""
        epochs = {tp: topics[tp.topic].leader_epochs[tp.partition] for tp in committed}
        # What was committed at the present epoch was written since the last election.
        earlier = {
            tp: known.leader_epoch
            for tp, known in committed.items()
            if known is not None and known.leader_epoch is not None and known.leader_epoch != epochs[tp]
        }
        return past_end(
            committed, self.high_watermarks(tuple(committed)), epochs=epochs, epoch_ends=self.cluster.epoch_ends(earlier) if earlier else {}
        )

    def all_transactional(self, changelogs: Collection[TopicPartition], between: Collection[TopicPartition], ends: Offsets) -> bool:
        """True when the changelogs have records, and all that was written to them and to the repartition partitions ``between`` was written in transactions."""
        return any(ends[tp] > 0 for tp in changelogs) and not self.without_transactions(changelogs, between, ends)

    def without_transactions(
        self, changelogs: Collection[TopicPartition], between: Collection[TopicPartition], ends: Offsets
    ) -> tuple[TopicPartition, ...]:
        """Those that are not proven to have been written in transactions only, as far as leaders remember writers. See ``core.savepoint.writers``."""
        # A log without records holds no effect of anything, so no transactions have to be proven for it.
        writers = self.transactions.transactional_writers([tp for tp in (*changelogs, *between) if ends[tp] > 0])
        open_ = not_proven(writers, ends, {}, state=changelogs)
        return not_proven({tp: writers[tp] for tp in open_}, ends, self._loaded(open_), state=changelogs)

    def not_transactional(self, changelogs: Collection[TopicPartition], ends: Offsets) -> tuple[TopicPartition, ...]:
        """The logs with records of producers without transactions; empty when any sign shows that the application has transactions. A restore loads without
        transactions, and an application that works exactly once has its transactional ids as soon as it starts.
        """
        written = [tp for tp in changelogs if ends[tp] > 0]
        writers = self.transactions.transactional_writers(written) if written else {}
        suspected = [tp for tp, found in writers.items() if found.other]
        loaded = self._loaded(suspected)
        others = tuple(sorted(tp for tp in suspected if writers[tp].since(loaded.get(tp), ends[tp]).other))
        if not others or any(found.transactional for found in writers.values()):
            return ()
        return () if self.transactions.registered(own_transactions(self.application_id)) else others

    def shared(self, outputs: Collection[TopicPartition], internal: Collection[TopicPartition]) -> frozenset[str]:
        """The topics of ``outputs`` that somebody else writes to, as far as their leaders remember: a producer without transactions, or one that neither writes
        to the application's ``internal`` topics nor is shown to have a transactional id of the application's. One that may not be read is among them: nobody is
        asked for rights on topics that are not archived.
        """
        if not outputs:
            return frozenset()
        known = {one for found in self.transactions.transactional_writers(internal).values() for one in found.transactional}
        shared, writers = set[str](), dict[TopicPartition, Writers]()
        for topic in sorted({tp.topic for tp in outputs}):
            try:
                writers |= self.transactions.transactional_writers([tp for tp in outputs if tp.topic == topic])
            except Refused:
                shared.add(topic)
        unknown = {one for found in writers.values() for one in found.transactional} - known
        ids, own = self.transactions.transactional_ids(unknown), own_transactions(self.application_id)
        others = {one for one in unknown if one not in ids or not own.fullmatch(ids[one])}
        shared |= {tp.topic for tp, found in writers.items() if not others.isdisjoint(found.transactional)}
        return frozenset(shared | self._written_without({tp: found for tp, found in writers.items() if found.other}))

    def _written_without(self, writers: Mapping[TopicPartition, Writers]) -> set[str]:
        """The topics of these partitions that were written to without transactions, but for what a restore has loaded."""
        if not writers:
            return set()
        return {tp.topic for tp in not_proven(writers, self.high_watermarks(tuple(writers)), self._loaded(writers), state=())}

    def _loaded(self, partitions: Collection[TopicPartition]) -> Loaded:
        """What restores have recorded of these, where they are the same topics on the same cluster."""
        entries = tuple(self.loads()) if partitions else ()
        if not entries:
            return {}
        topics = self.cluster.describe_topics({tp.topic for tp in partitions})
        return loaded_by(entries, self.cluster.cluster_id(), {name: topic.topic_id for name, topic in topics.items()})

    def partitions(
        self,
        internal: InternalEnds,
        topics: Mapping[str, TopicDescription],
        *,
        inputs: Collection[TopicPartition],
        outputs: Collection[TopicPartition],
    ) -> dict[TopicPartition, PartitionCut]:
        """The partitions of a cut, with the ends of inputs and outputs as they are now. An output that is read too ends where it is written."""
        ends = {**internal.ends, **self.cluster.last_stable_offsets(inputs), **self.cluster.high_watermarks(outputs)}
        starts = self.cluster.log_starts(tuple(ends))
        return {
            tp: PartitionCut(
                tp=tp,
                log_start=starts[tp],
                last_stable=internal.last_stable.get(tp, end),
                end=end,
                leader_epoch=topics[tp.topic].leader_epochs[tp.partition],
                committed=internal.committed.get(tp),
            )
            for tp, end in ends.items()
        }

    def _owners(self, stuck: Collection[TopicPartition]) -> tuple[OpenTransaction, ...]:
        """As far as they can be asked now, those first that hang."""
        try:
            return tuple(sorted(self.transactions.seen(stuck), key=lambda one: not one.hanging))
        except (NotFound, TransientError):
            return ()

    def _undecided(self, stuck: Mapping[TopicPartition, str], blocking: Sequence[OpenTransaction]) -> OffsetsUnstable:
        named = {str(tp): how_far for tp, how_far in stuck.items()}
        remedy = self.transactions.remedy(stuck.keys(), blocking)
        what = "; ".join(str(found) for found in blocking[:_NAMED]) or "this connection sees none of them"
        return OffsetsUnstable(
            f"transactions stayed open below the ends of {len(named)} partitions ({', '.join(list(named)[:_NAMED])}): {what}",
            next_step=f"{remedy}. Then run again",
            partitions=named,
        ).then(*remedy.commands)


@contextmanager
def impatient_logs(
    application_id: str,
    connection: KafkaConnection,
    cluster: KafkaCluster,
    clock: Callable[[], int],
    loads: Callable[[], Iterable[LoadedEntry]],
) -> Iterator[ApplicationLogs]:
    """The logs of an application, for a caller with other things to do: calls have a short limit. ``read`` is still to be set."""
    with (
        ConsumerGroups(lambda: connection, timeout=_CALL_SECONDS) as groups,
        Transactions(lambda: connection, timeout=_CALL_SECONDS) as transactions,
    ):
        yield ApplicationLogs(
            application_id=application_id,
            cluster=cluster,
            groups=groups,
            transactions=transactions,
            read=(),
            clock=clock,
            patience=_PATIENCE_SECONDS,
            loads=loads,
        )
