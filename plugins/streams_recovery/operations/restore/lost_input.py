"""What a rebuild takes from a savepoint where the cluster has lost the input: topics, and no state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from streams_recovery.core.errors import NotFound
from streams_recovery.core.ids import LATEST
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.repository.survival import archive_begins
from streams_recovery.core.restore.input_offsets import input_images
from streams_recovery.core.restore.placement import place
from streams_recovery.core.restore.plan import TopicToCreate
from streams_recovery.core.restore.request import OutputPolicy
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.placing import present_topics, target_of, topic_to_create
from streams_recovery.operations.restore.savepoint_checks import check_files, check_published, pieces_of
from streams_recovery.operations.restore.source import RestoreSource, empty_source
from streams_recovery.operations.restore.target_checks import spans


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """Inputs, globals and outputs that the cluster has lost, as they are made from a savepoint. ``begins`` has for each partition of the inputs among
    them the offset, in the log that is gone, from which all its records are there.
    """

    manifest: Manifest
    create: tuple[TopicToCreate, ...]
    begins: Mapping[TopicPartition, int]

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """Where the inputs among them end once they are loaded."""
        rows = {TopicPartition(step.name, part.partition): part.rows for step in self.create for part in step.partitions}
        return {tp: rows[tp] for tp in self.begins}


def lost_input(recovery: RecoveryContext, savepoint: str, outputs: OutputPolicy) -> Archived:
    """What a rebuild has to make from a savepoint, an id or ``latest``. Raises what ``choose_archive`` does."""
    manifest = choose_archive(recovery, savepoint, outputs)
    present = present_topics(recovery, manifest, {})
    placed = [one for one in place(manifest, target_of(recovery, manifest, present, spans(recovery, present))) if one.made]
    source = RestoreSource(manifest=manifest)
    return Archived(
        manifest=manifest,
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
