"""Join small segments, and prove that every record is the same. One specification in, one result out: see core.compaction.merge."""

from __future__ import annotations

import sys

from spark_jobs.job import Job, run_job
from spark_jobs.transforms.merge import merge_groups
from streams_recovery.core.compaction.merge import MergeSpec

JOB = Job(name="merge", kind=MergeSpec, work=merge_groups)

if __name__ == "__main__":
    sys.exit(run_job(JOB))
