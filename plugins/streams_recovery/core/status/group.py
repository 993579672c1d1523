"""A consumer group with how far it is behind. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streams_recovery.core.kafka_types import CommittedOffset, GroupDescription, GroupMember, TopicPartition, TopicRole


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """One partition that the group reads. ``committed`` is None when it has committed nothing there. ``behind`` counts offsets up to the end; some of them
    may hold no record, such as the markers of transactions.
    """

    topic: str
    partition: int
    role: TopicRole
    committed: int | None
    start: int
    end: int
    behind: int

    @property
    def lost(self) -> int:
        """Offsets that were deleted before the group has read them."""
        return 0 if self.committed is None else max(0, self.start - self.committed)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """The group, its members, and every partition that it reads."""

    group_id: str
    kind: str
    state: str
    members: tuple[GroupMember, ...]
    partitions: tuple[PartitionLag, ...]

    @property
    def behind(self) -> int:
        """Offsets of all partitions together."""
        return sum(one.behind for one in self.partitions)


def group_lag(
    group: GroupDescription,
    roles: Mapping[TopicPartition, TopicRole],
    committed: Mapping[TopicPartition, CommittedOffset | None],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> GroupLag:
    """How far ``group`` is behind in each of these partitions. Without a commit it is behind by all that is there."""

    def lag(tp: TopicPartition) -> PartitionLag:
        found = committed.get(tp)
        at = None if found is None else found.offset
        behind = max(0, ends[tp] - max(starts[tp], at or 0))
        return PartitionLag(
            topic=tp.topic, partition=tp.partition, role=roles[tp], committed=at, start=starts[tp], end=ends[tp], behind=behind
        )

    return GroupLag(
        group_id=group.group_id,
        kind=group.kind,
        state=group.state,
        members=group.members,
        partitions=tuple(lag(tp) for tp in sorted(roles)),
    )
