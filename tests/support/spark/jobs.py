"""Rows, and a copy of them by the real job."""

from __future__ import annotations

from spark_jobs.transforms.range_copy import copy_ranges
from streams_recovery.core.jobs.spec import BackupSpec, RangeToCopy

APPLICATION = "app"


def backup(spark, access, *ranges):
    """Copy ranges (partition, start, end) by the job."""
    wanted = tuple(RangeToCopy(tp=tp, start=start, end=end, size_hint=end) for tp, start, end in ranges)
    return copy_ranges(spark.sparkContext, BackupSpec(application_id=APPLICATION, ranges=wanted, compression_level=3), access).ranges


BASE = [(10 + number, b"k%d" % number, b"v%d" % number, [("h", b"x")]) for number in range(5)]
