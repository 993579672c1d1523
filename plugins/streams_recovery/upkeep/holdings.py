"""What a repository holds, as retention has to know it."""

from __future__ import annotations

from dataclasses import dataclass

from streams_recovery.core.errors import Damaged
from streams_recovery.core.manifest import Manifest
from streams_recovery.core.plan import RestorePlan
from streams_recovery.core.retention import Held, KeepMark, StoredFile
from streams_recovery.storage.numbered import NumberedLog
from streams_recovery.unfinished import unfinished_restore
from streams_recovery.workbench import Workbench


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A savepoint that exists no more. ``at`` is when it was last about to expire; ``copies`` are the keys of its manifest's copies."""

    at: int
    manifest: Manifest
    copies: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """Savepoints that can be read, expired ones, segments, and the ids whose manifest cannot be read. ``in_use`` has a savepoint that an unfinished
    restore needs.
    """

    savepoints: tuple[Manifest, ...]
    expired: dict[str, Expired]
    segments: tuple[StoredFile, ...]
    unreadable: tuple[str, ...]
    marks: tuple[KeepMark, ...]
    in_use: frozenset[str]

    def held(self) -> list[Held]:
        """The savepoints as retention sees them: one is whole when every file it names is there with its size."""
        sizes = {file.key: file.bytes for file in self.segments}
        return [
            Held(
                savepoint_id=manifest.savepoint_id,
                captured_at=manifest.captured_at,
                consistency=manifest.consistency,
                whole=manifest.whole(sizes),
                in_use=manifest.savepoint_id in self.in_use,
            )
            for manifest in self.savepoints
        ]


def holdings(bench: Workbench) -> Holdings:
    """Everything at this moment. Damage is noted, not raised."""
    savepoints, unreadable = [], []
    for savepoint_id in bench.savepoints.ids():
        try:
            savepoints.append(bench.savepoints.read(savepoint_id))
        except Damaged:
            unreadable.append(savepoint_id)
    expired, lost = _expired(bench, {*(manifest.savepoint_id for manifest in savepoints), *unreadable})
    return Holdings(
        savepoints=tuple(savepoints),
        expired=expired,
        segments=tuple(bench.repository.listed(bench.layout.segments)),
        unreadable=(*unreadable, *lost),
        marks=tuple(marks(bench).read_all()),
        in_use=_in_use(bench),
    )


def marks(bench: Workbench) -> NumberedLog[KeepMark]:
    """What people said about single savepoints."""
    return NumberedLog(bench.repository, bench.layout.keeps, KeepMark)


def _expired(bench: Workbench, alive: set[str]) -> tuple[dict[str, Expired], list[str]]:
    copies: dict[str, list[str]] = {}
    for key in bench.repository.keys(bench.layout.retired_prefix):
        savepoint_id = key.removeprefix(bench.layout.retired_prefix).split("/")[0]
        if savepoint_id not in alive and bench.layout.retired_at(key) is not None:
            copies.setdefault(savepoint_id, []).append(key)
    found, unreadable = {}, []
    for savepoint_id, keys in copies.items():
        newest = max(keys)
        try:
            manifest = bench.savepoints.read_retired(savepoint_id, newest)
        except Damaged:
            unreadable.append(f"{savepoint_id} (expired)")
            continue
        found[savepoint_id] = Expired(at=bench.layout.retired_at(newest) or 0, manifest=manifest, copies=tuple(keys))
    return found, unreadable


def _in_use(bench: Workbench) -> frozenset[str]:
    """The savepoint that an unfinished restore needs: the way out leads through it."""
    restore_id = unfinished_restore(bench)
    return frozenset() if restore_id is None else frozenset({bench.notes.read(RestorePlan, restore_id, "restore-plan").savepoint_id})
