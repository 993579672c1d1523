"""Checks the inputs that a restore in place keeps: whether they still have the records that the restored state was made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition, truncation
from streams_recovery.core.offsets.strategies import STRATEGIES, OffsetStrategy
from streams_recovery.core.repository.manifest import PartitionImage

_FROM_LOG = ", ".join(strategy.short_form() for strategy in STRATEGIES if strategy.FROM_LOG)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptInput:
    """One partition, at the savepoint and now. ``leader_epoch`` and ``end`` are the present ones. ``epoch_end`` is the offset at which the broker
    says that the records up to the savepoint's leader epoch end; None if it cannot tell. ``compacted``: the log cleaner may remove records.
    """

    tp: TopicPartition
    image: PartitionImage
    leader_epoch: int | None
    epoch_end: int | None
    end: int
    compacted: bool

    @property
    def read(self) -> int:
        """The offset up to which the application had read. 0 without a commit."""
        return 0 if self.image.committed is None else self.image.committed.offset

    def truncated_below(self, offset: int) -> str | None:
        """Why its records below ``offset``, which existed at the savepoint, are different now. None if they are the same."""
        return truncation(seen=self.image.leader_epoch, upto=offset, now=self.leader_epoch, epoch_end=self.epoch_end)


def check_same_records(kept: Collection[KeptInput], strategy: OffsetStrategy) -> tuple[str, ...]:
    """Raise ``Refused`` for inputs that were truncated below the committed offset: the offset now points at other records. For strategies that take
    offsets from the log this is only a warning.
    """
    truncated = [(one, why) for one in kept if (why := one.truncated_below(one.read)) is not None]
    problems = [f"{one.tp}: {why}" for one, why in truncated]
    if problems and not strategy.FROM_LOG:
        raise Refused(
            f"inputs lost records that the savepoint's state was made of, and have other records at these offsets now: {'; '.join(problems)}",
            next_step="nothing was changed; find out why a broker lost acknowledged records; then choose a savepoint that is older than the loss, "
            f"restore into another cluster with the archived inputs, or choose offsets by the log ({_FROM_LOG})",
            problems=problems,
            epoch_ends={str(one.tp): one.epoch_end for one, _ in truncated},
            offsets={str(one.tp): one.read for one, _ in truncated},
        )
    return tuple(f"an input lost records that the state was made of, and has other records at these offsets now: {why}" for why in problems)


def outgrown_tables(kept: Collection[KeptInput], stores: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Warnings about compacted inputs that have changed since the savepoint. ``stores`` are, by input, the stores that are known to be restored from
    it.
    """
    spans: dict[str, list[str]] = {}
    for one in kept:
        if one.compacted and one.end > one.read > 0:
            spans.setdefault(one.tp.topic, []).append(f"{one.tp} offsets {one.read} to {one.end - 1}")
    return tuple(
        f"{topic} is compacted and has changed since the savepoint ({', '.join(at)}). If a key was written again, compaction may have removed its older "
        f"record. {_table(stores.get(topic, ()))} lacks such a key until its newer record is read, and joins with it find nothing until then. "
        "A min.compaction.lag.ms longer than the time from savepoint to restore keeps such records. A table with its own changelog does not need "
        "them"
        for topic, at in spans.items()
    )


def _table(stores: Collection[str]) -> str:
    if stores:
        return f"Store {', '.join(sorted(stores))}, which Kafka Streams restores from this topic,"
    return "A table that Kafka Streams restores from this topic (topology.optimization) in place of a changelog"
