"""Taking a savepoint: begin, take_cut, resume, plan_copy, (Spark), publish_copy, finish, in this order."""

from streams_recovery.core.savepoint.request import SavepointRequest
from streams_recovery.operations.savepoint.begin import before_savepoint, begin, begin_safety, finish
from streams_recovery.operations.savepoint.capture import capture, take_cut
from streams_recovery.operations.savepoint.copy import expected_copy, gather, plan_copy
from streams_recovery.operations.savepoint.publish import publish, publish_copy
from streams_recovery.operations.savepoint.quiesce import quiesce, resume
from streams_recovery.operations.savepoint.values import (
    CutSummary,
    FinishReport,
    PublishedSavepoint,
    ResumeReport,
    Ticket,
)

__all__ = [
    "CutSummary",
    "FinishReport",
    "PublishedSavepoint",
    "ResumeReport",
    "SavepointRequest",
    "Ticket",
    "before_savepoint",
    "begin",
    "begin_safety",
    "capture",
    "expected_copy",
    "finish",
    "gather",
    "plan_copy",
    "publish",
    "publish_copy",
    "quiesce",
    "resume",
    "take_cut",
]
