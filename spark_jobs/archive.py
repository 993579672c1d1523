"""Archive topics for as long as this runs. One specification in, one result out at the end: see core.archive.tick. What it archives is in the archive's log."""

from __future__ import annotations

import sys

from spark_jobs.job import Job, run_job
from spark_jobs.transforms.archiver import archive
from streams_recovery.core.archive.tick import ArchiveSpec

JOB = Job(name="archive", kind=ArchiveSpec, work=archive)

if __name__ == "__main__":
    sys.exit(run_job(JOB))
