"""The nouns everything else is made of. Offsets are Kafka offsets, timestamps are milliseconds since the epoch, UTC."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One log. Orders by topic, then partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def partition_text(tp: TopicPartition) -> str:
    """As a key of JSON objects: ``<topic> <partition>``. No topic has a space in its name, so it can be read back."""
    return f"{tp.topic} {tp.partition}"


def partition_of_text(text: str) -> TopicPartition:
    """What ``spaced`` wrote."""
    topic, number = text.rsplit(" ", 1)
    return TopicPartition(topic, int(number))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """What a consumer group committed for one partition.

    ``metadata`` is state, not decoration: Kafka Streams keeps stream time and the last emitted window there (TopicPartitionMetadata),
    so it is carried byte for byte. ``leader_epoch`` is recorded but never restored: it belongs to the log that is gone.
    """

    offset: int
    metadata: str
    leader_epoch: int | None


class TopicRole(enum.StrEnum):
    """What a topic is to the application. Changelog and repartition topics are *internal*: created and owned by Kafka Streams."""

    INPUT = "input"
    OUTPUT = "output"
    GLOBAL = "global"
    CHANGELOG = "changelog"
    REPARTITION = "repartition"

    @property
    def internal(self) -> bool:
        """True for topics that Kafka Streams creates itself."""
        return self in (TopicRole.CHANGELOG, TopicRole.REPARTITION)


class StoreKind(enum.StrEnum):
    """How a store writes its changelog. ``UNKNOWN`` is a kind of its own: nothing may be assumed about it."""

    KEY_VALUE = "key-value"
    WINDOW = "window"
    SESSION = "session"
    VERSIONED = "versioned"
    SUPPRESS = "suppress"
    LIST = "list"
    UNKNOWN = "unknown"


class Consistency(enum.StrEnum):
    """``exact``: state equals the effects of all input below the committed offsets, no more and no less.
    ``ahead``: it may also hold effects of input at or above them. ``damaged``: parts of the application were gone, or state had been lost or replaced,
    when it was taken. ``edited``: somebody changed the state of an exact one by hand. A savepoint is never labelled better than it was
    proven.
    """

    EXACT = "exact"
    AHEAD = "ahead"
    DAMAGED = "damaged"
    EDITED = "edited"


class Profile(enum.StrEnum):
    """What a savepoint is good for. ``full`` ones have the application's state; ``minimal`` ones have its offsets, and the settings of its topics, but
    no record of an internal topic: state can be rebuilt from input with one, not restored.
    """

    FULL = "full"
    MINIMAL = "minimal"


class QuiesceMode(enum.StrEnum):
    """How the application is kept still while the cut is read. ``live`` does not hold it at all."""

    STOP = "stop"
    PAUSE = "pause"
    LIVE = "live"


class Guarantee(enum.StrEnum):
    """``processing.guarantee`` as Kafka Streams names it."""

    EXACTLY_ONCE_V2 = "exactly_once_v2"
    AT_LEAST_ONCE = "at_least_once"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic as the cluster describes it. ``topic_id`` changes when a topic is deleted and created again under its old name.
    ``config`` holds the overrides set on the topic itself, not broker defaults. ``leader_epochs`` has one entry a partition.
    """

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    config: dict[str, str]
    leader_epochs: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedTopic:
    """A topic whose name could be that of an internal topic of the application, and that is taken for one of the application ``group``, whose longer
    id it begins with too: a consumer group of that name exists.
    """

    topic: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A live member of a consumer group, as an operator would recognise it."""

    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A consumer group. ``kind`` is ``classic``, ``consumer``, ``streams``, ``share`` or ``absent``; ``state`` is the broker's word for it.

    A running group of the streams protocol looks dead to clients that do not know the protocol, so ``kind``, and for that kind ``state``
    too, comes from listing groups, not from describing one.
    """

    group_id: str
    kind: str
    state: str
    members: tuple[GroupMember, ...]

    @property
    def empty(self) -> bool:
        """True when the broker accepts offset writes for the group: it has no members. An absent group is empty."""
        states = ("Empty",) if self.kind == "streams" else ("Empty", "Dead")
        return self.kind == "absent" or (self.state in states and not self.members)
