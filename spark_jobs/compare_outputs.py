"""Compare outputs with those of a clone or of an interval, key by key. One specification in, one result out: see core.outputs.comparison."""

from __future__ import annotations

import sys

from spark_jobs.job import Job, in_sql, run_job
from spark_jobs.transforms.outputs import compare_outputs
from streams_recovery.core.outputs.comparison import OutputsSpec

JOB = Job(name="compare_outputs", kind=OutputsSpec, work=in_sql(compare_outputs))

if __name__ == "__main__":
    sys.exit(run_job(JOB))
