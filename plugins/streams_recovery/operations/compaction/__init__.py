"""Making a savepoint smaller, or of fewer files: plan, begin, plan_job, (Spark), publish, in this order. The savepoint it is made from stays as it is."""

from streams_recovery.core.compaction.values import CompactionPlan, How
from streams_recovery.operations.compaction.compact import (
    CompactRequest,
    CompactSummary,
    CompactTicket,
    begin,
    compaction_text,
    plan,
    plan_job,
    publish,
)

__all__ = [
    "CompactRequest",
    "CompactSummary",
    "CompactTicket",
    "CompactionPlan",
    "How",
    "begin",
    "compaction_text",
    "plan",
    "plan_job",
    "publish",
]
