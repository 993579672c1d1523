"""Small jobs without Spark: a job's own program, in one process that does its tasks one after the other. All else is as with Spark: see ``submitter``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streams_recovery.core.project_files import is_installed, project_files
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.spark_submit import job_arguments, job_environment
from streams_recovery.engine.submitter import SparkJob, outcome_of, place_of, run_submit

WITHOUT_SPARK: Final = "--without-spark"
_PATH: Final = "PYTHONPATH"
_PACKAGES: Final = Path(__file__).resolve().parents[2]


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
        receipt, environment = work / "receipt.json", job_environment(secrets)
        # What is installed is found without a path, which would go before Python's own library.
        own = "" if is_installed() else str(_PACKAGES)
        packages = (own, str(project_files().root), environment.get(_PATH, ""))
        yield ProcessCall(
            # P: the directory that this process is in is no place for modules.
            argv=(
                sys.executable,
                "-P",
                "-m",
                f"spark_jobs.{job.name}",
                WITHOUT_SPARK,
                *job_arguments(job.order, job.repository.location, receipt),
            ),
            environment={**environment, _PATH: os.pathsep.join(filter(None, packages))},
            receipt=receipt,
        )
