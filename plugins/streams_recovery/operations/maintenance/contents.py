"""What a repository holds, as retention has to know it."""

from __future__ import annotations

from dataclasses import dataclass

from streams_recovery.core.errors import Damaged
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.repository.retention import HeldSavepoint, Pin, StoredFile
from streams_recovery.core.savepoint.survival import survives_cluster_loss
from streams_recovery.operations import pins
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.maintenance.records import lost
from streams_recovery.operations.unfinished import needed_savepoints
from streams_recovery.storage.savepoints import SavepointStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A savepoint that exists no more. ``at`` is when it was last about to expire; ``copies`` are the keys of its manifest's copies."""

    at: int
    manifest: Manifest
    copies: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """Savepoints that can be read, safety savepoints, expired ones of both, segments, and the ids whose manifest cannot be read or is lost.
    ``in_use`` has those that an unfinished restore needs: the one it brings back, and the one that leads back from it.
    """

    savepoints: tuple[Manifest, ...]
    safety: tuple[Manifest, ...]
    expired: dict[str, Expired]
    segments: tuple[StoredFile, ...]
    unreadable: tuple[str, ...]
    marks: tuple[Pin, ...]
    in_use: frozenset[str]

    def held(self) -> list[HeldSavepoint]:
        """The savepoints as retention sees them: one is whole when every file it names is there with its size."""
        sizes = {file.key: file.bytes for file in self.segments}
        return [
            HeldSavepoint(
                savepoint_id=manifest.savepoint_id,
                captured_at=manifest.captured_at,
                consistency=manifest.consistency,
                whole=manifest.whole(sizes),
                in_use=manifest.savepoint_id in self.in_use,
                replaces=manifest.replaces,
                profile=manifest.profile,
                survives=survives_cluster_loss(manifest),
            )
            for manifest in self.savepoints
        ]


def holdings(recovery: RecoveryContext) -> Holdings:
    """Everything at this moment. Damage is noted, not raised."""
    savepoints, unreadable = _readable(recovery.savepoints)
    safety, unreadable_safety = _readable(recovery.safety)
    unreadable += unreadable_safety
    expired, torn = _expired(recovery, {*(manifest.savepoint_id for manifest in (*savepoints, *safety)), *unreadable})
    # What a lost manifest named looks as if nobody needed it.
    gone = [f"{savepoint_id} (lost)" for savepoint_id in lost(recovery)]
    return Holdings(
        savepoints=tuple(savepoints),
        safety=tuple(safety),
        expired=expired,
        segments=tuple(recovery.repository.listed(recovery.layout.segments)),
        unreadable=(*unreadable, *torn, *gone),
        marks=tuple(pins.pin_log(recovery).read_all()),
        in_use=needed_savepoints(recovery),
    )


def _readable(store: SavepointStore) -> tuple[list[Manifest], list[str]]:
    found, unreadable = [], []
    for savepoint_id in store.ids():
        try:
            found.append(store.read(savepoint_id))
        except Damaged:
            unreadable.append(savepoint_id)
    return found, unreadable


def _expired(recovery: RecoveryContext, alive: set[str]) -> tuple[dict[str, Expired], list[str]]:
    copies: dict[str, list[str]] = {}
    for key in recovery.repository.keys(recovery.layout.retired_prefix):
        savepoint_id = key.removeprefix(recovery.layout.retired_prefix).split("/")[0]
        if savepoint_id not in alive and recovery.layout.retired_at(key) is not None:
            copies.setdefault(savepoint_id, []).append(key)
    found, unreadable = {}, []
    for savepoint_id, keys in copies.items():
        newest = max(keys)
        try:
            manifest = recovery.savepoints.read_retired(savepoint_id, newest)
        except Damaged:
            unreadable.append(f"{savepoint_id} (expired)")
            continue
        found[savepoint_id] = Expired(at=recovery.layout.retired_at(newest) or 0, manifest=manifest, copies=tuple(keys))
    return found, unreadable
