"""What is done with savepoints that are there: checked, expired, compacted, compared, looked into; and input that a restore has set aside, appended again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from streams_recovery.core.repository.check import CheckReport
from streams_recovery.core.state.inspection import Inspection
from streams_recovery.operations import compaction, maintenance, restore, state
from streams_recovery.operations.compaction import CompactTicket
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.maintenance import CheckTicket
from streams_recovery.operations.restore import AppendTicket
from streams_recovery.workflows.step import JobOutcome, JobStep, Step, When

_AGAIN: Final[dict[str, Any]] = {"retries": 2, "delay": timedelta(seconds=30)}


def _conclude_check(recovery: RecoveryContext, ticket: CheckTicket, read: JobOutcome) -> CheckReport:
    return maintenance.conclude_check(recovery, ticket, read.result)


def _publish_compacted(recovery: RecoveryContext, ticket: CompactTicket, compacted: JobOutcome) -> compaction.CompactSummary:
    return compaction.publish(recovery, ticket, compacted.result)


def _finish_append(recovery: RecoveryContext, ticket: AppendTicket, appended: JobOutcome) -> restore.AppendReport:
    return restore.finish_append(recovery, ticket, appended.result)


PLAN_CHECK: Final = Step(name="plan", call=maintenance.plan_check, result=CheckTicket, limit=timedelta(hours=1), **_AGAIN)
READ_FILES: Final = JobStep(name="read_files", job="check", call=maintenance.plan_reading, needs=(PLAN_CHECK,), locked=False, **_AGAIN)
CONCLUDE_CHECK: Final = Step(
    name="conclude", call=_conclude_check, result=CheckReport, needs=(PLAN_CHECK, READ_FILES), limit=timedelta(hours=1), **_AGAIN
)
CHECK: Final = (PLAN_CHECK, READ_FILES, CONCLUDE_CHECK)

PLAN_EXPIRY: Final = Step(name="plan", call=maintenance.plan_expiry, result=maintenance.ExpirePlan, limit=timedelta(hours=2))
EXPIRE: Final = Step(name="expire", call=maintenance.expire, result=maintenance.ExpireReport, limit=timedelta(hours=2))
EXPIRY: Final = (PLAN_EXPIRY, EXPIRE)

PLAN_COMPACTION: Final = Step(name="plan", call=compaction.begin, result=CompactTicket, **_AGAIN)
COMPACT_RECORDS: Final = JobStep(
    name="compact_records", job="compact", call=compaction.plan_job, needs=(PLAN_COMPACTION,), locked=False, **_AGAIN
)
PUBLISH_COMPACTED: Final = Step(
    name="publish", call=_publish_compacted, result=compaction.CompactSummary, needs=(PLAN_COMPACTION, COMPACT_RECORDS), **_AGAIN
)
COMPACTION: Final = (PLAN_COMPACTION, COMPACT_RECORDS, PUBLISH_COMPACTED)

PLAN_APPEND: Final = Step(name="plan", call=restore.plan_append, result=restore.AppendPlan)
OPEN_APPEND: Final = Step(name="open_append", call=restore.open_append, result=AppendTicket)
APPEND_RECORDS: Final = JobStep(name="append_records", job="restore", call=restore.plan_append_job, needs=(OPEN_APPEND,))
FINISH_APPEND: Final = Step(name="finish", call=_finish_append, result=restore.AppendReport, needs=(OPEN_APPEND, APPEND_RECORDS))
LEAVE_APPEND: Final = Step(name="leave", call=restore.leave_append, result=None, needs=(OPEN_APPEND,), when=When.ALWAYS, retries=3)
APPEND: Final = (OPEN_APPEND, APPEND_RECORDS, FINISH_APPEND, LEAVE_APPEND)

BEGIN_EXPORT: Final = Step(name="begin", call=state.begin_export, result=state.ExportTicket)
WRITE_TABLE: Final = JobStep(
    name="write_table", job="state", call=lambda _recovery, ticket: ticket.job, needs=(BEGIN_EXPORT,), locked=False
)
EXPORT: Final = (BEGIN_EXPORT, WRITE_TABLE)

COMPARE: Final = Step(name="compare", call=state.compare_savepoints, result=Inspection, limit=timedelta(hours=6), **_AGAIN)
COMPARISON: Final = (COMPARE,)

LOOK_UP: Final = Step(name="look_up", call=state.look_up, result=Inspection, limit=timedelta(hours=2), **_AGAIN)
LOOK_UPS: Final = (LOOK_UP,)
