"""Snapshots of the committed offsets of consumer groups. A snapshot is a file of offsets: a group goes back to it as it is reset to any other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from streams_recovery.core.errors import NotFound
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsets:
    """All offsets that one group had committed on ``topics`` (topic ids by name). A partition of these topics that is not in ``offsets`` had none."""

    group_id: str
    kind: str
    topics: dict[str, str]
    offsets: dict[TopicPartition, CommittedOffset]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSnapshot:
    """Offsets of groups at one moment. ``savepoint_id`` is the savepoint that it was taken with, None if it was taken alone. ``unread`` has the
    groups whose offsets could not be read, with the reason.
    """

    format_version: Literal[2]
    snapshot_id: str
    application_id: str
    cluster_id: str
    taken_at: int
    savepoint_id: str | None
    requested_by: str
    reason: str
    groups: tuple[GroupOffsets, ...]
    unread: dict[str, str]

    def group(self, group_id: str) -> GroupOffsets:
        """One group. Raises ``NotFound`` with the names of the existing groups."""
        found = next((group for group in self.groups if group.group_id == group_id), None)
        if found is None:
            known = [group.group_id for group in self.groups]
            raise NotFound(
                f"snapshot {self.snapshot_id} has no offsets of group {group_id}; it has: {', '.join(known) or 'none'}",
                next_step="name one of those",
                group=group_id,
                known=known,
            )
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChange:
    """A change of a partition's offset. ``after`` is the new offset; None deletes it. ``before`` is the present offset, None if there is none."""

    tp: TopicPartition
    before: int | None
    after: CommittedOffset | None
    same: bool
