"""Taking a savepoint: begin, quiesce, capture, resume, plan_copy, (Spark), gather, publish, finish, in this order."""

from streams_recovery.savepoints.begin import begin, begin_safety, finish
from streams_recovery.savepoints.capture import capture
from streams_recovery.savepoints.copy import gather, plan_copy
from streams_recovery.savepoints.publish import publish
from streams_recovery.savepoints.quiesce import quiesce, resume
from streams_recovery.savepoints.values import (
    CutSummary,
    FinishReport,
    GatherSummary,
    JobPlan,
    Quiesced,
    ResumeReport,
    SavepointRequest,
    SavepointSummary,
    Ticket,
)

__all__ = [
    "CutSummary",
    "FinishReport",
    "GatherSummary",
    "JobPlan",
    "Quiesced",
    "ResumeReport",
    "SavepointRequest",
    "SavepointSummary",
    "Ticket",
    "begin",
    "begin_safety",
    "capture",
    "finish",
    "gather",
    "plan_copy",
    "publish",
    "quiesce",
    "resume",
]
