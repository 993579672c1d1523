"""The evidence of a restore, made from what was compared."""

from __future__ import annotations

from dataclasses import dataclass

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.repository.journal import JournalEntry
from streams_recovery.core.restore.estimate import seconds_of
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.planned import RestoreFacts
from streams_recovery.core.restore.proofs import QueryCheck
from streams_recovery.core.restore.report import EVIDENCE_VERSION, RestoreReport, Verdict, topic_evidence
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.outputs_behind import listed_behind
from streams_recovery.operations.restore.values import RestoreTicket, VerifySummary
from streams_recovery.storage.savepoints import SavepointStore

_KNOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The findings of the steps of a restore: the comparison of topics and savepoint, and the answers of the application."""

    verified: VerifySummary
    query_checks: tuple[QueryCheck, ...]


def report_of(
    recovery: RecoveryContext,
    ticket: RestoreTicket,
    planned: RestorePlan,
    checked: Checked,
    journal: tuple[JournalEntry, ...],
    still_held: tuple[str, ...],
    expiring: tuple[str, ...] = (),
) -> RestoreReport:
    """The evidence. Raises ``Damaged`` when what was compared is not equal, is not all, or is nothing though there were records to restore."""
    topics, missing = topic_evidence(planned, checked.verified.partitions)
    behind = listed_behind(recovery, ticket.restore_id)
    report = RestoreReport(
        format_version=EVIDENCE_VERSION,
        restore_id=ticket.restore_id,
        **codec.fields_of(RestoreFacts, planned),
        part=planned.part,
        manifests=_manifests(recovery, ticket, planned),
        plan_hash=ticket.plan_hash,
        requested_by=ticket.requested_by,
        reason=ticket.request.reason,
        started_at=ticket.started_at,
        finished_at=recovery.clock(),
        strategy=planned.strategy_text,
        offsets=len(planned.offsets),
        rows=sum(topic.rows for topic in topics),
        keys_compared=sum(topic.keys_compared or 0 for topic in topics),
        topics=topics,
        missing=missing,
        safety_savepoint=recovery.safety.published_by_run(ticket.restore_id),
        still_held=still_held,
        expiring=expiring,
        sizes=planned.sizes,
        seconds=seconds_of(journal, began_at=ticket.started_at),
        query_checks=checked.query_checks,
        watched=None,
        outputs_behind=None if behind is None else tuple(one.facts for one in behind.outputs),
    )
    if report.verdict is Verdict.DIFFERENT or (planned.rows and report.verdict is not Verdict.EQUAL):
        gaps = f"; not proven: {', '.join(missing[:_KNOWN])}" if missing else ""
        raise Damaged(
            f"restore {ticket.restore_id} has no evidence that it is equal to savepoint {planned.compared_with}: {report.verdict}{gaps}",
            next_step="stop the application, and run the comparison of this restore again",
            restore=ticket.restore_id,
            verdict=str(report.verdict),
            missing=missing,
        )
    return report


def _manifests(recovery: RecoveryContext, ticket: RestoreTicket, planned: RestorePlan) -> dict[str, str | None]:
    store = ticket.request.savepoints(recovery, planned)
    ids = {planned.savepoint_id, planned.part.inputs_from, planned.part.archive}
    return {one: _manifest_hash(store, one) for one in sorted(one for one in ids if one is not None)}


def _manifest_hash(store: SavepointStore, savepoint_id: str) -> str | None:
    # One that another application's expiry took away meanwhile cannot be looked at any more.
    try:
        return store.sha256(savepoint_id)
    except NotFound:
        return None
