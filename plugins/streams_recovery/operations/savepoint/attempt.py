"""One attempt at a cut: its readings, and the label they support."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from streams_recovery.core.errors import OffsetsUnstable
from streams_recovery.core.kafka_types import Consistency, QuiesceMode, TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import CutProof
from streams_recovery.core.savepoint.cut import Committed, CutEvidence, Offsets, PartitionCut, Readings, proof
from streams_recovery.core.waiting import poll
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import Discovery
from streams_recovery.operations.savepoint.quiesce import still_held
from streams_recovery.operations.savepoint.readings import read_cut
from streams_recovery.operations.savepoint.values import Quiesced

# A running application is still for a few milliseconds between two transactions: who looks too late misses them.
_LOOK_SECONDS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What was read and the label it supports."""

    readings: Readings
    consistency: Consistency
    proof: CutProof


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """An attempt that is used, with the ends of all other topics."""

    captured_at: int
    consistency: Consistency
    proof: CutProof
    partitions: dict[TopicPartition, PartitionCut]


def attempt_cut(recovery: RecoveryContext, found: Discovery, quiesced: Quiesced, attempt: int) -> Attempt:
    """Read a cut of the application as it is held. Raises ``OffsetsUnstable`` when a transaction stays open."""
    readings = read_cut(_Logs(recovery, found), found.partitions(TopicRole.CHANGELOG, TopicRole.REPARTITION))
    live = quiesced.mode is QuiesceMode.LIVE
    held, why_not_held = (False, quiesced.why_not) if live else still_held(recovery, quiesced)
    evidence = CutEvidence(
        mode=quiesced.mode,
        guarantee=recovery.config.application.guarantee,
        readings=readings,
        held=held,
        why_not_held=why_not_held,
        writers_transactional=live and readings.exact and _all_transactional(recovery, found, readings.ends),
    )
    held_seconds = 0.0 if live else (recovery.clock() - quiesced.since) / 1000
    consistency, why = proof(evidence, held_seconds=held_seconds, attempts=attempt)
    return Attempt(readings=readings, consistency=consistency, proof=why)


def completed(recovery: RecoveryContext, found: Discovery, attempt: Attempt) -> Cut:
    """The cut with the ends of the other topics. Those of outputs are read now, so they have all that transactions in the cut wrote; ``await_outputs``
    sees them decided. An input's end is its last stable offset: a hanging transaction of another team must not block this application's savepoint.
    """
    readings = attempt.readings
    outputs = recovery.cluster.high_watermarks(_written(recovery, found))
    inputs = recovery.cluster.last_stable_offsets(found.partitions(TopicRole.INPUT, TopicRole.GLOBAL))
    ends = {**readings.ends, **inputs, **outputs}
    return Cut(
        captured_at=readings.captured_at,
        consistency=attempt.consistency,
        proof=attempt.proof,
        partitions=_partitions(recovery, found, ends, readings),
    )


def await_outputs(recovery: RecoveryContext, found: Discovery, cut: Cut) -> None:
    """Wait until nothing that the application wrote below the cut's ends is undecided. Raises ``OffsetsUnstable``."""
    _Logs(recovery, found).await_decided({tp: cut.partitions[tp].end for tp in _written(recovery, found)})


def _written(recovery: RecoveryContext, found: Discovery) -> tuple[TopicPartition, ...]:
    """Partitions that the application writes, besides those of its internal topics. A topic that it reads as well counts as an input elsewhere."""
    outputs = recovery.config.topics.outputs
    read_too = tuple(tp for tp in found.partitions(TopicRole.INPUT) if tp.topic in outputs)
    return (*found.partitions(TopicRole.OUTPUT), *read_too)


@dataclass(frozen=True, slots=True)
class _Logs:
    """The application's logs and offsets on its cluster."""

    recovery: RecoveryContext
    found: Discovery

    def clock(self) -> int:
        return self.recovery.clock()

    def committed(self) -> Committed:
        partitions = self.found.partitions(TopicRole.INPUT, TopicRole.REPARTITION)
        return self.recovery.groups.committed(self.recovery.application_id, partitions) if partitions else {}

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> Offsets:
        return self.recovery.cluster.high_watermarks(partitions)

    def await_decided(self, ends: Offsets) -> Offsets:
        seconds = float(self.recovery.config.backup.consistency.timeout_seconds)
        stable: dict[TopicPartition, int] = {}

        def decided() -> bool | None:
            stable.update(self.recovery.cluster.last_stable_offsets(tuple(ends)))
            return True if all(stable[tp] >= end for tp, end in ends.items()) else None

        def open_now() -> str:
            return f"{sum(1 for tp, end in ends.items() if stable[tp] < end)} of {len(ends)} partitions"

        if poll(decided, seconds=seconds, interval=_LOOK_SECONDS, what="open transactions below the cut", message=open_now) is None:
            raise self._undecided({tp: f"{stable[tp]} < {end}" for tp, end in ends.items() if stable[tp] < end}, seconds)
        return stable

    def _undecided(self, stuck: dict[TopicPartition, str], seconds: float) -> OffsetsUnstable:
        named = {str(tp): how_far for tp, how_far in stuck.items()}
        blocking = "; ".join(str(found) for found in self.recovery.transactions.blocking(list(stuck))[:5])
        return OffsetsUnstable(
            f"transactions stayed open for {seconds:.0f} s below the ends of {named}: {blocking or 'none is open any more'}",
            next_step="abort the hanging transaction with kafka-transactions.sh abort, then run again",
            partitions=named,
        )


def _all_transactional(recovery: RecoveryContext, found: Discovery, ends: Offsets) -> bool:
    # A log that nobody ever wrote to holds no effect of anything, so nobody's transactions have to be proven for it.
    written = [tp for tp in found.partitions(TopicRole.CHANGELOG) if ends[tp] > 0]
    writers = recovery.transactions.transactional_writers(written)
    return bool(written) and all(writers[tp].proven for tp in written)


def _partitions(recovery: RecoveryContext, found: Discovery, ends: Offsets, readings: Readings) -> dict[TopicPartition, PartitionCut]:
    starts = recovery.cluster.log_starts(tuple(ends))
    return {
        tp: PartitionCut(
            tp=tp,
            log_start=starts[tp],
            last_stable=readings.last_stable.get(tp, end),
            end=end,
            leader_epoch=found.topics[tp.topic].leader_epochs[tp.partition],
            committed=readings.committed_before.get(tp),
        )
        for tp, end in ends.items()
    }
