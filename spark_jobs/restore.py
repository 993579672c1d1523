"""Load segments into topics. One specification in, one result out: see core.jobs.spec."""

from __future__ import annotations

import sys

from spark_jobs.job import Job, run_job
from spark_jobs.transforms.load import load_partitions
from streams_recovery.core.jobs.spec import RestoreSpec

JOB = Job(name="restore", kind=RestoreSpec, work=load_partitions, alone=True)

if __name__ == "__main__":
    sys.exit(run_job(JOB))
