"""Inputs that a restore in place leaves as they are: whether they are still those that the restored state was made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.offsets.strategies import STRATEGIES, OffsetStrategy
from streams_recovery.core.repository.manifest import PartitionImage
from streams_recovery.core.savepoint.truncation import truncation

_FROM_LOG = ", ".join(strategy.short_form() for strategy in STRATEGIES if strategy.FROM_LOG)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptInput:
    """One partition: as the savepoint has it, and as it is. ``leader_epoch`` and ``end`` are those of now, ``epoch_end`` is where by the broker the
    records end that were written up to the savepoint's leader epoch; None when it cannot tell. ``compacted`` tells whether the log cleaner may
    come for it.
    """

    tp: TopicPartition
    image: PartitionImage
    leader_epoch: int | None
    epoch_end: int | None
    end: int
    compacted: bool

    @property
    def read(self) -> int:
        """Where the application had read up to. Without a commit nothing of it is in the state."""
        return 0 if self.image.committed is None else self.image.committed.offset

    def truncated_below(self, offset: int) -> str | None:
        """Why its records below ``offset``, which were there at the savepoint, are other ones now; None while they are the same."""
        return truncation(seen=self.image.leader_epoch, upto=offset, now=self.leader_epoch, epoch_end=self.epoch_end)


def check_same_records(kept: Collection[KeptInput], strategy: OffsetStrategy) -> tuple[str, ...]:
    """Raise ``Refused`` naming inputs that were cut back below the committed offset: it is a place among other records now. Where a strategy takes
    its offsets from the log, the same is only a warning.
    """
    problems = [f"{one.tp}: {why}" for one in kept if (why := one.truncated_below(one.read)) is not None]
    if problems and not strategy.FROM_LOG:
        raise Refused(
            f"inputs lost records that the savepoint's state was made of, and have others in their place: {'; '.join(problems)}",
            next_step="nothing was changed; find out why a broker lost acknowledged records; then choose a savepoint that is older than the loss, "
            f"restore into another cluster with the archived inputs, or choose offsets by the log ({_FROM_LOG})",
            problems=problems,
        )
    return tuple(f"records that the state was made of are gone from an input, and others are in their place: {why}" for why in problems)


def outgrown_tables(kept: Collection[KeptInput], stores: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """What to say of compacted inputs that went on since the savepoint. ``stores`` are, by input, those that are known to be restored from it."""
    spans: dict[str, list[str]] = {}
    for one in kept:
        if one.compacted and one.end > one.read > 0:
            spans.setdefault(one.tp.topic, []).append(f"{one.tp} offsets {one.read} to {one.end - 1}")
    return tuple(
        f"{topic} is compacted and went on since the savepoint ({', '.join(at)}). Where a key was written again, the log may have lost its record from "
        f"before. {_table(stores.get(topic, ()))} lacks such a key until its later record is read, and what is joined with it meanwhile finds nothing. "
        "A min.compaction.lag.ms longer than the time from savepoint to restore keeps such records; a table with a changelog of its own does "
        "not need them"
        for topic, at in spans.items()
    )


def _table(stores: Collection[str]) -> str:
    if stores:
        return f"Store {', '.join(sorted(stores))}, which Kafka Streams restores from this topic,"
    return "A table that Kafka Streams restores from this topic (topology.optimization) in place of a changelog"
