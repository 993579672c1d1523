"""Write a store's table as Parquet. One specification in, one result out: see core.state.inspection."""

from __future__ import annotations

import sys

from spark_jobs.job import Job, in_sql, run_job
from spark_jobs.transforms.tables import export_table
from streams_recovery.core.state.inspection import StateSpec

JOB = Job(name="state", kind=StateSpec, work=in_sql(export_table))

if __name__ == "__main__":
    sys.exit(run_job(JOB))
