"""The steps of a rescale that no other restore has: it is proven before the stop where records lie, and they are placed anew behind the savepoint of the stop.

The plan that was approved has the numbers. What goes where is known behind the placing: that plan is noted in the journal, and is carried out from there on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from streams_recovery.core.errors import NotExact, PlanChanged, Refused
from streams_recovery.core.jobs.spec import NO_JOB, JobPlan
from streams_recovery.core.kafka_types import Consistency, TopicPartition
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.rescale.moved import RescaleResult, with_grown
from streams_recovery.core.rescale.numbers import to_place
from streams_recovery.core.rescale.placement import RescaledTopic
from streams_recovery.core.restore.parts.rescale import RescalePart, Rescaling
from streams_recovery.core.restore.plan import RestorePlan, check_plan
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.words import first_names
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.rescale.derive import checked_result, plan_derivation, proofs_of, publish_derived
from streams_recovery.operations.restore.checks import check_same_targets
from streams_recovery.operations.restore.moments import LogsSeen, check_still, logs_seen
from streams_recovery.operations.restore.open import approved_plan, guarded, note
from streams_recovery.operations.restore.plan import plan
from streams_recovery.operations.restore.strategies import FromSavepoint, Rescale
from streams_recovery.operations.restore.strategies.rescale import check_grown
from streams_recovery.operations.restore.values import RestoreTicket
from streams_recovery.operations.unfinished import PLACED

SEEN = "producers-seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementProven:
    """So many ``records`` of ``topics`` lie where a form of their keys puts them."""

    topics: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedSummary:
    """The savepoint with the records placed anew, and the keys that are the same before and after."""

    savepoint_id: str
    topics: int
    records: int
    keys: int


def plan_proof(recovery: RecoveryContext, ticket: RestoreTicket) -> JobPlan:
    """The job that proves where the records lie of the savepoint that was there when the plan was made: nothing is stopped yet."""
    guarded(recovery, ticket, at_least=Phase.OPENED, before=Phase.STOPPED)
    found = _rescaling(recovery, ticket)
    return plan_derivation(recovery, recovery.savepoints.read(found.proven_on), _topics(found), work=ticket.restore_id, prove_only=True)


def check_proof(recovery: RecoveryContext, ticket: RestoreTicket, result: ArtifactRef | None) -> PlacementProven:
    """Raises ``Refused`` naming a record that obeys no form."""
    guarded(recovery, ticket, at_least=Phase.OPENED, before=Phase.STOPPED)
    found = _rescaling(recovery, ticket)
    manifest = recovery.savepoints.read(found.proven_on)
    proofs = () if result is None else proofs_of(recovery, manifest, _topics(found), result)
    return PlacementProven(topics=len(found.placed), records=sum(one.records for one in proofs))


def plan_placing(recovery: RecoveryContext, ticket: RestoreTicket) -> JobPlan:
    """The job that places the records anew, and a look at the inputs that are created again: producers must stand still from there on. Of a drill without other
    numbers there is no job. Raises ``NotExact`` for the savepoint of the stop, and ``Refused`` for unread records in a grown input.
    """
    guarded(recovery, ticket, at_least=Phase.SAVED, before=Phase.DESTROYING)
    if isinstance(ticket.request, FromSavepoint):
        return NO_JOB
    found = _rescaling(recovery, ticket)
    source, anew = _source(recovery, ticket, found), _anew(found)
    job = plan_derivation(recovery, source, _topics(found), work=ticket.restore_id, prove_only=False)
    return replace(job, plan=recovery.artifacts.write(ticket.restore_id, SEEN, logs_seen(recovery, anew)) if anew else None)


def keep_placed(recovery: RecoveryContext, ticket: RestoreTicket, seen: ArtifactRef | None, result: ArtifactRef | None) -> PlacedSummary:
    """Publish the savepoint with the records placed anew, and note the plan that restores it. ``seen`` is the look that was taken before the job. A drill
    publishes nothing, and without other numbers has nothing to note. Raises ``Refused`` while producers write to inputs that are created again, ``Damaged``
    where keys differ, and ``PlanChanged`` where other topics would be replaced than was approved.
    """
    guarded(recovery, ticket, at_least=Phase.SAVED, before=Phase.DESTROYING)
    if result is None or not isinstance(ticket.request, Rescale):
        if isinstance(ticket.request, FromSavepoint):
            return PlacedSummary(savepoint_id="", topics=0, records=0, keys=0)
        raise _no_rescale(ticket)
    approved, found = approved_plan(recovery, ticket), _rescaling(recovery, ticket)
    source, topics = _source(recovery, ticket, found), _topics(found)
    if found.tried:
        logs = checked_result(recovery, source, topics, result, run=ticket)[1].logs
        request = replace(ticket.request, savepoint=source.savepoint_id, placed=result)
    else:
        made = publish_derived(recovery, source, topics, result, run=ticket)
        logs = () if made.provenance.rescaled_from is None else made.provenance.rescaled_from.topics
        request = replace(ticket.request, derived=made.savepoint_id)
    if anew := _anew(found):
        first = None if seen is None else recovery.artifacts.read_own(LogsSeen, ticket.restore_id, seen)
        # By the job's own clock: the tasks before and behind it may be on machines whose clocks differ.
        passed = 0.0 if seen is None else recovery.artifacts.read_own(RescaleResult, ticket.restore_id, result).seconds
        check_still(recovery, anew, float(recovery.config.restore.producers_still_seconds), first=first, passed=passed)
    planned = plan(recovery, request)
    rescaled = replace(found, ends=dict(planned.part.replaced_ends), logs=logs, result=planned.part.placed)
    planned = replace(planned, part=RescalePart(rescaled=rescaled))
    check_plan(planned, where="the plan")
    check_same_targets(approved, planned)
    if _shape(planned) != _shape(approved):
        raise PlanChanged(
            "other topics would be created than was approved", next_step="nothing was changed; begin again, and approve the new plan"
        )
    note(recovery, ticket, Phase.SAVED, result=recovery.artifacts.write(ticket.restore_id, PLACED, planned))
    return PlacedSummary(
        savepoint_id=planned.savepoint_id or "",
        topics=len(logs),
        records=sum(one.records for one in logs),
        keys=sum(one.keys_after for one in logs),
    )


def _shape(planned: RestorePlan) -> dict[str, int]:
    return {step.name: len(step.partitions) for step in planned.create}


def _rescaling(recovery: RecoveryContext, ticket: RestoreTicket) -> Rescaling:
    part = approved_plan(recovery, ticket).part
    if isinstance(part, RescalePart):
        return part.rescaled
    raise _no_rescale(ticket)


def _no_rescale(ticket: RestoreTicket) -> Refused:
    return Refused(f"restore {ticket.restore_id} is no rescale", next_step="trigger a new run instead of clearing tasks of this one")


def _topics(found: Rescaling) -> tuple[RescaledTopic, ...]:
    return to_place(found.placed, history=found.history)


def _anew(found: Rescaling) -> list[TopicPartition]:
    old = {one.name: one.old for one in found.placed}
    return [TopicPartition(name, number) for name in found.anew for number in range(old[name])]


def _source(recovery: RecoveryContext, ticket: RestoreTicket, found: Rescaling) -> Manifest:
    """The savepoint that is placed anew: the one that was named, else that of the stop."""
    saved = found.proven_on if found.named else recovery.safety.published_by_run(ticket.restore_id)
    store = ticket.request.savepoints(recovery, approved_plan(recovery, ticket)) if found.named else recovery.safety
    manifest = None if saved is None else store.read(saved)
    if manifest is None or manifest.consistency is not Consistency.EXACT:
        reasons = "none was taken" if manifest is None else "; ".join(manifest.proof.reasons)
        raise NotExact(
            f"{recovery.application_id} has no exact savepoint of its stop: {reasons}",
            next_step="nothing was changed; let it stop cleanly, or name an exact savepoint (option --savepoint)",
        )
    there = {topic.name: topic for topic in manifest.topics}
    wanted = {one.name: one.new if one.name in found.grown else one.old for one in found.topics}
    other = sorted(name for name, number in wanted.items() if name not in there or len(there[name].partitions) != number)
    if other:
        raise PlanChanged(
            f"{first_names(other)} have other partitions in savepoint {manifest.savepoint_id} than when the plan was made",
            next_step="nothing was changed; begin again with a savepoint that was taken since, and approve the new plan",
            topics=other,
        )
    images = {TopicPartition(name, image.partition): image for name in found.grown for image in there[name].partitions}
    check_grown(recovery, {tp: image.committed for tp, image in images.items()}, {tp: image.end for tp, image in images.items()})
    grown = to_place(one for one in found.topics if one.name in found.grown)
    return with_grown(manifest, grown)
