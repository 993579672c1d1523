"""Where the topics of a savepoint go on this cluster, and how each is made."""

from __future__ import annotations

from collections.abc import Mapping

from streams_recovery.core.application_kind import Dialect
from streams_recovery.core.kafka_types import TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import Manifest, PartitionImage
from streams_recovery.core.repository.segment_files import SegmentFiles
from streams_recovery.core.restore.failover import SiteMove
from streams_recovery.core.restore.placement import Placed, Target, target_name
from streams_recovery.core.restore.plan import PartitionLoad, TopicToCreate
from streams_recovery.core.topic_holds.compaction_guard import owner_config
from streams_recovery.core.topic_holds.log import restore_hold
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.source import RestoreSource

# Settings a newer broker may not know or that belong to the place, not to the data, are left to the cluster's defaults.
RESTORED_SETTINGS = frozenset(
    {
        "cleanup.policy",
        "compression.type",
        "delete.retention.ms",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.ms",
    }
)


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
    """What the topics of ``manifest`` are placed on: ``present`` are there and stay unless they are replaced, and ``filled`` says how many offsets of each
    hold something. ``move`` has what is known of inputs at another site.
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


def topic_to_create(placed: Placed, existing: TopicDescription | None, source: RestoreSource, dialect: Dialect) -> TopicToCreate:
    """How one is made. It gets the settings that it had, and until it is loaded those that let nothing expire."""
    topic = placed.image
    final = {key: value for key, value in topic.config.items() if key in RESTORED_SETTINGS}
    if source.point is not None and source.point.slice is not None and topic.role is TopicRole.OUTPUT:
        # Results of the past would expire as soon as they are written.
        final |= {"retention.ms": "-1", "retention.bytes": "-1"}
    if existing is not None and topic.role is TopicRole.INPUT and existing.topic_id == topic.topic_id:
        # What its owner has set on it, all of which it gets again.
        final = owner_config(existing.config)
    final = {**dialect.topic_settings, **final}
    return TopicToCreate(
        name=placed.name,
        role=topic.role,
        replication_factor=topic.replication_factor,
        held_config=restore_hold(final),
        final_config=final,
        replaces=existing.topic_id if existing else None,
        partitions=tuple(partition_load(topic.name, image, source) for image in topic.partitions),
    )


def partition_load(topic: str, image: PartitionImage, source: RestoreSource) -> PartitionLoad:
    """The files of one partition, and which of their rows are taken."""
    cut = source.cuts.get(TopicPartition(topic, image.partition))
    files = SegmentFiles.of(image.files() if cut is None else cut.files)
    compacted = any(copied.compacted for copied in image.ranges if copied.file)
    return PartitionLoad(partition=image.partition, files=files, cut=None if cut is None else cut.rows, compacted=compacted)
