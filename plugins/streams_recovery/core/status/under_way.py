"""The run that works on an application right now, and how far its Spark jobs are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streams_recovery.core.ids import is_id, run_suffix
from streams_recovery.core.jobs.progress import JobProgress
from streams_recovery.core.repository.lease import LockRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """``owner`` has the application's lock since ``since`` (ms) for ``purpose``. ``jobs`` are Spark jobs of that run that are not over, in the order of
    their last reports.
    """

    owner: str
    purpose: str
    since: int
    jobs: tuple[JobProgress, ...]


def artifacts_of(held: LockRecord, directories: Iterable[str]) -> str | None:
    """Which of these directories of run artifacts is that of the lock's holder: the newest that the run has made, or the one of a restore that it resumes.
    None when it has made none yet.
    """
    # An owner is a run, or a word and a run. Ids end with a digest of the run.
    suffixes = {run_suffix(held.owner), run_suffix(held.owner.partition(" ")[2])}
    ids = sorted(name for name in directories if is_id(name))
    made = [name for name in ids if name.partition("-")[2] in suffixes]
    resumed = [name for name in ids if name in held.purpose.replace(",", "").split()]
    return next(reversed(made or resumed), None)
