"""Reading the cut while the application is held, tails included."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from streams_recovery import holds
from streams_recovery.core.cut import Evidence, PartitionCut, Reading, proof, purged_tails
from streams_recovery.core.errors import NotExact, OffsetsGone, OffsetsUnstable, RecoveryError
from streams_recovery.core.jobs import RangeCopied, RangeToCopy
from streams_recovery.core.manifest import CutProof
from streams_recovery.core.model import CommittedOffset, Consistency, QuiesceMode, TopicPartition, TopicRole
from streams_recovery.kafka.consumers import Consumers
from streams_recovery.kafka.copying import announce, copy_range
from streams_recovery.leases import under_lock
from streams_recovery.savepoints.quiesce import quiesce, still_held
from streams_recovery.savepoints.unchanged import check_same_application
from streams_recovery.savepoints.values import CutDraft, CutSummary, DraftTopic, Quiesced, Ticket
from streams_recovery.survey import Survey, config_without_holds, survey, survey_remains
from streams_recovery.waiting import poll
from streams_recovery.workbench import Workbench

DRAFT = "cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One attempt: what was read and the label it supports."""

    captured_at: int
    consistency: Consistency
    proof: CutProof
    partitions: dict[TopicPartition, PartitionCut]


def capture(bench: Workbench, ticket: Ticket, quiesced: Quiesced) -> CutSummary:
    """Read a cut, copy what the application has not read of its repartition topics, and leave both as a note for the copy.

    Tails are copied here and not by the Spark job, because a running application deletes what it has read every 30 s. Tries again while
    the label is not what the policy wants, and at last, where the policy says so, holds an application that was to be left alone: whoever
    resumes must then resume that. Raises ``NotExact`` when no such cut can be had, ``OffsetsUnstable`` when a transaction stays open,
    ``TransientError`` when topics changed meanwhile.
    """
    under_lock(bench, ticket)
    found, missing = _surveyed(bench, ticket)
    may_fall_back = ticket.fallback is not None and quiesced.mode is QuiesceMode.LIVE
    try:
        cut, tails = _take(bench, ticket, found, quiesced, exact_only=may_fall_back)
    except NotExact:
        if ticket.fallback is None or not may_fall_back:
            raise
        cut, tails = _take(bench, ticket, found, quiesce(bench, replace(ticket, mode=ticket.fallback)), exact_only=False)
    check_same_application(found, _surveyed(bench, ticket)[0])
    draft = _draft(bench, found, labelled(cut, missing), tails)
    noted = bench.notes.write(ticket.savepoint_id, DRAFT, draft)
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


def labelled(cut: Cut, missing: tuple[str, ...]) -> Cut:
    """The cut with the label that it has when parts of the application were gone."""
    if not missing:
        return cut
    reasons = (*cut.proof.reasons, *(f"{what} was gone" for what in missing))
    return replace(cut, consistency=Consistency.DAMAGED, proof=replace(cut.proof, reasons=reasons))


def _surveyed(bench: Workbench, ticket: Ticket) -> tuple[Survey, tuple[str, ...]]:
    return survey_remains(bench, ticket.expected) if ticket.safety else (survey(bench), ())


def _take(bench: Workbench, ticket: Ticket, found: Survey, quiesced: Quiesced, *, exact_only: bool) -> tuple[Cut, tuple[RangeCopied, ...]]:
    policy = bench.config.backup.consistency
    # What a restore is about to replace is saved as it is.
    exact_only |= policy.require == "exact" and not ticket.safety
    reasons: tuple[str, ...] = ()
    gone: OffsetsGone | None = None
    # As many attempts again for a cut that may be `ahead`: its tails can be gone before they are copied, too.
    for attempt in range(1, policy.attempts * (1 if exact_only else 2) + 1):
        cut = _attempt(bench, found, quiesced, attempt)
        reasons = cut.proof.reasons
        settled = cut.consistency is Consistency.EXACT or (attempt >= policy.attempts and not exact_only)
        if not settled:
            continue
        if lost := purged_tails({tp: part for tp, part in cut.partitions.items() if tp.topic in found.inventory.tails}):
            reasons = (f"unread records of {lost[0]} were deleted before they could be copied",)
            continue
        try:
            return cut, _copy_tails(bench, ticket, found, cut)
        except OffsetsGone as error:
            # A running application goes on reading its repartition topics and deletes what it has read: this cut is too old already.
            gone, reasons = error, (error.reason,)
    raise NotExact(
        f"no {'exact ' if policy.require == 'exact' else ''}cut of {bench.application_id} in {policy.attempts} attempts: {'; '.join(reasons)}",
        next_step="use mode pause or stop, or set backup.consistency.fallback; or allow `ahead` savepoints in backup.consistency.require",
        reasons=reasons,
    ) from gone


def _attempt(bench: Workbench, found: Survey, quiesced: Quiesced, attempt: int) -> Cut:
    cluster, application_id = bench.cluster, bench.application_id
    committing = found.partitions(TopicRole.INPUT, TopicRole.REPARTITION)
    internal = found.partitions(TopicRole.CHANGELOG, TopicRole.REPARTITION)
    settled = (*internal, *found.partitions(TopicRole.OUTPUT))
    before = bench.groups.committed(application_id, committing) if committing else {}
    captured_at = bench.clock()
    ends = cluster.high_watermarks(settled)
    _wait_until_decided(bench, ends)
    # An input's end is its last stable offset: a hanging transaction of another team must not block this application's savepoint.
    ends |= cluster.last_stable_offsets(found.partitions(TopicRole.INPUT, TopicRole.GLOBAL))
    first = _reading(bench, internal)
    after = bench.groups.committed(application_id, committing) if committing else {}
    second = _reading(bench, internal)
    held, why_not_held = still_held(bench, quiesced) if quiesced.mode is not QuiesceMode.LIVE else (False, quiesced.why_not)
    evidence = Evidence(
        mode=quiesced.mode,
        guarantee=bench.config.application.guarantee,
        committed_before=before,
        committed_after=after,
        first=first,
        second=second,
        held=held,
        why_not_held=why_not_held,
        writers_transactional=quiesced.mode is QuiesceMode.LIVE and _all_transactional(bench, found, ends),
    )
    held_seconds = 0.0 if quiesced.mode is QuiesceMode.LIVE else (bench.clock() - quiesced.since) / 1000
    consistency, why = proof(evidence, held_seconds=held_seconds, attempts=attempt)
    return Cut(captured_at=captured_at, consistency=consistency, proof=why, partitions=_partitions(bench, found, ends, before, first))


def _wait_until_decided(bench: Workbench, ends: dict[TopicPartition, int]) -> None:
    seconds = float(bench.config.backup.consistency.timeout_seconds)

    def decided() -> bool | None:
        stable = bench.cluster.last_stable_offsets(tuple(ends))
        return True if all(stable[tp] >= end for tp, end in ends.items()) else None

    if poll(decided, seconds=seconds, interval=0.05) is None:
        stable = bench.cluster.last_stable_offsets(tuple(ends))
        stuck = {str(tp): f"{stable[tp]} < {end}" for tp, end in ends.items() if stable[tp] < end}
        blocking = "; ".join(str(found) for found in bench.transactions.blocking([tp for tp, end in ends.items() if stable[tp] < end])[:5])
        raise OffsetsUnstable(
            f"transactions stayed open for {seconds:.0f} s below the ends of {stuck}: {blocking or 'nobody holds one any more'}",
            next_step="abort the hanging transaction with kafka-transactions.sh abort, then run again",
            partitions=stuck,
        )


def _all_transactional(bench: Workbench, found: Survey, ends: dict[TopicPartition, int]) -> bool:
    # A log that nobody ever wrote to holds no effect of anything, so nobody's transactions have to be proven for it.
    written = [tp for tp in found.partitions(TopicRole.CHANGELOG) if ends[tp] > 0]
    writers = bench.transactions.transactional_writers(written)
    return bool(written) and all(writers[tp].proven for tp in written)


def _reading(bench: Workbench, partitions: tuple[TopicPartition, ...]) -> Reading:
    return Reading(last_stable=bench.cluster.last_stable_offsets(partitions), high_watermark=bench.cluster.high_watermarks(partitions))


def _partitions(
    bench: Workbench,
    found: Survey,
    ends: dict[TopicPartition, int],
    committed: dict[TopicPartition, CommittedOffset | None],
    reading: Reading,
) -> dict[TopicPartition, PartitionCut]:
    starts = bench.cluster.log_starts(tuple(ends))
    return {
        tp: PartitionCut(
            topic=tp.topic,
            partition=tp.partition,
            log_start=starts[tp],
            last_stable=reading.last_stable.get(tp, end),
            end=end,
            leader_epoch=found.topics[tp.topic].leader_epochs[tp.partition],
            committed=committed.get(tp),
        )
        for tp, end in ends.items()
    }


def _copy_tails(bench: Workbench, ticket: Ticket, found: Survey, cut: Cut) -> tuple[RangeCopied, ...]:
    tails = [
        RangeToCopy(topic=tp.topic, partition=tp.partition, start=part.tail_start, end=part.end, size_hint=0)
        for tp, part in sorted(cut.partitions.items())
        if tp.topic in found.inventory.tails and part.tail_start < part.end
    ]
    with Consumers(bench.connection, cluster=bench.cluster) as consumers:
        announce(consumers, tails)
        return tuple(_copied(bench, ticket, consumers, tail) for tail in tails)


def _copied(bench: Workbench, ticket: Ticket, consumers: Consumers, tail: RangeToCopy) -> RangeCopied:
    try:
        return copy_range(
            consumers,
            bench.repository,
            bench.layout,
            tail,
            compression_level=bench.config.backup.compression_level,
            attempt=f"{ticket.savepoint_id}-{time.monotonic_ns():x}",
        )
    except RecoveryError as error:
        error.add_note(f"while the unread tail {tail.tp} [{tail.start}, {tail.end}) was copied")
        raise


def _draft(bench: Workbench, found: Survey, cut: Cut, tails: tuple[RangeCopied, ...]) -> CutDraft:
    held = holds.outstanding(bench)
    topics = []
    for entry in found.inventory.topics:
        description = found.topics[entry.name]
        config = config_without_holds(description, held)
        topics.append(
            DraftTopic(
                name=entry.name,
                role=entry.role,
                topic_id=description.topic_id,
                replication_factor=description.replication_factor,
                config=config,
                store=found.store_kind(entry.name, bench.application_id, config),
                archived=entry.archived,
                partitions=tuple(part for tp, part in sorted(cut.partitions.items()) if tp.topic == entry.name),
            )
        )
    return CutDraft(
        captured_at=cut.captured_at,
        cluster_id=bench.cluster.cluster_id(),
        group_type=found.group.kind,
        consistency=cut.consistency,
        proof=cut.proof,
        topics=tuple(topics),
        tails=tails,
    )
