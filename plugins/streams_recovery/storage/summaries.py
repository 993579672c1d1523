"""Savepoints in short, by the records of their publication: a page of many opens no manifest of which there is one."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.publication import Publication
from streams_recovery.core.repository.retention import StoredFile
from streams_recovery.storage.repository import Repository

if TYPE_CHECKING:
    from streams_recovery.storage.savepoints import SavepointStore

_READERS: Final = 16
# A record is written right behind its manifest. One that came much later is not from the run that published.
_BEHIND_MS: Final = 900_000


def read_summaries(
    store: SavepointStore, repository: Repository, layout: Layout, ids: Sequence[str], *, by_manifest: bool = False
) -> dict[str, Publication | Damaged]:
    """These savepoints in short, by their records or ``by_manifest``; with the error for one that is damaged. One that expires meanwhile is left out."""
    manifests = {file.key: file for file in repository.listed(layout.savepoints)}
    records = {} if by_manifest else {file.key: file.modified for file in repository.listed(layout.published_prefix)}

    def read(savepoint_id: str) -> Publication | Damaged | None:
        stored = manifests.get(layout.manifest(savepoint_id))
        written = records.get(layout.published(savepoint_id))
        try:
            return None if stored is None else _summary(store, savepoint_id, stored, written)
        except NotFound:
            return None
        except Damaged as error:
            # Without what it was reading when it was raised.
            return error.with_traceback(None)

    with ThreadPoolExecutor(_READERS) as readers:
        found = zip(ids, readers.map(read, ids), strict=True)
        return {savepoint_id: one for savepoint_id, one in found if one is not None}


def _summary(store: SavepointStore, savepoint_id: str, stored: StoredFile, written: int | None) -> Publication:
    if written is not None and written <= stored.modified + _BEHIND_MS:
        with contextlib.suppress(NotFound, Damaged):
            record = store.publication(savepoint_id)
            if record.is_of(stored.key, stored.bytes):
                return record
    return store.summary_of_manifest(savepoint_id)
