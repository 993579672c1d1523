"""Who works on an application right now, for pages: the lock, and what the drivers of its Spark jobs store about their progress."""

from __future__ import annotations

import contextlib

from streams_recovery.core.errors import EntryUnreadable, RecoveryError
from streams_recovery.core.jobs.progress import JobProgress
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.lease import LockRecord
from streams_recovery.core.status.under_way import UnderWay, artifacts_of
from streams_recovery.storage.json_object import read_value
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.progress_store import progress_of_run
from streams_recovery.storage.repository import Repository


def under_way(repository: Repository, layout: Layout, *, now: int) -> UnderWay | None:
    """The run that has the lock, None when none has it or nobody can tell. ``now`` in milliseconds. Raises what listing raises."""
    try:
        held = ApplicationLock(repository, layout, lambda: now).holder()
    except EntryUnreadable:
        # The monitor has a finding about it.
        return None
    if held is None:
        return None
    return UnderWay(
        owner=held.owner, purpose=held.purpose, since=_since(repository, layout, held), jobs=_jobs(repository, layout, held, now)
    )


def _since(repository: Repository, layout: Layout, held: LockRecord) -> int:
    """When it took the lock. The newest record may be a renewal."""
    with contextlib.suppress(RecoveryError):
        return read_value(repository, LockRecord, f"{layout.locks}{held.acquired:012}.json").at
    return held.at


def _jobs(repository: Repository, layout: Layout, held: LockRecord, now: int) -> tuple[JobProgress, ...]:
    directory = artifacts_of(held, repository.directories(layout.artifacts))
    return () if directory is None else tuple(progress_of_run(repository, layout, directory, running_at=now))
