"""Savepoints, and the continuous archive behind them. For a savepoint the application is held from CAPTURE_CUT to RESUME: seconds, never the Spark job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from streams_recovery.operations import archive, savepoint
from streams_recovery.operations.savepoint import CutSummary, Ticket
from streams_recovery.workflows.step import JobStep, Step, When, Workflow

_SHORT: Final = timedelta(minutes=15)
_AT_ONCE: Final = timedelta(seconds=5)


BEGIN: Final = Step(
    name="begin",
    call=savepoint.begin,
    result=Ticket,
    limit=_SHORT,
    message=lambda ticket: f"savepoint {ticket.savepoint_id} begun, mode {ticket.mode}",
)
# Held and read in one step: between two the application would be held for as long as a task takes to start.
CAPTURE_CUT: Final = Step(
    name="capture_cut",
    call=savepoint.take_cut,
    result=CutSummary,
    needs=(BEGIN,),
    message=lambda cut: f"cut: {cut.text}",
)
RESUME: Final = Step(
    name="resume",
    call=savepoint.resume,
    result=savepoint.ResumeReport,
    needs=(BEGIN,),
    when=When.ALWAYS,
    retries=3,
    delay=_AT_ONCE,
    limit=_SHORT,
)
COPY_RECORDS: Final = JobStep(
    name="copy_records",
    job="backup",
    call=savepoint.plan_copy,
    expected=savepoint.expected_copy,
    needs=(BEGIN, CAPTURE_CUT.part(lambda cut: cut.draft)),
    retries=2,
    delay=timedelta(seconds=30),
    limit=timedelta(hours=6),
    message=lambda copied: f"{copied.offsets} offsets in {copied.ranges} ranges copied",
)
PUBLISH: Final = Step(
    name="publish",
    call=savepoint.publish_copy,
    result=savepoint.PublishedSavepoint,
    needs=(BEGIN, COPY_RECORDS.part(lambda copied: copied.plan), COPY_RECORDS.file),
    retries=2,
)
FINISH: Final = Step(
    name="finish",
    call=savepoint.finish,
    result=savepoint.FinishReport,
    needs=(BEGIN,),
    when=When.ALWAYS,
    retries=3,
    delay=_AT_ONCE,
    limit=_SHORT,
)

SAVEPOINT: Final = Workflow(opening=BEGIN, steps=(CAPTURE_CUT, RESUME, COPY_RECORDS, PUBLISH, FINISH), result=PUBLISH)

# It goes on for as long as its ticket says, whatever becomes of one archiver: the next one begins where that one has ended. A run that failed because a store
# did not answer for minutes would be followed by others that fail, and then by none.
_UNTIL_IT_WORKS: Final[dict[str, Any]] = {
    "retries": 2_000,
    "delay": timedelta(seconds=5),
    "most_delay": timedelta(minutes=1),
    "waits_for_room": True,
}

BEGIN_ARCHIVE: Final = Step(name="begin", call=archive.begin, result=archive.ArchiverTicket, **_UNTIL_IT_WORKS)
ARCHIVE_INPUTS: Final = JobStep(
    name="archive_inputs",
    job="archive",
    call=archive.plan_archiver,
    needs=(BEGIN_ARCHIVE,),
    locked=False,
    limit=timedelta(hours=26),
    **_UNTIL_IT_WORKS,
)

ARCHIVE: Final = Workflow(opening=BEGIN_ARCHIVE, steps=(ARCHIVE_INPUTS,), result=ARCHIVE_INPUTS)
