"""The history of an application's drills, in its own part of the repository."""

from __future__ import annotations

import itertools

from streams_recovery.core.errors import ConfigInvalid, Damaged
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.repository.journal import JournalEntry
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.sites import PRIMARY
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.sandbox.drill import DrillEntry, DrillRestore, drill_entry
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore import RestoreReport, RestoreTicket, Verdict
from streams_recovery.operations.sites import sandbox_site
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.run_artifacts import RunArtifacts

# Runs do not overlap, so the entry of one whose last step is repeated is among the newest.
_NEWEST = 20


def drills(recovery: RecoveryContext) -> list[DrillEntry]:
    """Every drill of this application, oldest first."""
    return _log(recovery).read_all()


def conclude(
    recovery: RecoveryContext,
    *,
    run_id: str,
    requested_by: str,
    began_at: int,
    ticket: RestoreTicket | None,
    report: RestoreReport | None,
    left: tuple[str, ...],
) -> DrillEntry:
    """Add the drill to the history, however it ended, and return its entry. ``recovery`` is that of the application itself; ``ticket`` is None when no
    restore was begun, ``report`` when it was not finished. Repeating it adds nothing.
    """
    log = _log(recovery)
    restored = None if ticket is None else _restored(recovery, ticket, report)
    entry = drill_entry(
        run=run_id, requested_by=requested_by, began_at=began_at, restored=restored, left=left, site=_site(recovery, run_id)
    )
    # What is written there already is data: it counts only where it says what is found here.
    known = next((one for one in itertools.islice(log.read_back(), _NEWEST) if _same(one, entry)), None)
    if known is not None:
        return known
    log.append(entry)
    return entry


def _same(one: DrillEntry, other: DrillEntry) -> bool:
    about = [(entry.run, entry.restore_id, entry.savepoint_id, entry.plan_hash, entry.site, entry.outcome) for entry in (one, other)]
    return about[0] == about[1]


def raise_unless_succeeded(entry: DrillEntry) -> None:
    """Raise ``Damaged``: an application whose drill fails has no way back that can be counted on."""
    if not entry.succeeded:
        left = f"; left: {', '.join(entry.left)}" if entry.left else ""
        raise Damaged(
            f"the drill of {entry.savepoint_id or 'no savepoint'} {entry.outcome}{left}",
            next_step="see the first task of this run that failed; the application itself was not changed",
            run=entry.run,
        )


def _restored(recovery: RecoveryContext, ticket: RestoreTicket, report: RestoreReport | None) -> DrillRestore:
    layout = _scratch(recovery)
    journal = AppendLog(recovery.repository, layout.journal(ticket.restore_id), JournalEntry).read_all()
    planned = RunArtifacts(recovery.repository, layout).read(RestorePlan, ticket.plan)
    return DrillRestore(
        restore_id=ticket.restore_id,
        savepoint_id=planned.savepoint_id,
        plan_hash=ticket.plan_hash,
        captured_at=planned.captured_at,
        journal=tuple(journal),
        rows=report.rows if report else 0,
        keys_compared=report.keys_compared if report else 0,
        proven=report is not None and report.verdict is Verdict.EQUAL,
        input_upto=_input_upto(planned),
    )


def _input_upto(planned: RestorePlan) -> int | None:
    if not any(step.role is TopicRole.INPUT for step in planned.create):
        return None
    return planned.captured_at if planned.archived is None else planned.archived.safe_at


def _site(recovery: RecoveryContext, run_id: str) -> str:
    """Where the run began, or was to begin."""
    drill = recovery.config.drill
    if drill is None or not recovery.config.sites:
        return PRIMARY
    return sandbox_site(recovery.repository, drill.application_id, run_id) or drill.site or recovery.site


def _scratch(recovery: RecoveryContext) -> Layout:
    if recovery.config.drill is None:
        raise ConfigInvalid(f"no drill is configured for {recovery.config.name}", next_step="write a drill section")
    return Layout(recovery.config.drill.application_id)


def _log(recovery: RecoveryContext) -> AppendLog[DrillEntry]:
    return AppendLog(recovery.repository, recovery.layout.drills, DrillEntry)
