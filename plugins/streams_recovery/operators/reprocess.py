"""The steps of reprocessing that no other restore has: which interval and which lane, is there input, handing over, taking everything away, the entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue
from airflow.sdk.exceptions import AirflowSkipException

from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.sandbox.interval import Interval
from streams_recovery.core.sandbox.interval_log import written_interval
from streams_recovery.core.timestamps import EPOCH
from streams_recovery.hooks.context import airflow_errors, context_of
from streams_recovery.operations import interval as reprocessing
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.interval import Claimed, Planned
from streams_recovery.operations.sandbox import Removed
from streams_recovery.operators.base import NOTHING, StepOperator, received
from streams_recovery.operators.restore import RestoreStepOperator
from streams_recovery.operators.run_facts import requested_by, run_id_of


def why_not_now(run_type: str) -> str | None:
    """Why a run of this type processes nothing, None when it does."""
    if run_type != "scheduled":
        return None
    return "this DAG processes the past again, and a schedule only gives it intervals: create a backfill, or trigger it with from and to"


def interval_of(run_type: str, begin: str, end: str, data: tuple[datetime | None, datetime | None]) -> Interval:
    """The interval of a run: the data interval of a backfill, else the one between the params. Raises ``ConfigInvalid``."""
    if begin or end:
        if run_type == "backfill":
            raise ConfigInvalid(
                "a backfill has the intervals of the schedule, and from and to are given", next_step="leave from and to out"
            )
        return written_interval(begin, end)
    if run_type != "backfill" or data[0] is None or data[1] is None:
        raise ConfigInvalid("no interval is given", next_step="create a backfill, or give from and to with their time zones")
    first, last = ((at - EPOCH) // timedelta(milliseconds=1) for at in (data[0], data[1]))
    return Interval(start=first, end=last)


class ClaimIntervalSensor(BaseSensorOperator):
    """Which interval this run is for, and a lane for it; waits, without a worker, while all lanes are taken. ``asked`` has a template for every field of
    ``reprocessing.Asked``, and ``from`` and ``to``. A run by the schedule is skipped.
    """

    template_fields: Sequence[str] = ("application_name", "asked")

    def __init__(self, *, application_name: str, asked: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.application_name = application_name
        self.asked = dict(asked)

    def poke(self, context: Context) -> PokeReturnValue:
        """Look for a free lane."""
        run = context["dag_run"]
        why = why_not_now(run.run_type)
        if why is not None:
            raise AirflowSkipException(why)
        asked = {name: text for name, text in self.asked.items() if name not in ("from", "to", "tombstones")}
        with airflow_errors(), context_of(self.application_name) as recovery:
            interval = interval_of(run.run_type, self.asked["from"], self.asked["to"], (run.data_interval_start, run.data_interval_end))
            wanted = reprocessing.Asked(**asked, tombstones=self.asked["tombstones"] == "True")
            claimed = reprocessing.claim(recovery, reprocessing.requested(recovery, wanted, interval), run_id=run_id_of(context))
            if claimed is None:
                self.log.info("All lanes are taken, by the intervals %s", ", ".join(reprocessing.busy(recovery)))
                return PokeReturnValue(is_done=False)
        return PokeReturnValue(is_done=True, xcom_value=codec.encode(claimed))


class OfIntervalOperator(StepOperator):
    """A step that needs to know what was claimed: the JSON of the task that did."""

    template_fields: Sequence[str] = ("application_name", "claimed")

    def __init__(self, *, claimed: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.claimed = claimed

    @property
    def request(self) -> reprocessing.ReprocessRequest:
        """What is asked for."""
        return received(Claimed, self.claimed, "claim").request


class SourcedOperator(OfIntervalOperator):
    """A step that takes from the application itself, whose id is ``source_id``."""

    def __init__(self, *, source_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.source_id = source_id


class ClearIntervalOperator(SourcedOperator):
    """Take away what an earlier run of the interval has left, its results side by side too."""

    def step(self, recovery: RecoveryContext, context: Context) -> Removed:
        """Clear up."""
        return reprocessing.clear(recovery, self.source_id, self.request, run_id=run_id_of(context))


class PlanIntervalOperator(SourcedOperator):
    """Say what would be processed. Changes nothing."""

    def step(self, recovery: RecoveryContext, context: Context) -> Planned:
        """Plan."""
        planned = reprocessing.plan(recovery, self.source_id, self.request)
        self.log.info("%s", planned.text)
        return planned


class OpenIntervalOperator(SourcedOperator):
    """Begin the restore. ``planned`` is the JSON of the plan; an interval without input is skipped from here on."""

    template_fields: Sequence[str] = (*SourcedOperator.template_fields, "planned")

    def __init__(self, *, planned: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.planned = planned

    def step(self, recovery: RecoveryContext, context: Context) -> restore.RestoreTicket:
        """Open."""
        planned = received(Planned, self.planned, "plan")
        if planned.records == 0:
            raise AirflowSkipException(planned.text)
        return reprocessing.open_interval(
            recovery, self.source_id, self.request, planned, run_id=run_id_of(context), requested_by=requested_by(context)
        )


class HandOverOperator(RestoreStepOperator):
    """Hand over what the interval brought. ``claimed`` is the JSON of the task that claimed it."""

    template_fields: Sequence[str] = (*RestoreStepOperator.template_fields, "claimed")

    def __init__(self, *, claimed: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.claimed = claimed

    def step(self, recovery: RecoveryContext, context: Context) -> reprocessing.PublishReport:
        """Hand over."""
        return reprocessing.publish_results(recovery, self.held_ticket, received(Claimed, self.claimed, "claim").request)


class RemoveIntervalOperator(RestoreStepOperator):
    """Stop the interval's application and take away everything of it but what it handed over. ``handed`` is the JSON that this returned, if it came so far."""

    template_fields: Sequence[str] = (*RestoreStepOperator.template_fields, "handed")

    def __init__(self, *, handed: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.handed = handed

    def step(self, recovery: RecoveryContext, context: Context) -> Removed:
        """Remove."""
        return reprocessing.remove(recovery, self.held_ticket, _handed(self.handed))


def _handed(text: str) -> reprocessing.PublishReport | None:
    return None if text == NOTHING else received(reprocessing.PublishReport, text, "handing over")


class ConcludeIntervalOperator(OfIntervalOperator):
    """Add the interval to the history of the application, however it ended, and fail unless it succeeded. ``planned``, ``ticket``, ``handed``,
    ``report`` and ``removed`` are the JSON of the tasks before, nothing where one did not succeed.
    """

    template_fields: Sequence[str] = (*OfIntervalOperator.template_fields, "planned", "ticket", "handed", "report", "removed")

    def __init__(self, *, planned: str, ticket: str, handed: str, report: str, removed: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.planned = planned
        self.ticket = ticket
        self.handed = handed
        self.report = report
        self.removed = removed

    def step(self, recovery: RecoveryContext, context: Context) -> reprocessing.ReprocessEntry:
        """Conclude."""
        why = why_not_now(context["dag_run"].run_type)
        if why is not None:
            raise AirflowSkipException(why)
        ticket = None if self.ticket == NOTHING else received(restore.RestoreTicket, self.ticket, "open")
        done = reprocessing.Done(
            planned=None if self.planned == NOTHING else received(Planned, self.planned, "plan"),
            ticket=ticket,
            handed=_handed(self.handed),
            finished=self.report != NOTHING,
            left=() if ticket is None or self.removed != NOTHING else ("what the task remove could not take away",),
        )
        entry = reprocessing.conclude(recovery, self.request, done, run_id=run_id_of(context), requested_by=requested_by(context))
        self.log.info("Interval %s: %s", self.request.slice.interval.name, entry.outcome)
        reprocessing.raise_unless_succeeded(entry)
        return entry
