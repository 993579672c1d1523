"""The steps of a drill that no other restore has: clearing up before it, taking everything away after it, writing down what it measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from streams_recovery.operations import sandbox
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore import RestoreReport, RestoreTicket
from streams_recovery.operators.base import NOTHING, StepOperator, received, result_of
from streams_recovery.operators.run_facts import requested_by, run_id_of
from streams_recovery.workflows import sandbox as steps


class ClearDrillOperator(StepOperator):
    """Take away what a drill that died has left."""

    takes = steps.CLEAR_DRILL
    anew = True

    def step(self, recovery: RecoveryContext, context: Context) -> sandbox.Removed:
        return sandbox.clear(recovery, run_id=run_id_of(context))


class RemoveDrillOperator(StepOperator):
    """Stop the drill's application and take away everything of it."""

    takes = steps.REMOVE_DRILL


class ConcludeDrillOperator(StepOperator):
    """Add the drill to the history of the application, however it ended, and fail unless it succeeded. ``ticket``, ``report`` and ``removed`` render to
    the JSON of the tasks that opened the restore, finished it and removed the drill, ``began_at`` to when it was planned; each is nothing when its task
    did not succeed.
    """

    takes = steps.CONCLUDE_DRILL
    template_fields: Sequence[str] = (*StepOperator.template_fields, "ticket", "report", "removed", "began_at")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ticket = result_of("open_restore")
        self.report = result_of("finish")
        self.removed = result_of("remove")
        self.began_at = "{{ (ti.xcom_pull(task_ids='plan') or {}).get('began_at', '') }}"

    def step(self, recovery: RecoveryContext, context: Context) -> sandbox.DrillEntry:
        ticket = None if self.ticket == NOTHING else received(RestoreTicket, self.ticket, "open")
        entry = sandbox.conclude(
            recovery,
            run_id=run_id_of(context),
            requested_by=requested_by(context),
            began_at=int(self.began_at) if self.began_at.isdigit() else recovery.clock(),
            ticket=ticket,
            report=None if self.report == NOTHING else received(RestoreReport, self.report, "finish"),
            left=() if ticket is None or self.removed != NOTHING else ("what the task remove could not take away",),
        )
        measured = (entry.rpo_seconds, entry.rto_seconds, entry.loss_seconds)
        self.log.info("Drill at the site %s %s: RPO %s s, RTO %s s, loss %s s", entry.site, entry.outcome, *measured)
        sandbox.raise_unless_succeeded(entry)
        return entry
