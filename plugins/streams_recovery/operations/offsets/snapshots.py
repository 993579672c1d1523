"""Offset snapshots in the repository: taken from the cluster, kept beside the savepoints, found again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from streams_recovery.core.codec import MOST_BYTES
from streams_recovery.core.errors import Damaged, NotFound, RecoveryError
from streams_recovery.core.names import matches_any
from streams_recovery.core.offsets.snapshot import GroupOffsets, OffsetSnapshot
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.words import in_order, is_id
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.append_log import AppendLog

NOTE = "group-offsets"


def included_groups(recovery: RecoveryContext) -> tuple[str, ...]:
    """Other groups of the cluster that ``groups.include`` names. Share groups have no committed offsets."""
    globs = recovery.config.groups.include
    if not globs:
        return ()
    found = recovery.cluster.groups()
    chosen = (name for name, kind in found.items() if kind != "share" and matches_any(name, globs))
    return tuple(sorted(name for name in chosen if name != recovery.application_id))


def take(
    recovery: RecoveryContext,
    groups: Collection[str],
    *,
    snapshot_id: str,
    topics: Collection[str] | None,
    savepoint_id: str | None = None,
    requested_by: str,
    reason: str,
    without_offsets: bool = False,
) -> OffsetSnapshot:
    """The present offsets of these groups, on ``topics`` or on all of theirs. A group without offsets there is left out, and so is a topic, unless
    ``without_offsets`` are wanted too: then going back deletes offsets that are set there later. A group that cannot be read is noted with the reason: it
    belongs to another application, and must not block a savepoint.
    """
    found: list[GroupOffsets] = []
    unread: dict[str, str] = {}
    taken_at = recovery.clock()
    for group_id in groups:
        try:
            read = _read(recovery, group_id, topics, without_offsets=without_offsets)
        except RecoveryError as error:
            unread[group_id] = error.reason
            continue
        found += [read] if read else []
    return OffsetSnapshot(
        format_version=2,
        snapshot_id=snapshot_id,
        application_id=recovery.application_id,
        cluster_id=recovery.cluster.cluster_id(),
        taken_at=taken_at,
        savepoint_id=savepoint_id,
        requested_by=requested_by,
        reason=reason,
        groups=tuple(found),
        unread=unread,
    )


def _read(recovery: RecoveryContext, group_id: str, topics: Collection[str] | None, *, without_offsets: bool) -> GroupOffsets | None:
    committed = [tp for tp in recovery.groups.committed_partitions(group_id) if topics is None or tp.topic in topics]
    described = recovery.cluster.describe_topics({tp.topic for tp in committed} | {*(topics or () if without_offsets else ())})
    partitions = [tp for tp in committed if tp.topic in described]
    if not described or not (partitions or without_offsets):
        return None
    offsets = recovery.groups.committed(group_id, partitions) if partitions else {}
    return GroupOffsets(
        group_id=group_id,
        kind=recovery.groups.describe(group_id).kind,
        topics={name: found.topic_id for name, found in sorted(described.items())},
        # A leader's epoch means nothing in another log.
        offsets={tp: replace(found, leader_epoch=None) for tp, found in offsets.items() if found is not None},
    )


def keep(recovery: RecoveryContext, snapshot: OffsetSnapshot) -> None:
    """Store a snapshot. Storing it again adds nothing. Raises ``Damaged`` when another snapshot of its id is there: the first one counts, so no later entry
    changes a snapshot.
    """
    log = _log(recovery, snapshot.snapshot_id)
    first = log.first()
    if first is None:
        log.append(snapshot)
        first = log.first()
    if first != snapshot:
        raise Damaged(
            f"another offset snapshot {snapshot.snapshot_id} of {recovery.application_id} is there already",
            next_step="find out who wrote it, and repeat the run: a new run has an id of its own",
            snapshot=snapshot.snapshot_id,
        )


def find(recovery: RecoveryContext, snapshot_id: str) -> OffsetSnapshot:
    """The snapshot of this id. Raises ``NotFound`` naming the newest ones there are, and ``Damaged``."""
    found = _log(recovery, snapshot_id).first()
    if found is None:
        known = ", ".join(ids(recovery)[-5:]) or "none"
        raise NotFound(
            f"there is no offset snapshot {snapshot_id} of {recovery.application_id} in {recovery.repository.location}; newest: {known}",
            next_step="choose one of those, or take one",
            snapshot=snapshot_id,
        )
    if (found.snapshot_id, found.application_id) != (snapshot_id, recovery.application_id):
        raise Damaged(
            f"offset snapshot {snapshot_id} holds {found.snapshot_id} of {found.application_id}",
            next_step="snapshots were moved or exchanged; choose another one and find out who did it",
            snapshot=snapshot_id,
        )
    return found


def ids(recovery: RecoveryContext) -> list[str]:
    """Ids of all snapshots, newest last."""
    keys = recovery.repository.keys(recovery.layout.offset_snapshots)
    found = {part for key in keys if is_id(part := key.removeprefix(recovery.layout.offset_snapshots).split("/")[0])}
    return in_order(found, recovery.clock())


def note_with_savepoint(recovery: RecoveryContext, savepoint_id: str, topics: Collection[str]) -> ArtifactRef | None:
    """Leave a note of what the included groups have committed on the application's topics, for ``keep_with_savepoint``. None when no group is included."""
    if not recovery.config.groups.include:
        return None
    snapshot = take(
        recovery,
        included_groups(recovery),
        snapshot_id=savepoint_id,
        topics=topics,
        savepoint_id=savepoint_id,
        requested_by="savepoint",
        reason=f"with savepoint {savepoint_id}",
    )
    return recovery.artifacts.write(savepoint_id, NOTE, snapshot)


def keep_with_savepoint(recovery: RecoveryContext, noted: ArtifactRef | None) -> None:
    """Keep such a note, if there is one, before the savepoint exists."""
    if noted is not None:
        keep(recovery, recovery.artifacts.read(OffsetSnapshot, noted))


def keep_with_another(recovery: RecoveryContext, savepoint_id: str, another: str) -> None:
    """Keep the offsets that were kept with a savepoint also with ``another`` one that replaces it, before that exists. Raises ``Damaged``."""
    if _log(recovery, savepoint_id).first() is not None:
        keep(recovery, replace(find(recovery, savepoint_id), snapshot_id=another, savepoint_id=another))


def _log(recovery: RecoveryContext, snapshot_id: str) -> AppendLog[OffsetSnapshot]:
    return AppendLog(recovery.repository, recovery.layout.offset_snapshot(snapshot_id), OffsetSnapshot, most_bytes=MOST_BYTES)
