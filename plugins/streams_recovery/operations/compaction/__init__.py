"""Making a savepoint smaller: plan, begin, plan_job, (Spark), publish, in this order; and the same in ``merge``, of its small files. The savepoint it is made
from stays as it is.
"""

from streams_recovery.operations.compaction import merge
from streams_recovery.operations.compaction.plan import (
    CompactRequest,
    CompactSummary,
    CompactTicket,
    begin,
    compaction_text,
    plan,
    plan_job,
    publish,
)

__all__ = ["CompactRequest", "CompactSummary", "CompactTicket", "begin", "compaction_text", "merge", "plan", "plan_job", "publish"]
