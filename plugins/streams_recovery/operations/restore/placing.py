"""The source of a restore, and the place of its topics: where the topics of a savepoint go on this cluster, how each is made, and what a job that loads records
is told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from streams_recovery.core.application_kind import Dialect
from streams_recovery.core.errors import Refused
from streams_recovery.core.jobs.spec import PartitionToLoad, RestoreSpec, RowCut
from streams_recovery.core.kafka_types import CommittedOffset, TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.offsets.strategies import EXACT, OffsetStrategy
from streams_recovery.core.repository.manifest import Manifest, PartitionImage, TopicImage
from streams_recovery.core.repository.ranges import Ranges
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.repository.survival import ARCHIVE_OUTPUTS, empty_outputs
from streams_recovery.core.restore.failover import SiteMove
from streams_recovery.core.restore.outputs_behind import in_state
from streams_recovery.core.restore.parts import RestorePart
from streams_recovery.core.restore.parts.savepoint import SavepointPart
from streams_recovery.core.restore.planned import PartitionLoad, TopicToCreate
from streams_recovery.core.restore.point_in_time import CUT_ROLES, LaterTopic, LogCut, relevant_gaps
from streams_recovery.core.restore.rebuild import Placed, Target, target_name
from streams_recovery.core.restore.topic_settings import TargetSettings, agreed, restored_overrides, to_ask
from streams_recovery.core.topic_holds.compaction_guard import owner_config
from streams_recovery.core.topic_holds.log import restore_hold
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import Locked


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSource:
    """The state and the input that a restore begins from."""

    # The savepoint to place and load. Where the inputs end at a moment, they and the globals are those of the archive.
    manifest: Manifest
    part: RestorePart = field(default_factory=SavepointPart)
    # By their names in the savepoint, which rows of inputs and globals belong to the moment.
    cuts: Mapping[TopicPartition, LogCut] = field(default_factory=dict)
    # Where the inputs go on.
    offsets: OffsetStrategy = EXACT
    # The instances at the site that is left.
    running: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    # Inputs that are there and are made again all the same, beside those that are cut.
    again: Collection[str] = ()
    # Topics that get another number of partitions.
    renumbered: Collection[str] = ()
    # Internal topics that a version has made which is taken back.
    deletes: tuple[str, ...] = ()
    # The last entry of the continuous archive that counts, None for the newest one, 0 for none.
    archive_entry: int | None = None
    # True where the state comes back as well: then the application writes again what the state has not caused, and outputs are loaded without that.
    with_state: bool = False

    @property
    def proven_inputs(self) -> Collection[str]:
        """Inputs that stay, and of which the same records were proven by now."""
        return ()

    def later(self) -> tuple[LaterTopic, ...]:
        """Records that are taken out of inputs in place."""
        return ()

    def staying(
        self, _recovery: RecoveryContext, present: Mapping[str, TopicDescription], _later: Iterable[str]
    ) -> Mapping[str, TopicDescription]:
        """Topics that are there and are not made again, inputs and outputs only. ``_later`` names the inputs that are made again."""
        return {name: found for name, found in present.items() if name not in self.again}

    def refuse_placed(self, _placed: Sequence[Placed]) -> None:
        """Raise ``Refused`` for topics in the wrong place."""
        return

    def refuse_joined(self, _joined: Iterable[TopicPartition]) -> None:
        """Raise ``Refused`` for inputs that the savepoint does not have, where these cannot be read."""
        return

    def warnings_about(self, placed: Sequence[Placed]) -> tuple[str, ...]:
        """Warnings about the topics, such as outputs that are gone and come back empty."""
        found = empty_outputs({one.name: one.image for one in placed if one.made})
        return tuple(f"{text}. {ARCHIVE_OUTPUTS}" for text in found)

    def whole_part(
        self, _recovery: RecoveryContext, _present: Mapping[str, TopicDescription], _later: tuple[LaterTopic, ...]
    ) -> RestorePart:
        """The part of the plan, after the last look."""
        return self.part


def empty_source(topic: TopicImage) -> TopicImage:
    """An output without its earlier results: the application is about to process their input again, or they do not belong to the request."""
    return replace(topic, archived=False, partitions=tuple(replace(image, ranges=Ranges(), gaps=()) for image in topic.partitions))


def restored_state(base: Manifest, archive: Manifest, cuts: Mapping[TopicPartition, LogCut], auto_offset_reset: str) -> Manifest:
    """The base, with inputs and globals as the archive has them and read as far as the base had read them, and with outputs that begin empty."""
    later = {topic.name: topic for topic in archive.topics if topic.role in CUT_ROLES and topic.archived}

    def image_of(name: str, before: PartitionImage) -> PartitionImage:
        found = next(image for image in later[name].partitions if image.partition == before.partition)
        committed = before.committed
        # It had begun at the end of its log. Without an offset it would begin at the archive's end, and skip what lies between.
        if committed is None and auto_offset_reset == "latest":
            committed = CommittedOffset(offset=before.end, metadata="", leader_epoch=None)
        return replace(found, committed=committed, gaps=relevant_gaps(found, cuts[TopicPartition(name, before.partition)].rows))

    def later_image(topic: TopicImage) -> TopicImage:
        if topic.role is TopicRole.OUTPUT:
            return empty_source(topic)
        found = later.get(topic.name)
        if found is None or (found.topic_id, len(found.partitions)) != (topic.topic_id, len(topic.partitions)):
            return topic
        return replace(topic, archived=True, partitions=tuple(image_of(topic.name, image) for image in topic.partitions))

    return replace(base, topics=tuple(later_image(topic) for topic in base.topics))


def present_topics(recovery: RecoveryContext, manifest: Manifest, mine: Mapping[str, set[str]]) -> dict[str, TopicDescription]:
    """The savepoint's topics that are there, by their names here, without those whose ids are ``mine``."""
    topic_map, dialect = recovery.config.restore.topic_map, recovery.config.dialect
    names = [target_name(topic, manifest, recovery.application_id, topic_map, dialect) for topic in manifest.topics]
    existing = recovery.cluster.describe_topics(names)
    return {name: found for name, found in existing.items() if found.topic_id not in mine.get(name, set())}


def target_of(
    recovery: RecoveryContext,
    manifest: Manifest,
    present: Mapping[str, TopicDescription],
    filled: Mapping[str, int],
    move: SiteMove | None = None,
) -> Target:
    """The cluster as the topics of ``manifest`` are placed on it: ``present`` are there and stay unless they are replaced, and ``filled`` says how many offsets
    of each hold something. ``move`` has what is known of inputs at another site.
    """
    topic_map = recovery.config.restore.topic_map
    topics = recovery.config.topics.on(topic_map.get(topic.name, topic.name) for topic in manifest.topics if topic.role is TopicRole.INPUT)
    return Target(
        application_id=recovery.application_id,
        dialect=recovery.config.dialect,
        cluster_id=recovery.cluster.cluster_id(),
        existing=present,
        filled=filled,
        topic_map=topic_map,
        declared={TopicRole.INPUT: topics.inputs, TopicRole.OUTPUT: topics.outputs, TopicRole.GLOBAL: topics.globals},
        proven=() if move is None else move.kept,
        contained=() if move is None else {tp.topic for tp in move.replaced},
    )


def target_settings(recovery: RecoveryContext, placed: Iterable[Placed]) -> TargetSettings:
    """The settings of this cluster, as far as topics that are made need to know them."""
    placed = tuple(placed)
    try:
        defaults = agreed(recovery.cluster.topic_defaults()) if placed else {}
    except Refused:
        # A principal that may not describe the brokers sets all settings that were in force.
        defaults = {}
    asked = to_ask((one.image for one in placed), defaults)
    replicas = max((one.image.replication_factor for one in placed), default=1)
    refused = recovery.cluster.refused_settings(placed[0].name, asked, replicas=replicas) if asked else {}
    return TargetSettings(refused={one: refused[one] for one in asked if one in refused}, defaults=defaults)


def same_input(placed: Placed, existing: TopicDescription | None) -> bool:
    """True for an input that is there still, and is cut."""
    return existing is not None and placed.image.role is TopicRole.INPUT and existing.topic_id == placed.image.topic_id


def topic_to_create(
    placed: Placed, existing: TopicDescription | None, source: RestoreSource, dialect: Dialect, target: TargetSettings
) -> TopicToCreate:
    """The topic as it is made, with its earlier settings, and until it is loaded with settings under which nothing expires."""
    topic = placed.image
    final = restored_overrides(topic, target) | source.part.settings(topic.role)
    if existing is not None and same_input(placed, existing):
        # The owner's settings on the topic, all of which it gets again.
        final = owner_config(existing.config)
    final = {**dialect.topic_settings, **final}
    return TopicToCreate(
        name=placed.name,
        role=topic.role,
        replication_factor=topic.replication_factor,
        held_config=restore_hold(final),
        final_config=final,
        replaces=existing.topic_id if existing else None,
        partitions=tuple(partition_load(topic, image, source) for image in topic.partitions),
    )


def partition_load(topic: TopicImage, image: PartitionImage, source: RestoreSource) -> PartitionLoad:
    """The files of one partition, and which of their rows are taken: of an output that is loaded with its state those that this has caused."""
    cut = source.cuts.get(TopicPartition(topic.name, image.partition))
    files = SegmentFiles.of(image.files() if cut is None else cut.files)
    compacted = any(copied.compacted for copied in image.ranges if copied.file)
    if cut is not None:
        rows: RowCut | None = cut.rows
    else:
        rows = in_state(source.manifest, topic, image) if source.with_state else None
    return PartitionLoad(partition=image.partition, files=files, cut=rows, compacted=compacted)


def restore_spec(
    recovery: RecoveryContext, ticket: Locked, partitions: tuple[PartitionToLoad, ...], *, read_back: bool = True
) -> RestoreSpec:
    """Load these partitions, as long as the ticket's lock holds, and read them back."""
    limits = recovery.config.restore.throttle
    limited = limits.records_per_second is not None or limits.bytes_per_second is not None
    return RestoreSpec(
        application_id=recovery.application_id,
        partitions=partitions,
        lock=ticket.lock,
        throttle=limits if limited else None,
        stall_seconds=float(recovery.config.restore.stall_timeout_seconds),
        read_back=read_back,
    )
