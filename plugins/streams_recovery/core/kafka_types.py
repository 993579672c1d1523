"""Basic types: Kafka topics, partitions, groups and offsets. Timestamps are milliseconds since the epoch, UTC."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple, Self

from streams_recovery.core.codec import StoredAs
from streams_recovery.core.errors import Damaged
from streams_recovery.core.topic_settings import InForce

# One text for each partition: no leading zeros.
_PARTITION: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})", re.ASCII)


class _TopicAndNumber(NamedTuple):
    topic: str
    partition: int


class TopicPartition(_TopicAndNumber, StoredAs):
    """A partition of a topic. Sorts by topic, then partition. It is shown and stored as ``<topic>-<partition>``, as Kafka's own tools write it."""

    __slots__ = ()
    stored_kind: ClassVar[type] = str

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    to_stored = __str__

    @classmethod
    def from_stored(cls, stored: object) -> Self:
        """The partition of such a text. The number stands behind the last hyphen, as topics have hyphens too. Raises ``Damaged``."""
        named = _PARTITION.fullmatch(str(stored))
        # Kafka's numbers have 31 bits; its clients fail on more in ways of their own.
        if named is None or int(named[2]) >= 2**31:
            raise Damaged(f"{str(stored)[:80]!r} is not <topic>-<partition>", next_step="write a partition like orders-0")
        return cls(named[1], int(named[2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """The committed offset of a consumer group for one partition.

    ``metadata`` is part of the state: Kafka Streams stores stream time and the last emitted window there (TopicPartitionMetadata). So it is kept byte
    for byte. ``leader_epoch`` is recorded but never restored, because it belongs to the old log.
    """

    offset: int
    metadata: str
    leader_epoch: int | None = None


class TopicRole(enum.StrEnum):
    """The role of a topic in the application. Changelog and repartition topics are *internal*: Kafka Streams creates and owns them."""

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
    """The kind of a store, which decides how it writes its changelog. Nothing is assumed about an ``UNKNOWN`` store."""

    KEY_VALUE = "key-value"
    WINDOW = "window"
    SESSION = "session"
    VERSIONED = "versioned"
    SUPPRESS = "suppress"
    LIST = "list"
    UNKNOWN = "unknown"


WINDOWED: Final = frozenset({StoreKind.WINDOW, StoreKind.SESSION})
"""Stores whose keys have a time."""


class KeyForm(enum.StrEnum):
    """The part of a record's key that decides where it lies. ``whole``: all of it. ``windowed``: all but the start of a window (8 bytes), as Kafka Streams
    serialises a windowed key. ``window`` and ``session``: all but what their stores put behind it (12 and 16 bytes; windowed keys of sessions have 16 too).
    ``foreign-key``: the foreign key, behind its length, in the subscriptions of a foreign-key join. ``time-ordered``: what is behind 9 bytes, in the shared
    store of outer stream joins. ``time-first``: what is between 9 bytes and 4, in the buffer of a join with a table. ``own``: one's own partitioner decides.
    """

    WHOLE = "whole"
    WINDOWED = "windowed"
    WINDOW = "window"
    SESSION = "session"
    FOREIGN_KEY = "foreign-key"
    TIME_ORDERED = "time-ordered"
    TIME_FIRST = "time-first"
    OWN = "own"


class Consistency(enum.StrEnum):
    """``exact``: the state contains the effects of all input below the committed offsets, and no others. ``ahead``: it may also contain effects of
    later input. ``damaged``: parts of the application were missing, or its state had been lost or replaced, when the savepoint was taken. ``edited``:
    the state of an exact savepoint was changed by hand. A savepoint is never labelled better than was proven.
    """

    EXACT = "exact"
    AHEAD = "ahead"
    DAMAGED = "damaged"
    EDITED = "edited"


class Profile(enum.StrEnum):
    """``full`` savepoints contain the application's state. ``minimal`` savepoints contain its offsets and the settings of its topics, but no records
    of internal topics: the state can be rebuilt from the input, but not restored.
    """

    FULL = "full"
    MINIMAL = "minimal"


class QuiesceMode(enum.StrEnum):
    """The way in which the application is held while the cut is read. ``live`` does not hold it."""

    STOP = "stop"
    PAUSE = "pause"
    LIVE = "live"


class Guarantee(enum.StrEnum):
    """``processing.guarantee`` as Kafka Streams names it."""

    EXACTLY_ONCE_V2 = "exactly_once_v2"
    AT_LEAST_ONCE = "at_least_once"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic as the cluster describes it. ``topic_id`` changes when a topic is deleted and created again under the same name. ``config`` contains
    only overrides of the topic itself, no broker defaults, and ``in_force`` what counts on it. ``leader_epochs`` has one entry for each partition.
    """

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    config: dict[str, str]
    leader_epochs: tuple[int | None, ...]
    in_force: dict[str, InForce] = field(default_factory=dict, compare=False)


class Evidence(enum.StrEnum):
    """The reason why an internal topic is taken for the application's, strongest first. ``store``: the configuration has its store. ``committed``: the
    application's group has committed offsets on it, or on the repartition topic that Kafka Streams names like this changelog. ``named``: a person has named
    it. ``restored``: a restore of the application has created it. ``savepoint``: a savepoint has it with evidence that the cluster no longer shows.
    ``name``: no other application's id could be the beginning of its name.
    """

    STORE = "store"
    COMMITTED = "committed"
    NAMED = "named"
    RESTORED = "restored"
    SAVEPOINT = "savepoint"
    NAME = "name"

    @property
    def proves(self) -> bool:
        """True if the topic may be deleted or replaced. A name alone proves nothing: anybody may give a topic such a name."""
        return self is not Evidence.NAME


class Claim(enum.StrEnum):
    """The reason why an internal topic is taken for another application's. ``declared``: its configuration has the store. ``foreign``: this application's
    configuration says so. ``configured``, ``group``, ``savepoint``: the topic's name also begins with that longer id, and there is a configuration of it, its
    consumer group is one of Kafka Streams, or the newest savepoint says that it was there.
    """

    DECLARED = "declared"
    FOREIGN = "foreign"
    CONFIGURED = "configured"
    GROUP = "group"
    SAVEPOINT = "savepoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedTopic:
    """A topic whose name could be that of an internal topic of the application, but that belongs to another application. ``group`` is the id of that
    application, None if only ``because`` tells.
    """

    topic: str
    group: str | None
    because: Claim = Claim.GROUP

    @property
    def why(self) -> str:
        """The application that it is assigned to and the reason, as the end of a sentence."""
        return {
            Claim.DECLARED: f"it is assigned to {self.group}, because the configuration of that application has its store",
            Claim.FOREIGN: "it is another application's, because topics.foreign of the configuration has it",
            Claim.CONFIGURED: f"it is assigned to {self.group}, because an application of that id is configured",
            Claim.GROUP: f"it is assigned to {self.group}, because a consumer group of that name exists, of a Kafka Streams application",
            Claim.SAVEPOINT: f"it is assigned to {self.group}, as in the savepoint before this",
        }[self.because]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A live member of a consumer group. ``assigned`` are the partitions that it reads. ``tasks`` are those of a member of the streams protocol by Kafka
    Streams' names, such as ``0_3``, with `standby` or `warm-up` behind the name of an inactive one.
    """

    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None
    assigned: tuple[TopicPartition, ...] = ()
    tasks: tuple[str, ...] = ()


class ListedGroup(NamedTuple):
    """A group as a listing shows it. ``kind`` and ``state`` are as in ``GroupDescription``; ``protocol`` is the broker's word for what the group is for,
    such as `consumer` or `connect`, empty for one that has offsets and never had a member.
    """

    kind: str
    state: str
    protocol: str = ""

    @property
    def commits(self) -> bool:
        """True for groups that read topics and commit offsets. Share groups and those of Connect do not."""
        return self.kind in ("consumer", "streams") or (self.kind == "classic" and self.protocol in ("consumer", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A consumer group. ``kind`` is ``classic``, ``consumer``, ``streams``, ``share`` or ``absent``. ``state`` is the state that the broker reports.

    A running group looks dead to clients that do not know its protocol. So ``kind`` comes from listing groups, and each kind is described in its own way.
    """

    group_id: str
    kind: str
    state: str
    members: tuple[GroupMember, ...]

    @property
    def empty(self) -> bool:
        """True when the group has no members, so that the broker accepts offsets for it. An absent group is empty."""
        states = ("Empty",) if self.kind == "streams" else ("Empty", "Dead")
        return self.kind == "absent" or (self.state in states and not self.members)


def truncation(*, seen: int | None, upto: int, now: int | None, epoch_end: int | None) -> str | None:
    """The reason why some records below offset ``upto``, written up to leader epoch ``seen``, are gone. None if all are there, or if it cannot be known.

    ``now`` is the log's present leader epoch. ``epoch_end`` is the offset at which the broker says that the records of epochs up to ``seen`` end.
    """
    if seen is None:
        return None
    if now is not None and now < seen:
        return f"its leader epoch went back from {seen} to {now}"
    if epoch_end is not None and epoch_end < upto:
        return f"its records of leader epoch {seen} end at {epoch_end}, before offset {upto}"
    return None


def unproven(*, seen: int | None, upto: int, now: int | None, log_start: int) -> str | None:
    """The reason why it is unknown whether the records below offset ``upto``, written up to leader epoch ``seen``, were the log's when they were deleted: the
    broker forgets epochs with their records, and names the start of the log where they ended. None if it is known, or the question does not arise.
    """
    if seen is None or now is None or now <= seen or not upto or log_start < upto:
        return None
    return f"its leader epoch went from {seen} to {now}, and all below offset {log_start} was deleted: nobody can tell whether it was cut back below {upto}"
