"""The preflight of a restore and of a failover: what ``operations.preflight`` finds, and what the plan of it would refuse. Changes nothing."""

from __future__ import annotations

from streams_recovery.core.checks.check import Occasion
from streams_recovery.core.checks.runs import REFUSED, Refusals
from streams_recovery.core.errors import PermanentError
from streams_recovery.core.kafka_types import Consistency, TopicRole
from streams_recovery.core.preflight.findings import PreflightFinding, as_findings, blocking, refused, warning
from streams_recovery.core.remedies.remedy import as_refused
from streams_recovery.core.remedies.restores import choose_exact, look_before_replacing
from streams_recovery.core.remedies.savepoints import keep_output
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.repository.survival import empty_outputs
from streams_recovery.core.restore.failover import fewer_replicas
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.request import Safeguards
from streams_recovery.core.words import first_names
from streams_recovery.operations import preflight
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.plan import plan
from streams_recovery.operations.restore.strategies import Failover, FromSavepoint, RestoreRequest

_REASON = "preflight"


def before_restore(recovery: RecoveryContext, manifest: Manifest | None) -> tuple[PreflightFinding, ...]:
    """Findings that block or weaken a restore of ``manifest``; without one, only those that depend on no savepoint."""
    factor = recovery.config.restore.replication_factor
    made = None if manifest is None else fewer_replicas(manifest, factor=factor, brokers=None)[0]
    found = (*preflight.before_restore(recovery, made), *_elsewhere(recovery))
    if manifest is None:
        return found
    request = FromSavepoint(
        reason=_REASON, savepoint=manifest.savepoint_id, allow_ahead=True, allow_damaged=True, safeguards=_given(recovery)
    )
    return (*found, *_label(manifest), *_of_plan(recovery, request, manifest, found))


def before_failover(recovery: RecoveryContext, manifest: Manifest | None) -> tuple[PreflightFinding, ...]:
    """Findings that block or weaken a move of the application to the site that ``recovery`` is at, with the state of ``manifest``."""
    found = preflight.before_failover(recovery, manifest)
    if manifest is None:
        return found
    request = Failover(
        reason=_REASON,
        to=recovery.site,
        # What runs at the site that is left is asked when it is left.
        lost=recovery.sites.current(),
        savepoint=manifest.savepoint_id,
        allow_ahead=True,
        allow_damaged=True,
        safeguards=_given(recovery),
    )
    return (*found, *_label(manifest), *_of_plan(recovery, request, manifest, found))


def _given(recovery: RecoveryContext) -> Safeguards:
    """Permissions that a person may give are given here, and told: the cluster does not answer questions about them."""
    return Safeguards(replace=True, confirm=recovery.application_id)


def _elsewhere(recovery: RecoveryContext) -> tuple[PreflightFinding, ...]:
    try:
        recovery.sites.require_current(recovery.site)
    except PermanentError as error:
        return (refused("site", error),)
    return ()


def _label(manifest: Manifest) -> tuple[PreflightFinding, ...]:
    option = {Consistency.AHEAD: "allow_ahead", Consistency.DAMAGED: "allow_damaged"}.get(manifest.consistency)
    if option is None:
        return ()
    text = f"savepoint {manifest.savepoint_id} is `{manifest.consistency}`, and is restored only with {option}: {'; '.join(manifest.proof.reasons)}"
    return (warning("label", text, choose_exact()),)


def _of_plan(
    recovery: RecoveryContext, request: RestoreRequest, manifest: Manifest, found: tuple[PreflightFinding, ...]
) -> tuple[PreflightFinding, ...]:
    """The refusals of the plan beyond those that were ``found``: the plan is made, and thrown away."""
    if blocking(found):
        # It would say just this.
        return ()
    try:
        planned = plan(recovery, request)
    except PermanentError as error:
        return as_findings(REFUSED.ask(Occasion.RESTORE, Refusals(why=(error.reason,), remedy=as_refused(error.next_step))))
    return (*_replaced(planned), *_emptied(recovery, planned, manifest))


def _replaced(planned: RestorePlan) -> tuple[PreflightFinding, ...]:
    held = planned.observed.offsets_replaced
    if not held:
        return ()
    text = f"{first_names(sorted(held))} {'holds' if len(held) == 1 else 'hold'} records, which are replaced only with replace"
    return (warning("replaces", text, look_before_replacing()),)


def _emptied(recovery: RecoveryContext, planned: RestorePlan, manifest: Manifest) -> tuple[PreflightFinding, ...]:
    images = {recovery.config.restore.topic_map.get(topic.name, topic.name): topic for topic in manifest.topics}
    made = {step.name: images[step.name] for step in planned.create if step.role is TopicRole.OUTPUT and step.name in images}
    return tuple(warning("outputs-empty", text, keep_output()) for text in empty_outputs(made))
