"""Write files of a savepoint again, and prove that they hold the same. One specification in, one result out: see core.compaction."""

from __future__ import annotations

import sys

from spark_jobs.access import JobAccess
from spark_jobs.job import Job, run_job
from spark_jobs.transforms.compact import reduce_partitions
from spark_jobs.transforms.merge import merge_groups
from spark_jobs.transforms.one_process import Tasks
from spark_jobs.transforms.task_runner import sql_session
from streams_recovery.core.compaction.values import CompactResult, CompactSpec, How


def compact(context: Tasks, spec: CompactSpec, access: JobAccess) -> CompactResult:
    """The work of a specification. Merges only need tasks, and start no SQL session."""
    if spec.how is How.SMALL_FILES:
        return merge_groups(context, spec, access)
    return reduce_partitions(sql_session(), spec, access)


JOB = Job(name="compact", kind=CompactSpec, work=compact)

if __name__ == "__main__":
    sys.exit(run_job(JOB))
