"""The safety savepoint of a restore: the state that is replaced, saved before anything is destroyed. It is the way back."""

from __future__ import annotations

from streams_recovery.core.errors import Damaged, NotFound, RecoveryError
from streams_recovery.core.jobs.spec import NO_JOB
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.repository.journal import Phase, reached
from streams_recovery.core.restore.request import SafetyPolicy
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.operations import savepoint, topic_holds
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.open import TICKET, given_up, guarded, note, phase_of, stored_plan
from streams_recovery.operations.restore.values import RestoreTicket, SafetyBegun, SafetySummary
from streams_recovery.operations.savepoint import SavepointRequest
from streams_recovery.operations.unfinished import plan_of, readable_back, replaced_nothing


def save_state(recovery: RecoveryContext, ticket: RestoreTicket) -> SafetyBegun:
    """Read the cut of what is there and plan its copy.

    There is nothing to save when everything is gone already, and nothing worth it when an earlier restore has left it half way: that
    one's safety savepoint stays the way back. One on which the application was started since is whole, and is saved if that can be done. Raises what taking a
    savepoint raises, unless the policy is ``best_effort``.
    """
    written = guarded(recovery, ticket, at_least=Phase.STOPPED, before=Phase.STARTED)
    if (why_none := _why_none(recovery, ticket)) is not None:
        return _none(why_none)
    if recovery.safety.published_by_run(ticket.restore_id) or reached(written).rank >= Phase.DESTROYING.rank:
        return _none("an earlier attempt of this restore has saved what there was")
    try:
        return _begun(recovery, ticket)
    except RecoveryError as error:
        if _must_save(recovery, ticket):
            raise
        return _none(f"it could not be taken: {error}")


def _why_none(recovery: RecoveryContext, ticket: RestoreTicket) -> str | None:
    if ticket.request.safeguards.safety is SafetyPolicy.SKIP:
        return "it was told to skip it"
    earlier = _state_left_by(recovery, ticket)
    if earlier is not None and _worked_here(recovery, earlier) and not _went_on(recovery, earlier):
        return f"restore {earlier} left only half of a state; its safety savepoint, if it has one, is the way back"
    return None


def _must_save(recovery: RecoveryContext, ticket: RestoreTicket) -> bool:
    # What comes after a restore that failed is a way out, which a savepoint that cannot be taken must not close.
    return ticket.request.safeguards.safety is SafetyPolicy.REQUIRED and _state_left_by(recovery, ticket) is None


def _state_left_by(recovery: RecoveryContext, ticket: RestoreTicket) -> str | None:
    """The earlier restore that the state is half way of. One of single topics has left the state as it was, and has no safety savepoint."""
    earlier = ticket.after_unfinished
    return None if earlier is None or replaced_nothing(recovery, earlier) else earlier


def _went_on(recovery: RecoveryContext, restore_id: str) -> bool:
    """True when the application was started on what an earlier restore has brought back: that state is whole, and may have been at work for days. State that a
    new version has changed is not saved: its upgrade's own savepoint is the way back.
    """
    last = next(readable_back(recovery, restore_id), None)
    if last is None or last.phase.rank < Phase.STARTED.rank or given_up(recovery, restore_id) is not None:
        return False
    try:
        return plan_of(recovery, restore_id).part.new_version is None
    except (Damaged, NotFound):
        return True


def _worked_here(recovery: RecoveryContext, restore_id: str) -> bool:
    """True unless an earlier restore worked at another site: topics that it left half way there say nothing about those here."""
    if len(recovery.sites.names) == 1:
        return True
    try:
        site = recovery.artifacts.read_once(RestoreTicket, restore_id, TICKET).site
    except (Damaged, NotFound):
        return True
    return site in (None, recovery.site)


def _none(why: str) -> SafetyBegun:
    return SafetyBegun(ticket=None, job=NO_JOB, none_because=why)


def _begun(recovery: RecoveryContext, ticket: RestoreTicket) -> SafetyBegun:
    request = SavepointRequest(
        run_id=ticket.restore_id,
        requested_by=ticket.requested_by,
        reason=f"before restore {ticket.restore_id}: {ticket.request.reason}",
        mode=QuiesceMode.STOP,
    )
    expected = tuple(step.name for step in stored_plan(recovery, ticket).create)
    begun = savepoint.begin_safety(recovery, request, ticket.lock, expected)
    if begun is None:
        return _none("nothing was there: neither internal topics nor committed offsets")
    cut = savepoint.take_cut(recovery, begun)
    return SafetyBegun(ticket=begun, job=savepoint.plan_copy(recovery, begun, cut.draft), none_because=None)


def keep_state(recovery: RecoveryContext, ticket: RestoreTicket, begun: SafetyBegun, copied: ArtifactRef | None = None) -> SafetySummary:
    """Publish the safety savepoint after its copy, whose result ``copied`` is, and let the restore go on. Raises ``Damaged`` for a copy that is not
    whole, unless the policy is ``best_effort``.
    """
    guarded(recovery, ticket, at_least=Phase.STOPPED, before=Phase.STARTED)
    try:
        summary = _published(recovery, ticket, begun, copied)
    except RecoveryError as error:
        if _must_save(recovery, ticket):
            raise
        summary = SafetySummary(savepoint_id=None, consistency=None, records=0, none_because=f"it could not be taken: {error}")
    topic_holds.release_copy_holds(recovery)
    if phase_of(recovery, ticket) is Phase.STOPPED:
        note(recovery, ticket, Phase.SAVED)
    return summary


def _published(recovery: RecoveryContext, ticket: RestoreTicket, begun: SafetyBegun, copied: ArtifactRef | None) -> SafetySummary:
    if begun.ticket is not None:
        savepoint.publish_copy(recovery, begun.ticket, begun.job.plan, copied)
    if (saved := recovery.safety.published_by_run(ticket.restore_id)) is None:
        return SafetySummary(savepoint_id=None, consistency=None, records=0, none_because=begun.none_because)
    manifest = recovery.safety.read(saved)
    return SafetySummary(savepoint_id=saved, consistency=manifest.consistency, records=manifest.records, none_because=None)
