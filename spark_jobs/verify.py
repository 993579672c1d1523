"""Compare topics with the savepoint they were loaded from. One specification in, one result out: see core.jobs.spec."""

from __future__ import annotations

import sys

from spark_jobs.job import Job, run_job
from spark_jobs.transforms.compare import compare_partitions
from streams_recovery.core.jobs.spec import VerifySpec

JOB = Job(name="verify", kind=VerifySpec, work=compare_partitions, alone=True)

if __name__ == "__main__":
    sys.exit(run_job(JOB))
