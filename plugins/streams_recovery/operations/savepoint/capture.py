"""Reading the cut, tails included: by the names of transactions where the application is left alone and that can be proven, else attempts, the readings of
each, and the label that they support.

The order of the readings is what makes them evidence: see ``core.savepoint.cut``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from streams_recovery.core.errors import NotExact, OffsetsGone
from streams_recovery.core.escaping import logger
from streams_recovery.core.jobs.spec import RangeCopied
from streams_recovery.core.kafka_types import Consistency, Guarantee, QuiesceMode, TopicRole
from streams_recovery.core.repository.manifest import CutProof
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
from streams_recovery.operations import topic_holds
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import Discovery, discover, discover_remaining
from streams_recovery.operations.renewed_lock import require_lock
from streams_recovery.operations.savepoint.begin import check_same_application
from streams_recovery.operations.savepoint.by_names import take_by_names
from streams_recovery.operations.savepoint.cut import Cut, await_outputs, completed, copy_tails, logs_of, tails_of
from streams_recovery.operations.savepoint.quiesce import quiesce, still_held
from streams_recovery.operations.savepoint.values import CutDraft, CutSummary, DraftTopic, Quiesced, Ticket
from streams_recovery.storage.run_artifacts import other_attempt

LOGGER = logger("streams_recovery.operations.savepoint.capture")
DRAFT = "cut"
_HOLD_IT: Final = "use mode pause or stop, or set backup.consistency.fallback"
_SEEN_NEXT: Final = (
    "take the savepoint again: this software has started it again, and sees its next end; if that is not clean either, let it end by itself after SIGTERM "
    "once KafkaStreams is closed, within stop_timeout_seconds"
)
_ONCE_READ: Final = (
    "find out why the log lost records that were acknowledged; take the savepoint again once the application has read on there and committed that, or once "
    "its offset there was set to one within the log"
)


def take_cut(recovery: RecoveryContext, ticket: Ticket) -> CutSummary:
    """Hold the application the way the ticket says, and ``capture`` it. Whatever it raises, the resume step must resume what it has held."""
    return capture(recovery, ticket, quiesce(recovery, ticket))


def capture(recovery: RecoveryContext, ticket: Ticket, quiesced: Quiesced) -> CutSummary:
    """Read a cut, copy what the application has not read of its repartition topics, and leave both as a note for the copy.

    Tails are copied here and not by the Spark job, because a running application deletes what it has read every 30 s. Tries again while the label is not what
    the policy wants. At last, if the policy says so, it holds an application that was to be left alone: the resume step must then resume that. One that is left
    alone is saved by the names of its transactions first. Raises
    ``NotExact`` when no such cut can be had, ``OffsetsUnstable`` when a transaction stays open, ``TransientError`` when topics changed meanwhile, ``Refused``
    when it was another attempt that held the application.
    """
    require_lock(recovery, ticket)
    if quiesced.savepoint_id != ticket.savepoint_id:
        # What held the application then may have let it go since, and it may have run and crashed.
        raise other_attempt(f"the hold for savepoint {quiesced.savepoint_id}", ticket.savepoint_id)
    found, missing = _discovered(recovery, ticket)
    topic_holds.keep_guard(recovery, ticket.savepoint_id, ticket.mark, found.topics.values() if ticket.safety else found.to_read)
    by_names = take_by_names(recovery, ticket, found) if quiesced.mode is QuiesceMode.LIVE else ""
    if isinstance(by_names, str):
        if by_names:
            LOGGER.warning("%s is not saved by the names of its transactions: %s", recovery.application_id, by_names)
        quiesced, (cut, tails) = _held_if_need_be(recovery, ticket, found, quiesced)
    else:
        cut, tails = by_names
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
        left_out=None if cut.proof.names is None else cut.proof.names.left_out,
    )


def _held_if_need_be(
    recovery: RecoveryContext, ticket: Ticket, found: Discovery, quiesced: Quiesced
) -> tuple[Quiesced, tuple[Cut, tuple[RangeCopied, ...]]]:
    """A cut by what stands still, and how the application was held for it."""
    may_fall_back = ticket.fallback is not None and quiesced.mode is QuiesceMode.LIVE
    try:
        return quiesced, _take(recovery, ticket, found, quiesced, exact_only=may_fall_back)
    except NotExact as error:
        # An application that is held commits nothing, so it would be held in vain.
        if ticket.fallback is None or not may_fall_back or error.facts.get("past_end"):
            raise
        held = quiesce(recovery, replace(ticket, mode=ticket.fallback))
        return held, _take(recovery, ticket, found, held, exact_only=False)


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
        partitions = completed(recovery, found, tried.readings.internal)
        cut = Cut(captured_at=tried.readings.captured_at, consistency=tried.consistency, proof=tried.proof, partitions=partitions)
        if lost := purged_tails({part.tp: part for part in tails_of(found, partitions)}):
            reasons = (f"unread records of {lost[0]} were deleted before they could be copied",)
            continue
        try:
            # Before the wait for outputs, which may last its whole timeout: a running application reads and deletes them meanwhile.
            tails = copy_tails(recovery, ticket, tails_of(found, partitions), None)
        except OffsetsGone as error:
            # A running application goes on reading its repartition topics and deletes what it has read: this cut is too old already.
            gone, reasons = error, (error.reason,)
        else:
            await_outputs(recovery, found, cut)
            again = _held_to_the_end(recovery, found, quiesced, tried)
            if again.consistency is tried.consistency or (attempt >= policy.attempts and not exact_only):
                return _with_proof(again, cut, found, quiesced), tails
            reasons = again.proof.reasons
    behind = list(map(str, tried.evidence.past_end))
    raise NotExact(
        f"no {'exact ' if policy.require == 'exact' else ''}cut of {recovery.application_id} in {policy.attempts} looks: {'; '.join(reasons)}",
        next_step=f"{_ONCE_READ if behind else _how_to_hold(quiesced)}; or allow `ahead` savepoints in "
        "backup.consistency.require, and a restore of such a one may count input twice",
        attempts=policy.attempts,
        reasons=reasons,
        past_end=behind,
    ) from gone


def _how_to_hold(quiesced: Quiesced) -> str:
    return _SEEN_NEXT if quiesced.mode is QuiesceMode.STOP and not quiesced.still else _HOLD_IT


def _held_to_the_end(recovery: RecoveryContext, found: Discovery, quiesced: Quiesced, tried: Attempt) -> Attempt:
    """The attempt, judged once more after its tails were copied. An unknown process may have been silent while the cut was read: an offset that moves while the
    application is down or paused is moved by such a process.
    """
    if quiesced.mode is QuiesceMode.LIVE or tried.consistency is not Consistency.EXACT:
        return tried
    logs = logs_of(recovery, found)
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


def attempt_cut(recovery: RecoveryContext, found: Discovery, quiesced: Quiesced, attempt: int) -> Attempt:
    """Read a cut of the application as it is held. Raises ``OffsetsUnstable`` when a transaction stays open."""
    logs = logs_of(recovery, found)
    readings = read_cut(logs, found.partitions(TopicRole.CHANGELOG, TopicRole.REPARTITION))
    live = quiesced.mode is QuiesceMode.LIVE
    held, why_not_held = (False, quiesced.why_not) if live else still_held(recovery, quiesced)
    changelogs, guarantee = found.partitions(TopicRole.CHANGELOG), recovery.config.application.guarantee
    asks = guarantee is Guarantee.EXACTLY_ONCE_V2 and readings.exact
    transactional = asks and logs.all_transactional(changelogs, found.partitions(TopicRole.REPARTITION), readings.ends)
    evidence = CutEvidence(
        mode=quiesced.mode,
        guarantee=guarantee,
        readings=readings,
        held=held,
        why_not_held=why_not_held,
        writers_transactional=transactional,
        not_transactional=logs.not_transactional(changelogs, readings.ends) if asks and not transactional else (),
        past_end=logs.past_end(readings.committed_before, found.topics),
    )
    held_seconds = 0.0 if live else (recovery.clock() - quiesced.since) / 1000
    consistency, why = proof(evidence, held_seconds=held_seconds, attempts=attempt)
    return Attempt(evidence=evidence, consistency=consistency, proof=why)
