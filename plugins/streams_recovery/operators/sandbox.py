"""The steps of drills and of reprocessing that no other restore has.

A drill: clear up before it, take everything away after it, write down what it measured. An interval: claim it and a slot, look whether there is input, publish
the results, remove everything, write the entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue
from airflow.sdk.exceptions import AirflowSkipException

from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.forms import request_of
from streams_recovery.core.restore.interval import Interval
from streams_recovery.core.sandbox.interval_log import written_interval
from streams_recovery.core.words import EPOCH
from streams_recovery.hooks.context import Logged, airflow_errors, context_of
from streams_recovery.operations import interval as reprocessing
from streams_recovery.operations import sandbox
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.interval import Claimed, Planned
from streams_recovery.operations.restore import RestoreReport, RestoreTicket
from streams_recovery.operations.sandbox import Removed
from streams_recovery.operators.base import (
    NOTHING,
    PARAMS,
    StepOperator,
    declared_params,
    received,
    received_if_any,
    requested_by,
    result_of,
    run_id_of,
    treatment,
)
from streams_recovery.workflows import sandbox as steps
from streams_recovery.workflows.restore import OPEN_RESTORE


class ClearDrillOperator(StepOperator):
    """Take away what a drill that died has left."""

    takes = steps.CLEAR_DRILL
    anew = True

    def step(self, recovery: RecoveryContext, context: Context) -> Removed:
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
        ticket = received_if_any(RestoreTicket, self.ticket, "open")
        entry = sandbox.conclude(
            recovery,
            run_id=run_id_of(context),
            requested_by=requested_by(context),
            began_at=int(self.began_at) if self.began_at.isdigit() else recovery.clock(),
            ticket=ticket,
            report=received_if_any(RestoreReport, self.report, "finish"),
            left=_left(ticket, self.removed),
        )
        measured = (entry.rpo_seconds, entry.rto_seconds, entry.loss_seconds)
        self.log.info("Drill at the site %s %s: RPO %s s, RTO %s s, loss %s s", entry.site, entry.outcome, *measured)
        sandbox.raise_unless_succeeded(entry)
        return entry


class ClaimIntervalSensor(Logged, BaseSensorOperator):
    """Which interval this run is for, and a slot for it; waits, without a worker, while all slots are taken. A run by the schedule is skipped."""

    takes = steps.CLAIM
    template_fields: Sequence[str] = ("application_name", "params_json")

    def __init__(self, *, application_name: str, params_json: str = PARAMS, **kwargs: Any) -> None:
        """``params_json`` renders to JSON with the params that ``ReprocessOptions`` is made of."""
        super().__init__(**treatment(self.takes) | kwargs)
        self.application_name = application_name
        self.params_json = params_json

    def poke(self, context: Context) -> PokeReturnValue:
        """Look for a free slot."""
        run = context["dag_run"]
        why = why_not_now(run.run_type)
        if why is not None:
            raise AirflowSkipException(why)
        wanted = request_of(reprocessing.ReprocessOptions, declared_params(self, self.params_json))
        with airflow_errors(), context_of(self.application_name) as recovery:
            interval = interval_of(run.run_type, wanted.begin, wanted.end, (run.data_interval_start, run.data_interval_end))
            claimed = reprocessing.claim(recovery, reprocessing.requested(recovery, wanted, interval), run_id=run_id_of(context))
            if claimed is None:
                self.log.info("All slots are taken, by the intervals %s", ", ".join(reprocessing.busy(recovery)))
                return PokeReturnValue(is_done=False)
        return PokeReturnValue(is_done=True, xcom_value=codec.encode(claimed))


class OfIntervalOperator(StepOperator):
    """A task of a claimed interval. ``claimed`` renders to the JSON of the task *claim*, ``source_id`` is the application's id."""

    template_fields: Sequence[str] = (*StepOperator.template_fields, "claimed")

    def __init__(self, *, source_id: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.source_id = source_id
        self.claimed = result_of(steps.CLAIM.name)

    @property
    def request(self) -> reprocessing.ReprocessRequest:
        """The request of the run."""
        return received(Claimed, self.claimed, "claim").request


class ClearIntervalOperator(OfIntervalOperator):
    """Take away what an earlier run of the interval has left, its results side by side too."""

    takes = steps.CLEAR_INTERVAL
    anew = True

    def step(self, recovery: RecoveryContext, context: Context) -> Removed:
        return reprocessing.clear(recovery, self.source_id, self.request, run_id=run_id_of(context))


class PlanIntervalOperator(OfIntervalOperator):
    """Show what would be processed. Changes nothing."""

    takes = steps.PLAN_INTERVAL

    def step(self, recovery: RecoveryContext, context: Context) -> Planned:
        planned = reprocessing.plan(recovery, self.source_id, self.request)
        self.log.info("%s", planned.text)
        return planned


class OpenIntervalOperator(OfIntervalOperator):
    """Begin the restore. An interval without input is skipped from here on."""

    takes = OPEN_RESTORE
    template_fields: Sequence[str] = (*OfIntervalOperator.template_fields, "planned")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.planned = result_of(steps.PLAN_INTERVAL.name)

    def step(self, recovery: RecoveryContext, context: Context) -> RestoreTicket:
        planned = received(Planned, self.planned, "plan")
        if planned.records == 0:
            raise AirflowSkipException(planned.text)
        return reprocessing.open_interval(
            recovery, self.source_id, self.request, planned, run_id=run_id_of(context), requested_by=requested_by(context)
        )


class PublishResultsOperator(StepOperator):
    """Publish what the interval brought: beside the outputs, or into them."""

    takes = steps.PUBLISH_RESULTS


class FinishIntervalOperator(StepOperator):
    """Put topic settings back, write the evidence of the restore, give the lock back."""

    takes = steps.FINISH_INTERVAL


class RemoveIntervalOperator(StepOperator):
    """Stop the interval's application and take away everything of it but the results it published."""

    takes = steps.REMOVE_INTERVAL


class ConcludeIntervalOperator(OfIntervalOperator):
    """Add the interval to the history of the application, however it ended, and fail unless it succeeded. It looks at the results of the tasks before; a task
    that did not succeed has none.
    """

    takes = steps.CONCLUDE_INTERVAL
    template_fields: Sequence[str] = (*OfIntervalOperator.template_fields, "planned", "ticket", "published", "report", "removed")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.planned = result_of(steps.PLAN_INTERVAL.name)
        self.ticket = result_of(OPEN_RESTORE.name)
        self.published = result_of(steps.PUBLISH_RESULTS.name)
        self.report = result_of(steps.FINISH_INTERVAL.name)
        self.removed = result_of(steps.REMOVE_INTERVAL.name)

    def step(self, recovery: RecoveryContext, context: Context) -> reprocessing.ReprocessEntry:
        why = why_not_now(context["dag_run"].run_type)
        if why is not None:
            raise AirflowSkipException(why)
        ticket = received_if_any(RestoreTicket, self.ticket, "open")
        done = reprocessing.Done(
            planned=received_if_any(Planned, self.planned, "plan"),
            ticket=ticket,
            published=received_if_any(reprocessing.PublishReport, self.published, "publishing the results"),
            finished=self.report != NOTHING,
            left=_left(ticket, self.removed),
        )
        entry = reprocessing.conclude(recovery, self.request, done, run_id=run_id_of(context), requested_by=requested_by(context))
        self.log.info("Interval %s: %s", self.request.slice.interval.name, entry.outcome)
        reprocessing.raise_unless_succeeded(entry)
        return entry


def _left(ticket: RestoreTicket | None, removed: str) -> tuple[str, ...]:
    """The leavings of a sandbox that was opened with ``ticket``; ``removed`` is the result of its removal."""
    return () if ticket is None or removed != NOTHING else ("what the task remove could not take away",)


def why_not_now(run_type: str) -> str | None:
    """The reason for which a run of this type processes nothing, None when it does."""
    if run_type != "scheduled":
        return None
    return "this DAG processes the past again, and a schedule only gives it intervals: create a backfill, or trigger it with from and to"


def interval_of(run_type: str, begin: str, end: str, data: tuple[datetime | None, datetime | None]) -> Interval:
    """The interval of a run: the data interval of a backfill, else the one between the params. Raises ``ConfigInvalid``."""
    if begin or end:
        if run_type == "backfill":
            raise ConfigInvalid(
                "a backfill has the intervals of the schedule, and from and to are given",
                next_step="leave from and to out",
                begin=begin,
                end=end,
            )
        return written_interval(begin, end)
    if run_type != "backfill" or data[0] is None or data[1] is None:
        raise ConfigInvalid("no interval is given", next_step="create a backfill, or give from and to with their time zones")
    first, last = ((at - EPOCH) // timedelta(milliseconds=1) for at in (data[0], data[1]))
    return Interval(start=first, end=last)
