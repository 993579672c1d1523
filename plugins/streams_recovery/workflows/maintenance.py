"""Workflows on savepoints that are there: check, compaction, expiry, copies in a second place, export, comparison, look-up, and the append of input that a
restore has set aside.

Two workflows take no savepoint: an application that is down between its runs is started and stopped (a sensor does the waiting in between); and the real
outputs are compared with those of a clone or of an interval, which reads only and takes no lock.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from streams_recovery.core.outputs.comparison import OutputsReport, OutputsTicket
from streams_recovery.core.repository.check import CheckReport
from streams_recovery.core.scheduled_run import ScheduledRun
from streams_recovery.core.state.inspection import Inspection
from streams_recovery.operations import compaction, maintenance, outputs, restore, scheduled_run, state
from streams_recovery.operations.compaction import CompactTicket
from streams_recovery.operations.maintenance import CheckTicket
from streams_recovery.operations.restore import AppendTicket
from streams_recovery.workflows.step import LONG, JobStep, Step, When, Workflow

_AGAIN: Final[dict[str, Any]] = {"retries": 2, "delay": timedelta(seconds=30)}

PLAN_CHECK: Final = Step(name="plan", call=maintenance.plan_check, result=CheckTicket, limit=timedelta(hours=1), **_AGAIN)
READ_FILES: Final = JobStep(name="read_files", job="check", call=maintenance.plan_reading, needs=(PLAN_CHECK,), locked=False, **_AGAIN)
CONCLUDE_CHECK: Final = Step(
    name="conclude",
    call=maintenance.conclude_check,
    result=CheckReport,
    needs=(PLAN_CHECK, READ_FILES.file),
    limit=timedelta(hours=1),
    **_AGAIN,
)
CHECK: Final = Workflow(opening=PLAN_CHECK, steps=(READ_FILES, CONCLUDE_CHECK), result=CONCLUDE_CHECK)

PLAN_COMPACTION: Final = Step(name="plan", call=compaction.begin, result=CompactTicket, **_AGAIN)
WRITE_FILES: Final = JobStep(name="write_files", job="compact", call=compaction.plan_job, needs=(PLAN_COMPACTION,), locked=False, **_AGAIN)
PUBLISH_COMPACTED: Final = Step(
    name="publish", call=compaction.publish, result=compaction.CompactSummary, needs=(PLAN_COMPACTION, WRITE_FILES.file), **_AGAIN
)
COMPACTION: Final = Workflow(opening=PLAN_COMPACTION, steps=(WRITE_FILES, PUBLISH_COMPACTED), result=PUBLISH_COMPACTED)

# Whatever became of the merge: what no rule keeps goes all the same.
PLAN_EXPIRY: Final = Step(
    name="plan", call=maintenance.plan_expiry, result=maintenance.ExpirePlan, when=When.ALWAYS, limit=timedelta(hours=2)
)
EXPIRE: Final = Step(name="expire", call=maintenance.expire, result=maintenance.ExpireReport, limit=timedelta(hours=2))
EXPIRY: Final = Workflow(opening=PLAN_EXPIRY, steps=(EXPIRE,), result=EXPIRE)

MIRROR: Final = Step(name="mirror", call=maintenance.fill_mirror, result=maintenance.MirrorReport, limit=LONG, **_AGAIN)
MIRRORING: Final = Workflow(opening=MIRROR, result=MIRROR)

PLAN_APPEND: Final = Step(name="plan", call=restore.plan_append, result=restore.AppendPlan)
OPEN_APPEND: Final = Step(name="open_append", call=restore.open_append, result=AppendTicket)
APPEND_RECORDS: Final = JobStep(name="append_records", job="restore", call=restore.plan_append_job, needs=(OPEN_APPEND,))
FINISH_APPEND: Final = Step(
    name="finish", call=restore.finish_append, result=restore.AppendReport, needs=(OPEN_APPEND, APPEND_RECORDS.file)
)
LEAVE_APPEND: Final[Step[None]] = Step(
    name="leave", call=restore.leave_append, result=None, needs=(OPEN_APPEND,), when=When.ALWAYS, retries=3
)
APPEND: Final = Workflow(
    before=(PLAN_APPEND,), opening=OPEN_APPEND, steps=(APPEND_RECORDS, FINISH_APPEND, LEAVE_APPEND), result=FINISH_APPEND
)

BEGIN_EXPORT: Final = Step(name="begin", call=state.begin_export, result=state.ExportTicket)
WRITE_TABLE: Final = JobStep(
    name="write_table", job="state", call=lambda _recovery, ticket: ticket.job, needs=(BEGIN_EXPORT,), locked=False
)
EXPORT: Final = Workflow(opening=BEGIN_EXPORT, steps=(WRITE_TABLE,), result=WRITE_TABLE)

COMPARE: Final = Step(name="compare", call=state.compare_savepoints, result=Inspection, limit=timedelta(hours=6), **_AGAIN)
COMPARISON: Final = Workflow(opening=COMPARE, result=COMPARE)

LOOK_UP: Final = Step(name="look_up", call=state.look_up, result=Inspection, limit=timedelta(hours=2), **_AGAIN)
LOOK_UPS: Final = Workflow(opening=LOOK_UP, result=LOOK_UP)


START: Final = Step(name="start_application", call=scheduled_run.begin, result=ScheduledRun)
STOP: Final = Step(
    name="stop_application",
    call=scheduled_run.end,
    result=scheduled_run.ScheduledRunReport,
    needs=(START,),
    when=When.ALWAYS,
    retries=5,
    delay=timedelta(seconds=30),
)
SCHEDULED_RUN: Final = Workflow(opening=START, steps=(STOP,), result=STOP)


BEGIN: Final = Step(
    name="begin",
    call=outputs.begin,
    result=OutputsTicket,
    limit=LONG,
    message=lambda ticket: f"comparing {ticket.ranges} partitions with those of {ticket.other}: {'; '.join(ticket.notes)}",
    **_AGAIN,
)
COMPARE_OUTPUTS: Final = JobStep(
    name="compare_outputs", job="compare_outputs", call=outputs.plan_job, needs=(BEGIN,), locked=False, **_AGAIN
)
CONCLUDE: Final = Step(
    name="conclude", call=outputs.conclude, result=OutputsReport, needs=(BEGIN, COMPARE_OUTPUTS.file), limit=timedelta(hours=1), **_AGAIN
)
OUTPUTS: Final = Workflow(opening=BEGIN, steps=(COMPARE_OUTPUTS, CONCLUDE), result=CONCLUDE)
