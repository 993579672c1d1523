"""Spark in the process of the tests: one session for all of them, and jobs that run in it instead of being submitted."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from streams_recovery.core.jobs.spec import JobReceipt
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.spark_submit import read_outcome
from streams_recovery.engine.submitter import RESULTS, SparkJob

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def spark_session(package: Path, temporary: Path) -> Iterator[SparkSession]:
    """A session set up as a submitted job finds it. ``temporary`` becomes this process's place for temporary files: tests look at what is left
    there, and other runs use this machine too.
    """
    tempfile.tempdir = str(temporary)
    os.environ |= {
        "TMPDIR": tempfile.tempdir,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.submit.pyFiles": str(package),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


@dataclass(frozen=True)
class InSession:
    """See Submitter. The frame of the job's own main, in this session: what it leaves and what it raises are those of a submitted job."""

    spark: SparkSession

    def submit(self, job: SparkJob) -> ArtifactRef:
        """Run it here, to its end."""
        from spark_jobs.access import JobAccess
        from spark_jobs.job import do_job
        from spark_jobs.transforms.progress import Board

        access = JobAccess(
            connection=job.connection,
            location=job.repository.location,
            credentials=job.credentials,
            encryption=job.repository.encryption,
        )
        main = importlib.import_module(f"spark_jobs.{job.name}")
        log = ""
        told: list[JobReceipt] = []
        try:
            do_job(
                main.JOB,
                access,
                job.spec,
                job.result_key,
                tasks=lambda: nullcontext(self.spark.sparkContext),
                end=self._cancel,
                tell=told.append,
                board=job.report and Board(job=job.name, access=access, result_key=job.result_key, show=job.report),
            )
        except Exception:  # noqa: BLE001  # whatever it is, it ends the job and not the tests
            # A driver would have ended with this in its log.
            log = traceback.format_exc()
        # As in the one file that a driver has for it, the last word counts.
        return read_outcome(job.repository, told[-1] if told else None, job.result_key, RESULTS[job.name], log_tail=log)

    def _cancel(self, _code: int) -> None:
        self.spark.sparkContext.cancelAllJobs()
