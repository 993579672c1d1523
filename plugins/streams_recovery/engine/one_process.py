"""Small jobs without Spark: a job's own program, in one process that does two tasks at once. All else is as with Spark: see ``submitter``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streams_recovery.core.project_files import project_files
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.spark_submit import job_arguments, job_environment
from streams_recovery.engine.submitter import SparkJob, outcome_of, place_of, run_submit

WITHOUT_SPARK: Final = "--without-spark"
_PACKAGES: Final = Path(__file__).resolve().parents[2]
# The two packages come from where this process has them, and nothing else does: beside them are other programs' modules, with any names.
_RUN: Final = """import os, runpy, sys
places, program = sys.argv[1:3]
del sys.argv[1:3]
before = list(sys.path)
sys.path[:0] = places.split(os.pathsep)
import spark_jobs, streams_recovery
sys.path[:] = before
runpy.run_module(program, run_name="__main__", alter_sys=True)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessCall:
    """A call of the program of one job. ``environment`` is all that the process is given, and names the secrets file. It leaves its ``receipt`` here."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    receipt: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSubmit:
    """See Submitter. Runs small jobs from the command line; what they print is appended to a file in ``logs``."""

    logs: Path

    def submit(self, job: SparkJob) -> ArtifactRef:
        log = self.logs / f"{job.name}.log"
        with process_call(job) as call:
            return outcome_of(job, call.receipt, log, lambda: run_submit(call.argv, call.environment, log=log, receipt=call.receipt))


@contextmanager
def process_call(job: SparkJob) -> Iterator[ProcessCall]:
    """The call for a job. Its secrets file and the place for its receipt are there for as long as the block lasts."""
    with place_of(job) as (work, secrets):
        receipt = work / "receipt.json"
        yield ProcessCall(
            # P: the directory that this process is in is no place for modules.
            argv=(
                sys.executable,
                "-P",
                "-c",
                _RUN,
                os.pathsep.join((str(project_files().root), str(_PACKAGES))),
                f"spark_jobs.{job.name}",
                WITHOUT_SPARK,
                *job_arguments(job.order, job.repository.location, receipt),
            ),
            environment=job_environment(secrets),
            receipt=receipt,
        )
