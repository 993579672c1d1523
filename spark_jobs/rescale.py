"""Prove where the records of a savepoint lie, and place them anew in other numbers of partitions. One specification in, one result out: see core.rescale."""

from __future__ import annotations

import sys

from spark_jobs.job import Job, run_job
from spark_jobs.transforms.rescale import rescale
from streams_recovery.core.rescale.moved import RescaleSpec

JOB = Job(name="rescale", kind=RescaleSpec, work=rescale, alone=True)

if __name__ == "__main__":
    sys.exit(run_job(JOB))
