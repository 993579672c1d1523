"""Copy ranges of topics into the repository. One specification in, one result out: see core.jobs.spec."""

from __future__ import annotations

import sys

from spark_jobs.job import Job, run_job
from spark_jobs.transforms.range_copy import copy_ranges
from streams_recovery.core.jobs.spec import BackupSpec

JOB = Job(name="backup", kind=BackupSpec, work=copy_ranges, alone=True)

if __name__ == "__main__":
    sys.exit(run_job(JOB))
