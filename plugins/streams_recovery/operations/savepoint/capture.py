"""Reading the cut while the application is held, tails included: attempts, the readings of each, and the label that they support.

The order of the readings is what makes them evidence: see ``core.savepoint.cut``.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Protocol

from streams_recovery.core.errors import NotExact, OffsetsGone, OffsetsUnstable, RecoveryError
from streams_recovery.core.jobs.spec import RangeCopied, RangeToCopy
from streams_recovery.core.kafka_types import Consistency, QuiesceMode, TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import CutProof
from streams_recovery.core.savepoint.cut import Committed, CutEvidence, Offsets, PartitionCut, Readings, proof, purged_tails
from streams_recovery.core.topic_holds.compaction_guard import owner_config
from streams_recovery.core.waiting import poll
from streams_recovery.kafka.range_copy import announce, copy_range
from streams_recovery.kafka.reader import Consumers
from streams_recovery.operations import topic_holds
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import Discovery, discover, discover_remaining
from streams_recovery.operations.renewed_lock import require_lock
from streams_recovery.operations.savepoint.begin import check_same_application
from streams_recovery.operations.savepoint.quiesce import quiesce, still_held
from streams_recovery.operations.savepoint.values import CutDraft, CutSummary, DraftTopic, Quiesced, Ticket
from streams_recovery.storage.run_artifacts import other_attempt

DRAFT = "cut"
# A running application is still for a few milliseconds between two transactions: who looks too late misses them.
_LOOK_SECONDS = 0.01


def capture(recovery: RecoveryContext, ticket: Ticket, quiesced: Quiesced) -> CutSummary:
    """Read a cut, copy what the application has not read of its repartition topics, and leave both as a note for the copy.

    Tails are copied here and not by the Spark job, because a running application deletes what it has read every 30 s. Tries again while
    the label is not what the policy wants, and at last, where the policy says so, holds an application that was to be left alone: whoever
    resumes must then resume that. Raises ``NotExact`` when no such cut can be had, ``OffsetsUnstable`` when a transaction stays open,
    ``TransientError`` when topics changed meanwhile, ``Refused`` when it was another attempt that held the application.
    """
    require_lock(recovery, ticket)
    if quiesced.savepoint_id != ticket.savepoint_id:
        # What held the application then may have let it go since, and it may have run and crashed.
        raise other_attempt(f"the hold for savepoint {quiesced.savepoint_id}", ticket.savepoint_id)
    found, missing = _discovered(recovery, ticket)
    topic_holds.keep_guard(recovery, ticket.savepoint_id, ticket.mark, found.topics.values() if ticket.safety else found.to_read)
    may_fall_back = ticket.fallback is not None and quiesced.mode is QuiesceMode.LIVE
    try:
        cut, tails = _take(recovery, ticket, found, quiesced, exact_only=may_fall_back)
    except NotExact:
        if ticket.fallback is None or not may_fall_back:
            raise
        quiesced = quiesce(recovery, replace(ticket, mode=ticket.fallback))
        cut, tails = _take(recovery, ticket, found, quiesced, exact_only=False)
    check_same_application(found, _discovered(recovery, ticket)[0])
    draft = _draft(recovery, found, _labelled(cut, missing), tails, quiesced.assumed)
    noted = recovery.artifacts.write(ticket.savepoint_id, DRAFT, draft)
    return CutSummary(
        savepoint_id=ticket.savepoint_id,
        consistency=draft.consistency,
        reasons=draft.proof.reasons,
        partitions=len(cut.partitions),
        tail_records=sum(tail.copied.file.rows for tail in tails if tail.copied.file),
        held_seconds=cut.proof.held_seconds,
        attempts=cut.proof.attempts,
        draft=noted,
    )


def _labelled(cut: Cut, missing: tuple[str, ...]) -> Cut:
    """The cut with the label that it has when parts of the application were gone."""
    if not missing:
        return cut
    reasons = (*cut.proof.reasons, *(f"{what} was gone" for what in missing))
    return replace(cut, consistency=Consistency.DAMAGED, proof=replace(cut.proof, reasons=reasons))


def _discovered(recovery: RecoveryContext, ticket: Ticket) -> tuple[Discovery, tuple[str, ...]]:
    return discover_remaining(recovery, ticket.expected) if ticket.safety else (discover(recovery), ())


def _take(
    recovery: RecoveryContext, ticket: Ticket, found: Discovery, quiesced: Quiesced, *, exact_only: bool
) -> tuple[Cut, tuple[RangeCopied, ...]]:
    policy = recovery.config.backup.consistency
    # What a restore is about to replace is saved as it is.
    exact_only |= policy.require == "exact" and not ticket.safety
    reasons: tuple[str, ...] = ()
    gone: OffsetsGone | None = None
    # As many attempts again for a cut that may be `ahead`: its tails can be gone before they are copied, too.
    for attempt in range(1, policy.attempts * (1 if exact_only else 2) + 1):
        tried = attempt_cut(recovery, found, quiesced, attempt)
        reasons = tried.proof.reasons
        settled = tried.consistency is Consistency.EXACT or (attempt >= policy.attempts and not exact_only)
        if not settled:
            continue
        cut = _completed(recovery, found, tried)
        if lost := purged_tails({tp: part for tp, part in cut.partitions.items() if tp.topic in found.inventory.tails}):
            reasons = (f"unread records of {lost[0]} were deleted before they could be copied",)
            continue
        try:
            # Before the wait for outputs, which may last its whole timeout: a running application reads and deletes them meanwhile.
            tails = _copy_tails(recovery, ticket, found, cut)
        except OffsetsGone as error:
            # A running application goes on reading its repartition topics and deletes what it has read: this cut is too old already.
            gone, reasons = error, (error.reason,)
        else:
            _await_outputs(recovery, found, cut)
            return cut, tails
    raise NotExact(
        f"no {'exact ' if policy.require == 'exact' else ''}cut of {recovery.application_id} in {policy.attempts} attempts: {'; '.join(reasons)}",
        next_step="use mode pause or stop, or set backup.consistency.fallback; or allow `ahead` savepoints in backup.consistency.require",
        attempts=policy.attempts,
        reasons=reasons,
    ) from gone


def _copy_tails(recovery: RecoveryContext, ticket: Ticket, found: Discovery, cut: Cut) -> tuple[RangeCopied, ...]:
    tails = [
        RangeToCopy(tp=tp, start=part.tail_start, end=part.end, size_hint=0)
        for tp, part in sorted(cut.partitions.items())
        if tp.topic in found.inventory.tails and part.tail_start < part.end
    ]
    with Consumers(recovery.connection, cluster=recovery.cluster) as consumers:
        announce(consumers, tails)
        return tuple(_copied(recovery, ticket, consumers, tail) for tail in tails)


def _copied(recovery: RecoveryContext, ticket: Ticket, consumers: Consumers, tail: RangeToCopy) -> RangeCopied:
    try:
        return copy_range(
            consumers,
            recovery.repository,
            recovery.layout,
            tail,
            compression_level=recovery.config.backup.compression_level,
            attempt=f"{ticket.savepoint_id}-{time.monotonic_ns():x}",
        )
    except RecoveryError as error:
        error.add_note(f"while the unread tail {tail.tp} [{tail.start}, {tail.end}) was copied")
        raise


def _draft(recovery: RecoveryContext, found: Discovery, cut: Cut, tails: tuple[RangeCopied, ...], assumed: tuple[str, ...]) -> CutDraft:
    topics = []
    for entry in found.inventory.topics:
        description = found.topics[entry.name]
        config = owner_config(description.config)
        topics.append(
            DraftTopic(
                name=entry.name,
                role=entry.role,
                topic_id=description.topic_id,
                replication_factor=description.replication_factor,
                config=config,
                store=found.store_kind(entry.name, recovery.application_id, config),
                archived=entry.archived,
                evidence=entry.evidence,
                partitions=tuple(part for tp, part in sorted(cut.partitions.items()) if tp.topic == entry.name),
            )
        )
    return CutDraft(
        captured_at=cut.captured_at,
        cluster_id=recovery.cluster.cluster_id(),
        group_type=found.group.kind,
        consistency=cut.consistency,
        proof=cut.proof,
        topics=tuple(topics),
        claimed=found.inventory.claimed,
        tails=tails,
        assumed=assumed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The readings of one attempt, and the label that they support."""

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


def _completed(recovery: RecoveryContext, found: Discovery, attempt: Attempt) -> Cut:
    """The cut with the ends of the other topics. Those of outputs are read now, so they have all that transactions in the cut wrote; ``_await_outputs``
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


def _await_outputs(recovery: RecoveryContext, found: Discovery, cut: Cut) -> None:
    """Wait until nothing that the application wrote below the cut's ends is undecided. Raises ``OffsetsUnstable``."""
    _Logs(recovery, found).await_decided({tp: cut.partitions[tp].end for tp in _written(recovery, found)})


def _written(recovery: RecoveryContext, found: Discovery) -> tuple[TopicPartition, ...]:
    """Partitions that the application writes, besides those of its internal topics. A topic that it reads as well counts as an input elsewhere."""
    outputs = recovery.config.topics.outputs
    read_too = tuple(tp for tp in found.partitions(TopicRole.INPUT) if tp.topic in outputs)
    return (*found.partitions(TopicRole.OUTPUT), *read_too)


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


class LogReader(Protocol):
    """Reads the logs and offsets of one application. Each partition of an answer may have been read at a time of its own; committed offsets all at
    one moment.
    """

    def clock(self) -> int:
        """The time in ms."""

    def committed(self) -> Committed:
        """The application's committed offsets, at a moment at which no transaction could change one of them any more."""

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The ends, records of open transactions included."""

    def await_decided(self, ends: Offsets) -> Offsets:
        """Wait until every last stable offset has reached its end, and return them."""


def read_cut(logs: LogReader, internal: Collection[TopicPartition]) -> Readings:
    """Read a cut through these partitions. As little as possible is asked between the two readings of their ends: nothing may be written meanwhile."""
    committed_before = logs.committed()
    captured_at = logs.clock()
    ends = logs.high_watermarks(internal)
    last_stable = logs.await_decided(ends)
    committed_after = logs.committed()
    return Readings(
        committed_before=committed_before,
        captured_at=captured_at,
        ends=ends,
        last_stable=last_stable,
        committed_after=committed_after,
        ends_after=logs.high_watermarks(internal),
    )


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
