"""Whether a savepoint can be restored, and whether what a restore asks for was confirmed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from streams_recovery.core.errors import Damaged, NotExact, NotFound, Refused
from streams_recovery.core.kafka_types import Consistency, Profile, TopicPartition
from streams_recovery.core.next_command import command
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.manifest import CopiedRange, Manifest, SegmentFile, TopicImage
from streams_recovery.core.restore.request import Safeguards, SafetyPolicy
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.savepoints import SavepointStore

_NAMED = 5


def require_state(recovery: RecoveryContext, manifest: Manifest) -> None:
    """Raise ``Refused`` for a savepoint without state."""
    if manifest.profile is Profile.MINIMAL:
        name = recovery.config.name
        others = command("savepoints", "list", name), command("rebuild", name, "--inputs-from", manifest.savepoint_id, "--plan")
        # A safety savepoint, or one of another application, is not listed there, and its inputs cannot be taken.
        commands = others if manifest.savepoint_id in recovery.savepoints.ids() else ()
        raise Refused(
            f"savepoint {manifest.savepoint_id} is minimal: it has offsets and settings, but no state to restore",
            next_step="choose one with profile full; when there is none, rebuild the state from input, which a rebuild with the inputs of this savepoint "
            "brings back where it is gone",
            savepoint=manifest.savepoint_id,
        ).then(*commands)


def require_label(manifest: Manifest, *, allow_ahead: bool, allow_damaged: bool) -> None:
    """Raise ``NotExact`` for a savepoint whose label was not allowed."""
    if manifest.consistency is Consistency.AHEAD and not allow_ahead:
        raise NotExact(
            f"savepoint {manifest.savepoint_id} is `ahead`: {'; '.join(manifest.proof.reasons)}",
            next_step="choose an exact savepoint, or set allow_ahead and accept that some input is counted twice",
            savepoint=manifest.savepoint_id,
        )
    if manifest.consistency is Consistency.DAMAGED and not allow_damaged:
        raise NotExact(
            f"savepoint {manifest.savepoint_id} is `damaged`: {'; '.join(manifest.proof.reasons)}",
            next_step="choose another savepoint, or set allow_damaged: what was gone then will be gone again, and its stores begin empty",
            savepoint=manifest.savepoint_id,
        )


def check_state(recovery: RecoveryContext, store: SavepointStore, manifest: Manifest) -> None:
    """Raise ``Damaged`` when the manifest is not the one that was published, or a file of its internal topics is missing or has another size."""
    check_published(recovery, store, manifest.savepoint_id)
    check_files(recovery, manifest, pieces_of(topic for topic in manifest.topics if topic.role.internal))


def check_published(recovery: RecoveryContext, store: SavepointStore, savepoint_id: str) -> None:
    """Raise ``Damaged`` when the manifest is not the one that was published."""
    # Savepoints of releases that kept no record of their publication have nothing to be compared with.
    with contextlib.suppress(NotFound):
        if store.altered(savepoint_id):
            raise Damaged(
                f"the manifest of savepoint {savepoint_id} in {recovery.repository.location} is not the one that was published",
                next_step="nothing was changed; find out who wrote it, and choose another savepoint",
                savepoint=savepoint_id,
            )


def pieces_of(topics: Iterable[TopicImage]) -> Iterator[tuple[TopicPartition, CopiedRange]]:
    """Every range of these topics."""
    for topic in topics:
        for image in topic.partitions:
            tp = TopicPartition(topic.name, image.partition)
            yield from ((tp, piece) for piece in image.ranges)


def pieces_with(topics: Iterable[TopicImage], files: Iterable[SegmentFile]) -> Iterator[tuple[TopicPartition, CopiedRange]]:
    """The ranges of these topics that have one of ``files``."""
    keys = {file.key for file in files}
    return ((tp, piece) for tp, piece in pieces_of(topics) if piece.file is not None and piece.file.key in keys)


def check_files(recovery: RecoveryContext, manifest: Manifest, wanted: Iterable[tuple[TopicPartition, CopiedRange]]) -> None:
    """Raise ``Damaged`` naming the files of these ranges that are missing or have another size."""
    # Sizes only: what is in a file is checked before its first row is used.
    sizes = recovery.repository.sizes(Layout(manifest.application_id).segments)
    wrong = [(tp, piece, piece.file) for tp, piece in wanted if piece.file is not None and sizes.get(piece.file.key) != piece.file.bytes]
    damaged = [
        f"{file.key} {'is missing' if (size := sizes.get(file.key)) is None else f'has {size} bytes, not {file.bytes}'} "
        f"({tp}, offsets {piece.start} to {piece.end - 1})"
        for tp, piece, file in wrong
    ]
    if damaged:
        raise Damaged(
            f"savepoint {manifest.savepoint_id} is not whole, {len(damaged)} of its files cannot be used: {'; '.join(damaged[:_NAMED])}",
            next_step="choose another savepoint with --savepoint, or bring these files back from a copy of the repository; verifying says which savepoints "
            "are whole",
            savepoint=manifest.savepoint_id,
            files=damaged,
            sizes={file.key: sizes.get(file.key) for _, _, file in wrong},
        ).then(*((command("verify", recovery.config.name),) if manifest.application_id == recovery.application_id else ()))


def check_confirmed(recovery: RecoveryContext, safeguards: Safeguards) -> None:
    """Raise ``Refused`` unless a request that gives up a safeguard has the application id typed with it."""
    given_up = (["replaces running state"] if safeguards.replace else []) + (
        [f"has safety {safeguards.safety}"] if safeguards.safety is not SafetyPolicy.REQUIRED else []
    )
    if given_up and safeguards.confirm != recovery.application_id:
        raise Refused(
            f"a restore that {' and '.join(given_up)} needs the application id {recovery.application_id} typed to confirm it, not {safeguards.confirm!r}",
            next_step="nothing was changed; type it exactly, or leave these options as they are by default",
            application_id=recovery.application_id,
        )
