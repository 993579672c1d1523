"""The writers of a log that its leader remembers, and which of them are left out of account: those that loaded it in a restore, and have written nothing since.

A restore loads with producers that are idempotent and have no transactions. Once a log is proven to be the savepoint's, record for record, and before the
application starts, the restore records the end of the log and how far each of its producers had come. What is below that end is the state that the application
began with.

**A producer that has come no further than that has appended nothing since.** Its sequence goes up by one with each record, and begins again at 0 behind
2^31 - 1. So it is the same again after 2^31 records at the earliest, and a log that has fewer records more than then cannot have them. A producer that gets
another epoch begins with another sequence, and counts as another one. An id is given to one producer only in the life of a cluster.

**A log that ends where it ended then has nothing that was appended since**, whatever its leader remembers: an end goes back only where a log is cut back, which
other readings tell.

All of this is said of one log: the topic with that id, on that cluster. A topic that was created again, or that another cluster has, counts as before. So does
a log that is shorter than it was, and a producer that the leader remembers otherwise, as after the leader's log was cut back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from streams_recovery.core.kafka_types import TopicPartition

# A log that has so many records more proves nothing about a producer by its sequence: half of what there are.
MOST_SINCE: Final = 1 << 30
# Restores that a reader looks back at: who loads single topics one by one has several in a day.
NEWEST_LOADS: Final = 8
# Most producers in an entry, which has 16 MiB at most. Logs beyond count as without an entry.
MOST_PRODUCERS: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ProducerProgress:
    """The progress of a producer on a partition, as its leader remembers it. Equal at two moments: it wrote nothing in between, unless it wrote 2^31 records.
    ``last_timestamp`` (ms) is that of its last batch.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPartition:
    """A partition that a restore has loaded: its ``end``, and the producers without transactions that its leader remembered."""

    partition: int
    end: int
    producers: tuple[ProducerProgress, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTopic:
    """The partitions of a topic that a restore has loaded."""

    topic: str
    topic_id: str
    partitions: tuple[LoadedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedEntry:
    """One entry of the log: what a restore had loaded at ``at`` (ms), compared with its savepoint, before the application was started on it."""

    restore_id: str
    cluster_id: str
    at: int
    topics: tuple[LoadedTopic, ...]


Loaded = Mapping[TopicPartition, LoadedPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Writers:
    """Producers that a partition's leader remembers, by default for a day after the time of their last record.

    The ids in ``transactional`` have ended or begun a transaction there, ``other`` have not. Leaders do not remember a producer that is not even idempotent, so
    this proves something about the application's own writers only when no other program writes to its internal topics.
    """

    transactional: tuple[int, ...]
    other: tuple[ProducerProgress, ...]

    def since(self, loaded: LoadedPartition | None, end: int) -> Writers:
        """The same without those that have appended nothing since a restore has ``loaded`` the log, which ends at ``end`` by now."""
        if loaded is None or not 0 <= end - loaded.end < MOST_SINCE:
            return self
        return replace(self, other=tuple(one for one in self.other if one not in loaded.producers))


def not_proven(
    writers: Mapping[TopicPartition, Writers], ends: Mapping[TopicPartition, int], loaded: Loaded, *, state: Collection[TopicPartition]
) -> tuple[TopicPartition, ...]:
    """The partitions of ``writers`` that are not proven to have nothing but transactions, behind what a restore has ``loaded``. One of ``state`` needs a writer
    with transactions too, unless nothing was appended: no writer at all proves nothing. ``ends`` were read before the writers.
    """

    def proven(tp: TopicPartition) -> bool:
        known = loaded.get(tp)
        found = writers[tp].since(known, ends[tp])
        untouched = known is not None and ends[tp] == known.end
        return not found.other and (bool(found.transactional) or untouched or tp not in state)

    return tuple(sorted(tp for tp in writers if not proven(tp)))


def loaded_topics(
    expected: Mapping[TopicPartition, int],
    found: Mapping[TopicPartition, tuple[tuple[ProducerProgress, ...], int]],
    ids: Mapping[str, str],
    made: Mapping[str, Collection[str]],
) -> tuple[LoadedTopic, ...]:
    """What can be recorded of a load. ``expected`` are the ends of the partitions that were proven equal to a savepoint; ``found`` their producers, and their
    ends, read after these; ``ids`` those of their topics, read last; ``made`` the ids that the restore has created or filled. What ends elsewhere, or is
    another topic, is left out.
    """
    topics: dict[str, list[LoadedPartition]] = {}
    left = MOST_PRODUCERS
    for tp, end in sorted(expected.items()):
        producers, now = found[tp]
        left -= max(1, len(producers))
        if now == end and left >= 0 and ids.get(tp.topic) in made.get(tp.topic, ()):
            topics.setdefault(tp.topic, []).append(LoadedPartition(partition=tp.partition, end=end, producers=producers))
    return tuple(LoadedTopic(topic=name, topic_id=ids[name], partitions=tuple(parts)) for name, parts in topics.items())


def loaded_by(entries: Iterable[LoadedEntry], cluster_id: str, ids: Mapping[str, str]) -> dict[TopicPartition, LoadedPartition]:
    """What these entries, newest first, say of the topics with these ``ids``, by name. The newest one counts for each partition."""
    found: dict[TopicPartition, LoadedPartition] = {}
    for entry in entries:
        for topic in entry.topics if entry.cluster_id == cluster_id else ():
            if ids.get(topic.topic) == topic.topic_id:
                for part in topic.partitions:
                    found.setdefault(TopicPartition(topic.topic, part.partition), part)
    return found
