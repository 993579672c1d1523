"""The plan of a restore: everything it will create, delete, set and wipe, as a value that is shown before anything happens.

The hash identifies what will be *done*. What merely was observed (offsets before, which instances run) may move while a person reads the
plan; it is shown but does not count.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from streams_recovery.core import codec
from streams_recovery.core.manifest import SegmentFile
from streams_recovery.core.model import Consistency, TopicPartition, TopicRole


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoad:
    """Files to write to one partition, in this order."""

    partition: int
    files: tuple[SegmentFile, ...]

    @property
    def rows(self) -> int:
        """Records to write."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicToCreate:
    """A topic to create and load. It is created with ``held_config`` and gets ``final_config`` once nothing would expire by it.
    ``replaces_empty`` is the id of an existing topic without records that is deleted first, None when there is none.
    """

    name: str
    role: TopicRole
    replication_factor: int
    held_config: dict[str, str]
    final_config: dict[str, str]
    replaces_empty: str | None
    partitions: tuple[PartitionLoad, ...]

    @property
    def rows(self) -> int:
        """Records to write."""
        return sum(partition.rows for partition in self.partitions)

    @property
    def payload_bytes(self) -> int:
        """Bytes of keys and values to write."""
        return sum(file.payload_bytes for partition in self.partitions for file in partition.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetToSet:
    """A committed offset to set, metadata included."""

    topic: str
    partition: int
    offset: int
    metadata: str

    @property
    def tp(self) -> TopicPartition:
        """The log this is about."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What was seen while planning and may change until the plan is carried out: instances that run, the newest committed input offsets
    of the group as it is, and how far the inputs reach beyond the savepoint.
    """

    instances: tuple[str, ...]
    offsets_before: dict[str, int]
    records_to_catch_up: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """A whole restore of an application in place from one savepoint."""

    application_id: str
    savepoint_id: str
    captured_at: int
    consistency: Consistency
    create: tuple[TopicToCreate, ...]
    offsets: tuple[OffsetToSet, ...]
    warnings: tuple[str, ...]
    observed: Observed

    @property
    def hash(self) -> str:
        """Identifies what the plan does; equal plans have equal hashes wherever they were made."""
        done = {key: value for key, value in codec.encode(self).items() if key not in ("observed", "warnings")}
        return hashlib.sha256(codec.dumps(done)).hexdigest()

    @property
    def rows(self) -> int:
        """Records to write, all topics together."""
        return sum(topic.rows for topic in self.create)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """What a person asks for. ``savepoint`` is an id or ``latest``, which means the newest ``exact`` one unless ``allow_ahead``."""

    savepoint: str
    allow_ahead: bool
    reason: str
