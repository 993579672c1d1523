"""Read segments whole and say what is wrong with them. One specification in, one result out: see core.repository.check."""

from __future__ import annotations

import sys

from spark_jobs.job import Job, run_job
from spark_jobs.transforms.check import check_files
from streams_recovery.core.repository.check import CheckSpec

JOB = Job(name="check", kind=CheckSpec, work=check_files, alone=True)

if __name__ == "__main__":
    sys.exit(run_job(JOB))
