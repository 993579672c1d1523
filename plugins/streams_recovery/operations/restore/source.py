"""What a restore begins from, once it was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition, TopicRole
from streams_recovery.core.offsets.strategies import EXACT, OffsetStrategy
from streams_recovery.core.repository.manifest import Manifest, PartitionImage, TopicImage
from streams_recovery.core.repository.ranges import Ranges
from streams_recovery.core.restore.failover import SiteMove
from streams_recovery.core.restore.plan import ArchivedInput, PointInTime
from streams_recovery.core.restore.point_in_time import CUT_ROLES, AsOf, LogCut, relevant_gaps
from streams_recovery.core.restore.single_topics import ReadOn, WantedTopics
from streams_recovery.core.rollout.upgrade import VersionChange


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSource:
    """``manifest`` is the savepoint to place and load; with a ``point``, its inputs and globals are those of the archive, and ``cuts`` says which of
    their rows belong to the moment, by the names they have in the savepoint; ``unreadable`` savepoints were passed over, and
    ``passed_archive`` is why the newest archive was. ``offsets`` says where the
    inputs go on. With ``may_move`` the inputs that are there are cut in place, and the groups that it names may be moved; None leaves them as they are.
    ``move`` says to which site the application goes, ``running`` what runs at the one that it leaves, and ``warnings`` what to tell of that.
    ``deletes`` are internal topics that a version has made which is taken back. ``archive_entry`` is the last entry of the continuous archive that counts, None
    for the newest one, 0 for none; ``archived`` is what was found in it already.
    """

    manifest: Manifest
    cuts: Mapping[TopicPartition, LogCut] = field(default_factory=dict)
    point: PointInTime | None = None
    unreadable: tuple[str, ...] = ()
    passed_archive: str = ""
    offsets: OffsetStrategy = EXACT
    may_move: tuple[str, ...] | None = None
    move: SiteMove | None = None
    running: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    deletes: tuple[str, ...] = ()
    archive_entry: int | None = None
    archived: ArchivedInput | None = None

    @property
    def in_place(self) -> bool:
        """True when inputs that are there are cut."""
        return self.may_move is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsSource:
    """Single topics to bring back: ``images`` are what the savepoint ``manifest`` has of them, and ``cuts`` say which of their rows belong to ``as_of``,
    by the names they have there. Without a moment there are none. ``unreadable`` savepoints are newer, and were passed over.
    """

    manifest: Manifest
    images: tuple[TopicImage, ...]
    wanted: WantedTopics
    as_of: AsOf | None
    cuts: Mapping[TopicPartition, LogCut]
    read_on: ReadOn
    unreadable: tuple[str, ...] = ()

    @property
    def in_place(self) -> bool:
        """True when the topics come back under their own names."""
        return not self.wanted.new_name


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeSource:
    """State that stays where it is, and the new version that goes on with it. ``manifest`` is the savepoint that the two were compared by."""

    manifest: Manifest
    change: VersionChange


def empty_source(topic: TopicImage) -> TopicImage:
    """An output without the results of before: the application is about to process what they were made of, or they are not of what is asked for."""
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
