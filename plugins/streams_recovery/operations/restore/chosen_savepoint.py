"""Which savepoint a restore brings back, and whether what it asks for was confirmed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace

from streams_recovery.core.errors import Damaged, NotExact, NotFound, Refused
from streams_recovery.core.kafka_types import Consistency, Profile, TopicPartition
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.manifest import CopiedRange, Manifest, TopicImage
from streams_recovery.core.restore.plan import RestorePlan, RestoreRequest, SafetyPolicy
from streams_recovery.operations.context import RecoveryContext

BEFORE = "before:"
LATEST = "latest"
_NAMED = 5


def choose(recovery: RecoveryContext, request: RestoreRequest) -> Manifest:
    """The savepoint that is asked for. Raises ``NotFound``, ``Refused`` for one without state, ``NotExact`` for one whose label was not allowed,
    and ``Damaged`` when its manifest is not the one that was published, or a file that is needed is missing or has another size.
    """
    manifest = _find(recovery, request)
    if manifest.profile is Profile.MINIMAL:
        raise Refused(
            f"savepoint {manifest.savepoint_id} is minimal: it has offsets and settings, but no state to restore",
            next_step="choose one with profile full (`streams-recovery savepoints list` shows it); when there is none, rebuild the state from input, which "
            f"`streams-recovery rebuild --inputs-from {manifest.savepoint_id}` brings back where it is gone",
            savepoint=manifest.savepoint_id,
        )
    if manifest.consistency is Consistency.AHEAD and not request.allow_ahead:
        raise NotExact(
            f"savepoint {manifest.savepoint_id} is `ahead`: {'; '.join(manifest.proof.reasons)}",
            next_step="choose an exact savepoint, or set allow_ahead and accept that some input is counted twice",
            savepoint=manifest.savepoint_id,
        )
    if manifest.consistency is Consistency.DAMAGED and not request.allow_damaged:
        raise NotExact(
            f"savepoint {manifest.savepoint_id} is `damaged`: {'; '.join(manifest.proof.reasons)}",
            next_step="choose another savepoint, or set allow_damaged: what was gone then will be gone again, and its stores begin empty",
            savepoint=manifest.savepoint_id,
        )
    check_published(recovery, request, manifest.savepoint_id)
    check_files(recovery, manifest, pieces_of(topic for topic in manifest.topics if topic.role.internal))
    return manifest


def _find(recovery: RecoveryContext, request: RestoreRequest) -> Manifest:
    if request.savepoint.startswith(BEFORE):
        return _before(recovery, request.savepoint.removeprefix(BEFORE))
    store = recovery.savepoints_of(request.source or recovery.application_id)
    if request.savepoint != LATEST:
        return store.read(request.savepoint)
    label = None if request.allow_ahead else Consistency.EXACT
    newest = store.latest(label, Profile.FULL) or store.latest(label)
    if newest is None:
        raise NotFound(
            f"{request.source or recovery.application_id} has no {'' if request.allow_ahead else 'exact '}savepoint in {recovery.repository.location}",
            next_step="take one first, or check the storage section of the configuration",
            application_id=recovery.application_id,
        )
    return newest


def pinned(recovery: RecoveryContext, request: RestoreRequest, planned: RestorePlan) -> RestoreRequest:
    """The request with the savepoint that was planned in place of ``latest``, of which there may be a newer one by now: a restore's own safety
    savepoint is one.
    """
    if planned.savepoint_id is None:
        return request
    if request.savepoint == LATEST:
        return replace(request, savepoint=planned.savepoint_id)
    if request.savepoint == BEFORE + LATEST:
        return replace(request, savepoint=BEFORE + recovery.safety.read(planned.savepoint_id).provenance.run_id)
    return request


def _before(recovery: RecoveryContext, restore_id: str) -> Manifest:
    if restore_id == LATEST:
        found = recovery.safety.newest()
    else:
        saved = recovery.safety.published_by_run(restore_id)
        found = None if saved is None else recovery.safety.read(saved)
    if found is None:
        known = ", ".join(recovery.safety.read(one).provenance.run_id for one in recovery.safety.ids()[-5:]) or "none"
        raise NotFound(
            f"no safety savepoint was taken before restore {restore_id} of {recovery.application_id}; restores that have one: {known}",
            next_step="choose one of those; a restore that found nothing to save, was told to skip it, or followed one that failed has none",
            restore=restore_id,
        )
    return found


def check_published(recovery: RecoveryContext, request: RestoreRequest, savepoint_id: str) -> None:
    """Raise ``Damaged`` when the manifest is not the one that was published."""
    store = recovery.safety if request.savepoint.startswith(BEFORE) else recovery.savepoints_of(request.source or recovery.application_id)
    # Savepoints of releases that kept no record of their publication have nothing to be compared with.
    with contextlib.suppress(NotFound):
        if store.altered(savepoint_id):
            raise Damaged(
                f"the manifest of savepoint {savepoint_id} in {recovery.repository.location} is not the one that was published",
                next_step="nothing was changed; find out who wrote it, and choose another savepoint",
                savepoint=savepoint_id,
            )


def pieces_of(topics: Iterable[TopicImage]) -> list[tuple[TopicPartition, CopiedRange]]:
    """Every range of these topics."""
    return [
        (TopicPartition(topic.name, image.partition), piece) for topic in topics for image in topic.partitions for piece in image.ranges
    ]


def check_files(recovery: RecoveryContext, manifest: Manifest, wanted: Iterable[tuple[TopicPartition, CopiedRange]]) -> None:
    """Raise ``Damaged`` naming the files of these ranges that are missing or have another size."""
    # Sizes only: what is in a file is checked before its first row is used.
    sizes = recovery.repository.sizes(Layout(manifest.application_id).segments)
    damaged = [
        f"{piece.file.key} {'is missing' if (size := sizes.get(piece.file.key)) is None else f'has {size} bytes, not {piece.file.bytes}'} "
        f"({tp}, offsets {piece.start} to {piece.end - 1})"
        for tp, piece in wanted
        if piece.file is not None and sizes.get(piece.file.key) != piece.file.bytes
    ]
    if damaged:
        raise Damaged(
            f"savepoint {manifest.savepoint_id} is not whole, {len(damaged)} of its files cannot be used: {'; '.join(damaged[:_NAMED])}",
            next_step="choose another savepoint with --savepoint, or bring these files back from a copy of the repository; "
            "`streams-recovery verify` says which savepoints are whole",
            savepoint=manifest.savepoint_id,
            files=damaged,
        )


def check_confirmed(recovery: RecoveryContext, request: RestoreRequest) -> None:
    """Raise ``Refused`` unless a request that gives up a safeguard has the application id typed with it."""
    given_up = (["replaces running state"] if request.replace else []) + (
        [f"has safety {request.safety}"] if request.safety is not SafetyPolicy.REQUIRED else []
    )
    if given_up and request.confirm != recovery.application_id:
        raise Refused(
            f"a restore that {' and '.join(given_up)} needs the application id {recovery.application_id} typed to confirm it, not {request.confirm!r}",
            next_step="nothing was changed; type it exactly, or leave these options as they are by default",
            application_id=recovery.application_id,
        )
