"""A consumer group with how far it is behind. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streams_recovery.core.kafka_types import GroupDescription, GroupMember, TopicPartition, TopicRole
from streams_recovery.core.lag import Lag


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """One partition that the group reads, with its numbers as ``core.lag.Lag`` has them. ``committed`` is None when it has committed nothing there, ``role``
    when the group is not the application's, or the topic none of its topics. ``client`` is that of the member that reads it, None if there is none.
    """

    topic: str
    partition: int
    role: TopicRole | None
    committed: int | None
    start: int
    stable: int
    end: int
    behind: int
    undecided: int
    gone: int
    client: str | None


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


def group_lag(group: GroupDescription, roles: Mapping[TopicPartition, TopicRole], lags: Mapping[TopicPartition, Lag]) -> GroupLag:
    """How far ``group`` is behind in each of these partitions."""
    clients = {tp: member.client_id for member in group.members for tp in member.assigned}
    return GroupLag(
        group_id=group.group_id,
        kind=group.kind,
        state=group.state,
        members=group.members,
        partitions=tuple(
            PartitionLag(
                topic=tp.topic,
                partition=tp.partition,
                role=roles.get(tp),
                committed=lag.committed,
                start=lag.start,
                stable=lag.stable,
                end=lag.end,
                behind=lag.behind,
                undecided=lag.undecided,
                gone=lag.gone,
                client=clients.get(tp),
            )
            for tp, lag in sorted(lags.items())
        ),
    )
