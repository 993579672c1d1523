"""Reading the status of an application, and of the run that works on it now, to show it: no broker, no manifest, no Parquet file is opened.

A status is an entry of ``AppendLog(repository, layout.status, StatusReport)``. The monitor appends one and removes the oldest; the newest entry is the
status. A reader that keeps what it has read asks for a listing only, as long as no newer entry is there. The run is known by the lock, and by the progress
that the drivers of its Spark jobs store.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from streams_recovery.core.codec import MOST_BYTES_OF_ENTRY
from streams_recovery.core.errors import Damaged, EntryUnreadable, NotFound, RecoveryError
from streams_recovery.core.jobs.progress import JobProgress
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.lease import LockRecord
from streams_recovery.core.status.look import UnderWay, artifacts_of
from streams_recovery.core.status.report import StatusReport
from streams_recovery.core.status.savepoint_detail import SavepointDetail
from streams_recovery.storage.json_object import read_value
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.progress_store import progress_of_run
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore

# An entry may be removed between its listing and its reading.
_TRIES = 3


@dataclass(frozen=True, slots=True)
class StoredStatus:
    """A status and the object that it was read from."""

    key: str
    report: StatusReport


def newest(repository: Repository, layout: Layout, known: StoredStatus | None) -> StoredStatus | None:
    """The newest status that can be read: ``known`` itself while there is no newer entry, None before the first observation of the application. Raises
    ``RepositoryUnavailable`` and ``ConfigInvalid``, and ``Damaged`` when there are entries and none can be read.
    """
    for _ in range(_TRIES):
        keys = [key for key in repository.keys(layout.status) if key.endswith(".json")]
        with contextlib.suppress(NotFound):
            return _newest_of(repository, keys, known)
    return known


def _newest_of(repository: Repository, keys: list[str], known: StoredStatus | None) -> StoredStatus | None:
    """The last of these that can be read. What another release has written may not be readable here."""
    unreadable: Damaged | None = None
    for key in reversed(keys):
        if known is not None and known.key == key:
            return known
        try:
            return StoredStatus(key, read_value(repository, StatusReport, key, most_bytes=MOST_BYTES_OF_ENTRY))
        except Damaged as error:
            unreadable = unreadable or error
    if unreadable is not None:
        raise unreadable
    return None


def detail(repository: Repository, layout: Layout, savepoint_id: str) -> SavepointDetail | None:
    """One savepoint with its topics and partitions, None when nothing was written of it. Raises as ``newest`` does."""
    with contextlib.suppress(NotFound):
        return SavepointStore(repository, layout).detail(savepoint_id)
    return None


def under_way(repository: Repository, layout: Layout, *, now: int) -> UnderWay | None:
    """The run that has the lock, None if no run has it or if its record cannot be read. ``now`` in milliseconds. Raises what listing raises."""
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
    """The moment at which it took the lock. The newest record may be a renewal."""
    with contextlib.suppress(RecoveryError):
        return read_value(repository, LockRecord, f"{layout.locks}{held.acquired:012}.json").at
    return held.at


def _jobs(repository: Repository, layout: Layout, held: LockRecord, now: int) -> tuple[JobProgress, ...]:
    directory = artifacts_of(held, repository.directories(layout.artifacts))
    return () if directory is None else tuple(progress_of_run(repository, layout, directory, running_at=now))
