"""Where the cluster has lost the input: what is archived behind a savepoint, and what a rebuild takes from both, topics and no state."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from streams_recovery.core.archive.log import goes_into_archive
from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.ids import LATEST
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.repository.survival import archive_begins
from streams_recovery.core.restore.input_offsets import input_images
from streams_recovery.core.restore.placement import place
from streams_recovery.core.restore.plan import ArchivedInput, TopicToCreate
from streams_recovery.core.restore.request import OutputPolicy
from streams_recovery.operations.archive import archived_behind
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.placing import present_topics, target_of, topic_to_create
from streams_recovery.operations.restore.savepoint_checks import check_files, check_published, pieces_of
from streams_recovery.operations.restore.source import RestoreSource, empty_source
from streams_recovery.operations.restore.target_checks import spans


@dataclass(frozen=True, slots=True, kw_only=True)
class BehindSavepoint:
    """A savepoint, read with its ranges, whose inputs and globals go on with what is ``archived`` behind it; None where nothing is. ``left`` says why what
    there is is not used.
    """

    manifest: Manifest
    archived: ArchivedInput | None = None
    left: tuple[str, ...] = ()


def archived_input(recovery: RecoveryContext, manifest: Manifest, gone: Collection[str], *, upto: int | None) -> BehindSavepoint:
    """What is archived behind ``manifest`` of the topics that are ``gone``, by their names in it; ``upto`` as for ``read_archive``. Raises ``Damaged`` where
    its files are not all there.
    """
    try:
        found = archived_behind(recovery, manifest, upto=upto, topics=gone) if gone else None
    except Damaged as error:
        # What is in the savepoint can be brought back all the same. Whoever approves knows what is missing.
        why = f"input that was archived behind the savepoint is not used, because the archive cannot be read: {error.reason}"
        return BehindSavepoint(manifest=manifest, left=(why,))
    if found is None:
        return BehindSavepoint(manifest=manifest)
    if found.left:
        newest = recovery.savepoints_of(manifest.application_id).ids()[-1:] == [manifest.savepoint_id]
        left = tuple(f"input that was archived behind the savepoint is not used: {why}" for why in found.left if newest)
        return BehindSavepoint(manifest=manifest, left=left)
    check_files(recovery, found.manifest, pieces_of(topic for topic in found.manifest.topics if topic.name in gone))
    archived = ArchivedInput(entry=found.number, safe_at=found.recorded_safe_at, records=found.records)
    return BehindSavepoint(manifest=found.manifest, archived=archived)


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """Inputs, globals and outputs that the cluster has lost, as they are made from a savepoint and what is archived ``behind`` it. ``begins`` has for each
    partition of the inputs among them the offset, in the log that is gone, from which all its records are there.
    """

    behind: BehindSavepoint
    create: tuple[TopicToCreate, ...]
    begins: Mapping[TopicPartition, int]

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """Where the inputs among them end once they are loaded."""
        rows = {TopicPartition(step.name, part.partition): part.rows for step in self.create for part in step.partitions}
        return {tp: rows[tp] for tp in self.begins}


def lost_input(recovery: RecoveryContext, savepoint: str, outputs: OutputPolicy, *, upto: int | None) -> Archived:
    """What a rebuild has to make from a savepoint, an id or ``latest``, and the archive; ``upto`` as for ``read_archive``. Raises what ``choose_archive`` and
    ``archived_input`` do.
    """
    manifest = choose_archive(recovery, savepoint, outputs)
    present = present_topics(recovery, manifest, {})
    target = target_of(recovery, manifest, present, spans(recovery, present))
    gone = {one.image.name for one in place(manifest, target) if one.made and goes_into_archive(one.image)}
    behind = archived_input(recovery, manifest, gone, upto=upto)
    placed = [one for one in place(behind.manifest, target) if one.made]
    source = RestoreSource(manifest=behind.manifest)
    return Archived(
        behind=behind,
        create=tuple(topic_to_create(one, present.get(one.name), source, recovery.config.dialect) for one in placed),
        begins={tp: archive_begins(image) for tp, (_, image) in input_images(placed).items()},
    )


def choose_archive(recovery: RecoveryContext, savepoint: str, outputs: OutputPolicy) -> Manifest:
    """The savepoint whose inputs, globals and outputs a rebuild begins with, without its state; outputs that are to be empty are. Its label says nothing
    about these. Raises ``NotFound``, and ``Damaged`` as ``choose`` does.
    """
    store = recovery.savepoints
    manifest = store.latest() if savepoint == LATEST else store.read(savepoint)
    if manifest is None:
        raise NotFound(
            f"{recovery.application_id} has no savepoint in {recovery.repository.location}",
            next_step="rebuild from inputs that are there, or check the storage section of the configuration",
            application_id=recovery.application_id,
        )
    check_published(recovery, store, manifest.savepoint_id)
    empty = outputs is OutputPolicy.RECREATE
    topics = tuple(
        empty_source(topic) if topic.role is TopicRole.OUTPUT and empty else topic for topic in manifest.topics if not topic.role.internal
    )
    check_files(recovery, manifest, pieces_of(topics))
    return replace(manifest, topics=topics)
