"""Reading the status of an application, for whoever shows it: no broker, no manifest, no Parquet file is opened.

A status is an entry of ``AppendLog(repository, layout.status, StatusReport)``. Who observes the application appends one and removes the oldest; the newest
entry is the status. A reader that keeps what it has read asks for a listing only, as long as no newer entry is there.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from streams_recovery.core.bounded_json import MOST_BYTES_OF_ENTRY
from streams_recovery.core.errors import NotFound
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.status.report import StatusReport
from streams_recovery.core.status.savepoint_detail import SavepointDetail
from streams_recovery.storage.json_object import read_value
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore

# An entry may be removed between its listing and its reading.
_TRIES = 3


@dataclass(frozen=True, slots=True)
class StoredStatus:
    """A status and the object that it was read from."""

    key: str
    report: StatusReport


def latest(repository: Repository, layout: Layout) -> StatusReport | None:
    """The newest status, None when nobody has observed the application yet. Raises ``RepositoryUnavailable``, ``Damaged`` and ``ConfigInvalid``."""
    found = newest(repository, layout, None)
    return None if found is None else found.report


def newest(repository: Repository, layout: Layout, known: StoredStatus | None) -> StoredStatus | None:
    """The same with its object: ``known`` itself while there is no newer one."""
    for _ in range(_TRIES):
        keys = [key for key in repository.keys(layout.status) if key.endswith(".json")]
        if not keys:
            return None
        if known is not None and known.key == keys[-1]:
            return known
        with contextlib.suppress(NotFound):
            return StoredStatus(keys[-1], read_value(repository, StatusReport, keys[-1], most_bytes=MOST_BYTES_OF_ENTRY))
    return known


def detail(repository: Repository, layout: Layout, savepoint_id: str) -> SavepointDetail | None:
    """One savepoint with its topics and partitions, None when nothing was written of it. Raises as ``latest`` does."""
    with contextlib.suppress(NotFound):
        return SavepointStore(repository, layout).detail(savepoint_id)
    return None
