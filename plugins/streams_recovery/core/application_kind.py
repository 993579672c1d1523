"""Differences between the kinds of applications: names of their internal topics, ways to hold them, what they cannot do, and where their local state is.
Everything else is the same for all of them.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from streams_recovery.core.kafka_types import Guarantee, QuiesceMode, StoreKind, TopicRole
from streams_recovery.core.names import internal_role, only_its_own, read_beside

_EXACTLY_ONCE_MS: Final = 100
_AT_LEAST_ONCE_MS: Final = 30_000
# broker_commit_interval of Faust.
_FAUST_COMMIT_MS: Final = 2_800
# Kafka Streams names the consumer of every thread so, whatever client.id is configured (StreamThread#create, ClientUtils#consumerClientId).
_STREAM_THREAD: Final = re.compile(r"-StreamThread-\d+-consumer$")

# Faust puts its setting `version` behind the name of an application, from 2 on: it is part of the id, and names the directory.
_VERSION: Final = re.compile(r"-v([2-9]|[1-9][0-9]+)\Z", re.ASCII)
_FIRST: Final = "v1"
_TABLES: Final = "tables"
# What its store for RocksDB makes there: a database for each partition of a table, and an empty directory for backups.
_TABLE: Final = re.compile(r".+(-\d+\.db|-backups)", re.ASCII)


class ApplicationKind(enum.StrEnum):
    """The framework that an application is made with."""

    KAFKA_STREAMS = "kafka-streams"
    FAUST = "faust"

    @property
    def dialect(self) -> Dialect:
        return _DIALECTS[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDirectory:
    """The place of an instance's local state below its state directory. ``parts`` lead to the directory that is removed whole. If ``children`` is given, that
    directory must have no others than these. ``beside`` leads to one that could be the application's in place of it.
    """

    parts: tuple[str, ...]
    children: re.Pattern[str] | None = None
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One kind.

    ``guarantees`` are its default commit intervals in milliseconds, by the guarantees that can be restored. ``closed`` is what a label assumes of an instance
    that ended well, as the end of a sentence. ``members`` is in the client ids of its consumers, None if such ids do not tell the application's consumers from
    others: then a member of a stopped instance leaves the group only when its session ends. ``prefixed``: names of repartition topics begin with the
    application id.
    ``refused`` says why it cannot be held in these ways, ``sections`` why a configuration cannot have these, ``stores`` which kinds of stores it has (None:
    all), ``runs`` which kinds of ``runs`` know where its state is (None: all). ``topic_settings`` are those of topics that a restore creates, unless they had
    others. ``loses_unread`` says what its code needs, so that it loses no unread input at a start without local state. ``deletes_read``: it deletes what it has
    read from its repartition topics.
    """

    product: str
    guarantees: Mapping[Guarantee, int]
    closed: str = "closed Kafka Streams before it ended, as its exit status says: it did not say so itself"
    members: re.Pattern[str] | None = _STREAM_THREAD
    prefixed: bool = True
    refused: Mapping[QuiesceMode, str] = field(default_factory=dict)
    sections: Mapping[str, str] = field(default_factory=dict)
    stores: frozenset[StoreKind] | None = None
    runs: frozenset[str] | None = None
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    loses_unread: str = ""
    deletes_read: bool = True

    def role(self, topic: str, application_id: str) -> TopicRole | None:
        """The role of a topic as an internal one of this application, None if its name is no such name. Where names of repartition topics do not begin with
        the id, this does not say whose such a topic is: see ``by_id``.
        """
        if self.prefixed:
            return internal_role(topic, application_id)
        rest = topic.removeprefix(f"{application_id}-")
        if rest != topic and rest.endswith("-changelog"):
            return TopicRole.CHANGELOG
        return TopicRole.REPARTITION if topic.endswith("-repartition") else None

    def by_id(self, topic: str, application_id: str) -> bool:
        """True for an internal topic whose name begins with the id. Only offsets and people tell the owner of another topic."""
        return topic.startswith(f"{application_id}-") and self.role(topic, application_id) is not None

    def only_its_own(self, topic: str, application_id: str) -> bool:
        """True if no other application's topic could have this name."""
        return self.by_id(topic, application_id) and only_its_own(topic, application_id)

    def read_beside(self, changelog: str) -> tuple[str, ...]:
        """Repartition topics whose committed offsets are evidence for this changelog."""
        return read_beside(changelog) if self.prefixed else ()

    def name_in(self, topic: str, role: TopicRole, source_id: str, application_id: str) -> str:
        """The name that an internal topic of the application ``source_id`` has as one of the application ``application_id``. Only names that such a topic can
        have without the id stay: what a savepoint says must never name anything else.
        """
        named = f"{application_id}-{topic.removeprefix(f'{source_id}-')}"
        stays = role is TopicRole.REPARTITION and not topic.startswith(f"{source_id}-") and self.role(topic, application_id) is role
        return topic if stays else named

    def made_again(self, topic: str, application_id: str) -> bool:
        """True for a topic without any record, which the application creates where it is missing: it is in no savepoint."""
        return not self.prefixed and topic == leader_topic(application_id)

    def state_directory(self, application_id: str) -> StateDirectory:
        if self.prefixed:
            return StateDirectory(parts=(application_id,))
        version = _VERSION.search(application_id)
        return StateDirectory(
            parts=(f"v{version[1]}" if version else _FIRST, _TABLES),
            children=_TABLE,
            beside=(_FIRST, _TABLES) if version else (),
        )


def leader_topic(application_id: str) -> str:
    """The topic by which the workers of a Faust application find their leader. It has no records; its presence shows an application of Faust."""
    return f"{application_id}-__assignor-__leader"


def of_faust(groups: Iterable[str], topics: Iterable[str]) -> set[str]:
    """The groups that are Faust applications, by the topics of the cluster."""
    there = set(topics)
    return {group for group in groups if leader_topic(group) in there}


_SAME_NAMES: Final = (
    "names of Faust's repartition topics come from the code and not from the application id, so another application with the same code reads and writes "
    "the same ones"
)
_DIALECTS: Final = {
    ApplicationKind.KAFKA_STREAMS: Dialect(
        product="Kafka Streams", guarantees={Guarantee.EXACTLY_ONCE_V2: _EXACTLY_ONCE_MS, Guarantee.AT_LEAST_ONCE: _AT_LEAST_ONCE_MS}
    ),
    ApplicationKind.FAUST: Dialect(
        product="Faust",
        guarantees={Guarantee.AT_LEAST_ONCE: _FAUST_COMMIT_MS},
        closed="finished and committed what it had begun: Faust does so with stream_wait_empty=True, and its exit status is the same without it",
        members=None,
        prefixed=False,
        refused={
            QuiesceMode.PAUSE: "Faust has nothing that pauses a worker",
            QuiesceMode.LIVE: "a running Faust worker may commit an offset before the changelog has what the input below it caused",
        },
        sections={"clone": _SAME_NAMES, "drill": _SAME_NAMES, "reprocess": _SAME_NAMES},
        stores=frozenset({StoreKind.KEY_VALUE, StoreKind.UNKNOWN}),
        runs=frozenset({"process", "command"}),
        # Records are loaded with lz4, which a Faust worker reads only with an extra package: without it one crashes. Brokers write them again as gzip.
        topic_settings={"compression.type": "gzip"},
        loses_unread="a handler of on_rebalance_complete that reads nothing before the committed offsets are reached; docs/faust.md has it",
        deletes_read=False,
    ),
}
