"""Compact changelogs to the newest row of each key, and prove that their state is the same. One specification in, one result out: see core.compaction."""

from __future__ import annotations

import sys

from spark_jobs.job import Job, in_sql, run_job
from spark_jobs.transforms.compact import reduce_partitions
from streams_recovery.core.compaction.plan import CompactSpec

JOB = Job(name="compact", kind=CompactSpec, work=in_sql(reduce_partitions))

if __name__ == "__main__":
    sys.exit(run_job(JOB))
