"""Reading the cut while the application is held, tails included: attempts, the readings of each, and the label that they support.

The order of the readings is what makes them evidence: see ``core.savepoint.cut``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Final

from streams_recovery.core.errors import NotExact, OffsetsGone, RecoveryError
from streams_recovery.core.jobs.spec import RangeCopied, RangeToCopy
from streams_recovery.core.kafka_types import Consistency, Guarantee, QuiesceMode, TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import CutProof, PartitionCut
from streams_recovery.core.savepoint.cut import (
    CutEvidence,
    Readings,
    assumptions,
    moved_since,
    proof,
    purged_tails,
    read_cut,
    unread,
)
from streams_recovery.core.topic_holds.compaction_guard import owner_config
from streams_recovery.core.topic_settings import held, without_hold
from streams_recovery.kafka.application_logs import ApplicationLogs
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
_HOLD_IT: Final = "use mode pause or stop, or set backup.consistency.fallback"
_ONCE_READ: Final = (
    "find out why the log lost records that were acknowledged; take the savepoint again once the application has read on there and committed that, or once "
    "its offset there was set to one within the log"
)


def capture(recovery: RecoveryContext, ticket: Ticket, quiesced: Quiesced) -> CutSummary:
    """Read a cut, copy what the application has not read of its repartition topics, and leave both as a note for the copy.

    Tails are copied here and not by the Spark job, because a running application deletes what it has read every 30 s. Tries again while the label is not what
    the policy wants. At last, if the policy says so, it holds an application that was to be left alone: the resume step must then resume that. Raises
    ``NotExact`` when no such cut can be had, ``OffsetsUnstable`` when a transaction stays open, ``TransientError`` when topics changed meanwhile, ``Refused``
    when it was another attempt that held the application.
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
    except NotExact as error:
        # An application that is held commits nothing, so it would be held in vain.
        if ticket.fallback is None or not may_fall_back or error.facts.get("past_end"):
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
    # State that a restore is about to replace is saved as it is.
    exact_only |= policy.require == "exact" and not ticket.safety and not quiesced.unknown
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
            again = _held_to_the_end(recovery, found, quiesced, tried)
            if again.consistency is tried.consistency or (attempt >= policy.attempts and not exact_only):
                return _with_proof(again, cut, found, quiesced), tails
            reasons = again.proof.reasons
    behind = list(map(str, tried.evidence.past_end))
    raise NotExact(
        f"no {'exact ' if policy.require == 'exact' else ''}cut of {recovery.application_id} in {policy.attempts} attempts: {'; '.join(reasons)}",
        next_step=f"{_ONCE_READ if behind else _HOLD_IT}; or allow `ahead` savepoints in "
        "backup.consistency.require, and a restore of such a one may count input twice",
        attempts=policy.attempts,
        reasons=reasons,
        past_end=behind,
    ) from gone


def _held_to_the_end(recovery: RecoveryContext, found: Discovery, quiesced: Quiesced, tried: Attempt) -> Attempt:
    """The attempt, judged once more after its tails were copied. An unknown process may have been silent while the cut was read: an offset that moves while the
    application is down or paused is moved by such a process.
    """
    if quiesced.mode is QuiesceMode.LIVE or tried.consistency is not Consistency.EXACT:
        return tried
    logs = _logs(recovery, found)
    held, why = still_held(recovery, quiesced)
    moved = moved_since(tried.readings, logs.committed(), logs.high_watermarks(tuple(tried.readings.ends)))
    if held and not moved:
        return tried
    evidence = replace(tried.evidence, held=False, why_not_held=moved or why)
    consistency, why_not = proof(evidence, held_seconds=tried.proof.held_seconds, attempts=tried.proof.attempts)
    return replace(tried, evidence=evidence, consistency=consistency, proof=why_not)


def _with_proof(tried: Attempt, cut: Cut, found: Discovery, quiesced: Quiesced) -> Cut:
    """The cut with the label of the attempt, and with what that takes for granted."""
    if tried.consistency is not Consistency.EXACT:
        return replace(cut, consistency=tried.consistency, proof=tried.proof)
    read = {tp: cut.partitions[tp] for tp in found.partitions(TopicRole.INPUT, TopicRole.REPARTITION)}
    assumed = (*assumptions(tried.evidence, left=unread(read)), *quiesced.assumed)
    return replace(cut, consistency=tried.consistency, proof=replace(tried.proof, assumptions=assumed))


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
    owners = {name: owner_config(topic.config) for name, topic in found.topics.items()}
    hidden = any(held(topic.in_force, owners[name]) for name, topic in found.topics.items())
    defaults = recovery.cluster.defaults_of_one() if hidden else {}
    for entry in found.inventory.topics:
        description = found.topics[entry.name]
        config = owners[entry.name]
        topics.append(
            DraftTopic(
                name=entry.name,
                role=entry.role,
                topic_id=description.topic_id,
                replication_factor=description.replication_factor,
                config=config,
                in_force=without_hold(description.in_force, config, defaults),
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

    evidence: CutEvidence
    consistency: Consistency
    proof: CutProof

    @property
    def readings(self) -> Readings:
        return self.evidence.readings


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """An attempt that is used, with the ends of all other topics."""

    captured_at: int
    consistency: Consistency
    proof: CutProof
    partitions: dict[TopicPartition, PartitionCut]


def attempt_cut(recovery: RecoveryContext, found: Discovery, quiesced: Quiesced, attempt: int) -> Attempt:
    """Read a cut of the application as it is held. Raises ``OffsetsUnstable`` when a transaction stays open."""
    logs = _logs(recovery, found)
    readings = read_cut(logs, found.partitions(TopicRole.CHANGELOG, TopicRole.REPARTITION))
    live = quiesced.mode is QuiesceMode.LIVE
    held, why_not_held = (False, quiesced.why_not) if live else still_held(recovery, quiesced)
    changelogs, guarantee = found.partitions(TopicRole.CHANGELOG), recovery.config.application.guarantee
    asks = guarantee is Guarantee.EXACTLY_ONCE_V2 and readings.exact
    transactional = asks and logs.all_transactional(changelogs, readings.ends)
    evidence = CutEvidence(
        mode=quiesced.mode,
        guarantee=guarantee,
        readings=readings,
        held=held,
        why_not_held=why_not_held,
        writers_transactional=transactional,
        not_transactional=logs.not_transactional(changelogs, readings.ends) if asks and not transactional else (),
        past_end=logs.past_end(readings, found.topics),
    )
    held_seconds = 0.0 if live else (recovery.clock() - quiesced.since) / 1000
    consistency, why = proof(evidence, held_seconds=held_seconds, attempts=attempt)
    return Attempt(evidence=evidence, consistency=consistency, proof=why)


def _logs(recovery: RecoveryContext, found: Discovery) -> ApplicationLogs:
    return ApplicationLogs(
        application_id=recovery.application_id,
        cluster=recovery.cluster,
        groups=recovery.groups,
        transactions=recovery.transactions,
        read=found.partitions(TopicRole.INPUT, TopicRole.REPARTITION),
        clock=recovery.clock,
        patience=float(recovery.config.backup.consistency.timeout_seconds),
    )


def _completed(recovery: RecoveryContext, found: Discovery, attempt: Attempt) -> Cut:
    """The cut with the ends of the other topics. Those of outputs are read now, so they have all that transactions in the cut wrote; ``_await_outputs``
    sees them decided. An input's end is its last stable offset: a hanging transaction of another team must not block this application's savepoint.
    """
    readings = attempt.readings
    inputs = found.partitions(TopicRole.INPUT, TopicRole.GLOBAL)
    return Cut(
        captured_at=readings.captured_at,
        consistency=attempt.consistency,
        proof=attempt.proof,
        partitions=_logs(recovery, found).partitions(readings, found.topics, inputs=inputs, outputs=_written(recovery, found)),
    )


def _await_outputs(recovery: RecoveryContext, found: Discovery, cut: Cut) -> None:
    """Wait until nothing that the application wrote below the cut's ends is undecided. Raises ``OffsetsUnstable``."""
    _logs(recovery, found).await_decided({tp: cut.partitions[tp].end for tp in _written(recovery, found)})


def _written(recovery: RecoveryContext, found: Discovery) -> tuple[TopicPartition, ...]:
    """Partitions that the application writes, besides those of its internal topics. A topic that it reads as well counts as an input elsewhere."""
    outputs = recovery.config.topics.outputs
    read_too = tuple(tp for tp in found.partitions(TopicRole.INPUT) if tp.topic in outputs)
    return (*found.partitions(TopicRole.OUTPUT), *read_too)
