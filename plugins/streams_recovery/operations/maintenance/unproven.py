"""The records that expiry cannot judge: in a sealed repository, those without the seal of a permitted writer that no person has adopted.

They are not used, and they may be true: the repository may be older than its seals, or the key that sealed them was withdrawn. So no object that they name is
removed. A record that names nothing that can be read might name any file.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

from streams_recovery.core.archive.cuts import KeptCut
from streams_recovery.core.archive.log import MOST_BYTES_OF_ARCHIVE_ENTRY, ArchiveEntry
from streams_recovery.core.codec import MOST_BYTES_OF_ENTRY
from streams_recovery.core.errors import Damaged, Forged, NotFound
from streams_recovery.core.repository.journal import Phase, may_restart
from streams_recovery.core.repository.publication import Publication, publication
from streams_recovery.core.repository.retention import Pin
from streams_recovery.core.repository.seal import Weight, standing_of
from streams_recovery.core.words import is_id
from streams_recovery.operations import unfinished
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.json_object import read_value
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.run_artifacts import RunArtifacts
from streams_recovery.storage.savepoints import SavepointStore

_READERS: Final = 16
_ENTRY: Final = re.compile(r"/[0-9]{12}\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unproven:
    """``records`` has why each is not believed, by key. ``named`` are the savepoints among them, alive and expired, ``files`` those that entries of the archive
    name, ``pins`` those that keep a savepoint by an unknown key, and ``in_use`` the savepoints that restores need. An ``unreadable`` record might name any
    file.
    """

    records: Mapping[str, str] = field(default_factory=dict)
    named: tuple[Publication, ...] = ()
    files: frozenset[str] = frozenset()
    pins: tuple[Pin, ...] = ()
    in_use: frozenset[str] = frozenset()
    unreadable: tuple[str, ...] = ()


def find_unproven(recovery: RecoveryContext, manifests: Mapping[str, str]) -> Unproven:
    """All that the application's part of the repository has of these records, beside ``manifests``, which are found already: why each is not believed, by key.
    Nothing in a repository without seals: there everything is believed, or cannot be read.
    """
    if recovery.repository.seals is None:
        return Unproven()
    plain = _without_seals(recovery)
    copies = _forged(recovery.repository, [file.key for files in plain.savepoints.copies().values() for file in files])
    entries = [key for prefix in (recovery.layout.archive, recovery.layout.archive_cuts) for key in plain.repository.keys(prefix)]
    archived = _forged(recovery.repository, _entries(entries))
    named, blind = _publications(plain, [*manifests, *copies])
    files, blind_archive = _archived(plain, archived)
    restores, in_use, blind_restores = _restores(recovery, plain)
    for other, theirs in zip(unfinished.other_parts(recovery), unfinished.other_parts(plain), strict=True):
        more, needed, blind_others = _restores(other, theirs)
        restores, in_use, blind_restores = restores | more, in_use | needed, [*blind_restores, *blind_others]
    lost = _lost(recovery, plain)
    pins, strange = _pins(recovery, plain)
    return Unproven(
        records={**manifests, **copies, **archived, **restores, **pins, **lost},
        named=tuple(named),
        files=frozenset(files),
        # A restore that cannot be read may need any savepoint.
        pins=strange,
        in_use=frozenset(in_use if not blind_restores else [*in_use, *plain.savepoints.ids(), *plain.safety.ids()]),
        unreadable=(*blind, *blind_archive, *blind_restores, *lost),
    )


def _without_seals(recovery: RecoveryContext) -> RecoveryContext:
    """The context as those have it who know no keys."""
    repository, layout = recovery.repository.without_seals(), recovery.layout
    return replace(
        recovery,
        repository=repository,
        savepoints=SavepointStore(repository, layout, recovery.clock),
        safety=SavepointStore(repository, layout.safety, recovery.clock),
        artifacts=RunArtifacts(repository, layout),
    )


def _entries(keys: Iterable[str]) -> list[str]:
    return [key for key in keys if _ENTRY.search(key)]


def _forged(repository: Repository, keys: Collection[str]) -> dict[str, str]:
    """Those of ``keys`` that are not believed, with the reason."""

    def why(key: str) -> str | None:
        try:
            repository.stored(key, most_bytes=max(MOST_BYTES_OF_ARCHIVE_ENTRY, MOST_BYTES_OF_ENTRY))
        except Forged as error:
            return str(error.facts["why"])
        except (Damaged, NotFound):
            # The reader of that record reports it.
            return None
        return None

    with ThreadPoolExecutor(_READERS) as readers:
        return {key: found for key, found in zip(keys, readers.map(why, keys), strict=True) if found is not None}


def _publications(plain: RecoveryContext, keys: Iterable[str]) -> tuple[list[Publication], list[str]]:
    """The savepoints at ``keys`` in short, and the keys that are none."""
    found, blind = [], []
    for key in keys:
        savepoint_id = key.split("/")[2]
        try:
            found.append(publication(plain.savepoints.retired_outline(savepoint_id, key), key, plain.repository.get(key)))
        except NotFound:
            continue
        except Damaged:
            blind.append(key)
    return found, blind


def _archived(plain: RecoveryContext, keys: Iterable[str]) -> tuple[set[str], list[str]]:
    """The files that these entries of the archive, and cuts that were kept, name, and the keys of those that cannot be read."""
    found, blind = set[str](), []
    for key in keys:
        kind: type[ArchiveEntry | KeptCut] = KeptCut if key.startswith(plain.layout.archive_cuts) else ArchiveEntry
        try:
            entry = read_value(plain.repository, kind, key, most_bytes=MOST_BYTES_OF_ARCHIVE_ENTRY)
            found |= {file.key for file in entry.checked(plain.application_id, key).files}
        except NotFound:
            continue
        except Damaged:
            blind.append(key)
    return found, blind


def _restores(recovery: RecoveryContext, plain: RecoveryContext) -> tuple[dict[str, str], set[str], list[str]]:
    """Restores with a forged journal and without a proven end: the reasons by key, the savepoints that they need, and the keys of restores whose savepoints are
    unknown. An unproven end ends nothing.
    """
    why, needed, blind = dict[str, str](), set[str](), []
    for restore_id in sorted(unfinished.restores_of(plain)):
        prefix = plain.layout.journal(restore_id)
        forged = _forged(recovery.repository, _entries(plain.repository.keys(prefix)))
        proven = next(unfinished.readable_back(recovery, restore_id), None)
        if not forged or (proven is not None and proven.phase is Phase.CLOSED):
            continue
        last = next(unfinished.readable_back(plain, restore_id), None)
        try:
            planned = unfinished.plan_of(plain, restore_id)
        except NotFound:
            # The plan of a restore that is over goes with the other work of its run.
            if last is None or not (last.phase is Phase.CLOSED or may_restart(last.phase)):
                blind.append(prefix)
                why |= forged
            continue
        except Damaged:
            blind.append(prefix)
            why |= forged
            continue
        named = {planned.savepoint_id, planned.part.inputs_from} if planned.source_application_id == plain.application_id else set()
        named.add(plain.safety.published_by_run(restore_id))
        if one_of := {one for one in named if one is not None}:
            needed |= one_of
            why |= forged
    return why, needed, blind


def _pins(recovery: RecoveryContext, plain: RecoveryContext) -> tuple[dict[str, str], tuple[Pin, ...]]:
    """Pins that keep a savepoint and are not believed: why, by key; and those of them that the log of pins passes over. All of them keep it."""
    there, found, strange = {*plain.savepoints.ids()}, {}, []
    for key, why in _forged(recovery.repository, _entries(plain.repository.keys(recovery.layout.pins))).items():
        with contextlib.suppress(Damaged, NotFound):
            mark = read_value(plain.repository, Pin, key)
            _, forged = recovery.repository.judged(key)
            if mark.keep and mark.savepoint_id in there and forged is not None:
                found[key] = why
                strange += [mark] if standing_of(forged).weight is Weight.NOTHING else []
    return found, tuple(strange)


def _lost(recovery: RecoveryContext, plain: RecoveryContext) -> dict[str, str]:
    """Records that a savepoint was published of which nothing else is there: why each is not believed, by key."""
    there = {*plain.savepoints.ids(), *plain.safety.ids(), *plain.savepoints.copies()}
    gone = [one for one in plain.savepoints.published() if one not in there]
    return _forged(recovery.repository, [plain.layout.published(one) for one in gone])


def ids_of(keys: Iterable[str]) -> Iterator[str]:
    """The savepoints that these keys of manifests are of."""
    return (one for one in (key.split("/")[2] for key in keys) if is_id(one))
