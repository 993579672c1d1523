"""Making a savepoint smaller: plan, begin, plan_job, (Spark), publish, in this order; and the same in ``merge``, of its small files. The savepoint it is made
from stays as it is.
"""

from streams_recovery.operations.compaction import merge
from streams_recovery.operations.compaction.plan import begin, plan, plan_job
from streams_recovery.operations.compaction.publish import publish
from streams_recovery.operations.compaction.text import compaction_text
from streams_recovery.operations.compaction.values import CompactRequest, CompactSummary, CompactTicket

__all__ = ["CompactRequest", "CompactSummary", "CompactTicket", "begin", "compaction_text", "merge", "plan", "plan_job", "publish"]
