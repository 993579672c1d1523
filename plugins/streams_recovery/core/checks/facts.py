"""Facts that checks are asked of, without a judgement: topics, brokers, and the application by its configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from streams_recovery.core import words
from streams_recovery.core.kafka_types import Guarantee, StoreKind, TopicRole
from streams_recovery.core.named_transactions.way import SavepointWay
from streams_recovery.core.remedies.remedy import KafkaTools
from streams_recovery.core.remedies.topics import TopicAtHand
from streams_recovery.core.repository.manifest import TopicImage
from streams_recovery.core.topic_settings import compacts, expires

DAY_SECONDS = 86_400
AUTO_CREATE = "auto.create.topics.enable"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts(TopicAtHand):
    """A topic that is there, or that a restore makes: then only the number of its ``replicas`` counts. ``settings`` are those in force, defaults included, with
    what its owner had set where a hold is in force; empty if they cannot be read. ``overrides`` are the names of those that its owner has set on the topic
    itself. ``archived`` tells whether savepoints have its records. ``offsets`` of each partition are those between the start and the end of its log, empty if
    they were not asked for.
    """

    settings: Mapping[str, str]
    overrides: frozenset[str]
    archived: bool
    offsets: tuple[int, ...]

    @classmethod
    def of(cls, name: str, image: TopicImage, settings: Mapping[str, str]) -> TopicFacts:
        """A topic of a savepoint, under this name and with these settings."""
        return cls(
            name=name,
            role=image.role,
            store=image.store or StoreKind.UNKNOWN,
            held=False,
            attributed=True,
            # Which brokers get them, the cluster decides.
            replicas=(tuple(range(image.replication_factor)),) * len(image.partitions),
            settings=settings,
            overrides=frozenset(image.config),
            archived=image.archived,
            offsets=(),
        )

    @property
    def partitions(self) -> int:
        """The number of its partitions."""
        return len(self.replicas)

    def number(self, setting: str) -> int | None:
        """A setting as a number, None when it is not known."""
        return as_number(self.settings.get(setting))

    @property
    def compacted(self) -> bool:
        """True when its policy removes records that newer ones replace."""
        return compacts(self.settings)

    @property
    def expires(self) -> bool:
        """True when its policy deletes old records."""
        return expires(self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """``racks`` has the brokers that are up, with None for one that does not say its rack. ``settings`` are those of one broker, empty if they cannot be read.
    ``metadata_level`` is the highest level of ``metadata.version`` that the broker supports, which shows its release; None if the broker does not report it.
    """

    racks: Mapping[int, str | None]
    settings: Mapping[str, str]
    metadata_level: int | None

    @property
    def count(self) -> int:
        """The number of brokers that are up."""
        return len(self.racks)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSet:
    """Topics of an application."""

    topics: tuple[TopicFacts, ...]

    def of(self, roles: Collection[TopicRole]) -> Iterator[TopicFacts]:
        """Topics with one of ``roles``."""
        return (topic for topic in self.topics if topic.role in roles)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts(TopicSet):
    """Also the brokers that they are on. ``survives``: savepoints are to survive the loss of the cluster. ``way`` is how a savepoint would be taken now, None
    where that was not asked, or is not known. ``archived_alone_seconds`` is how long archived input may be in the first place only, where the second one is
    filled behind savepoints; None where it has times of its own, or nothing is archived.
    """

    tools: KafkaTools
    brokers: BrokerFacts
    survives: bool
    way: SavepointWay | None = None
    archived_alone_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceFacts(Facts):
    """Also what only advice needs. ``unreadable`` topics may not be described. ``interval_seconds`` is the longest time between two scheduled savepoints,
    ``down_seconds`` between two scheduled runs of an application that is down in between; None without a schedule. ``streams`` are settings of the application
    by Kafka Streams' names, as far as the configuration tells them: they cannot be read from outside. ``deletes_read``: the application deletes what it has
    read from its repartition topics.
    """

    application_id: str
    unreadable: tuple[str, ...]
    interval_seconds: float | None
    down_seconds: float | None
    guarantee: Guarantee
    commit_interval_ms: int
    capture_seconds: float
    standbys: int
    pauses: bool
    session_timeout_ms: int
    group_kind: str
    state_directories: tuple[str, ...]
    streams: Mapping[str, str]
    deletes_read: bool

    @property
    def changelog_offsets(self) -> int:
        """Offsets of all changelogs: at most so many records does an instance without local state read."""
        return sum(sum(topic.offsets) for topic in self.of((TopicRole.CHANGELOG,)))


def as_number(text: str | None) -> int | None:
    """A whole number, None for anything else."""
    return int(text) if text is not None and text.removeprefix("-").isdecimal() else None


def span(milliseconds: float) -> str:
    """A length of time as people say it. Below zero it has no end."""
    if milliseconds < 0:
        return "for ever"
    return words.span(milliseconds / 1000)
