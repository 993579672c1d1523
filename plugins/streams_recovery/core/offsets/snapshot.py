"""Snapshots of the committed offsets of consumer groups, and the plan to restore them.

A snapshot contains only offsets. Restoring it makes a group read records again, or skip them. It does not restore the state of a Kafka Streams
application, and the plan says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from streams_recovery.core import codec
from streams_recovery.core.approval import hash_of
from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicDescription, TopicPartition


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan:
    """The plan to restore a group's offsets from a snapshot. It has every partition that has or had an offset."""

    application_id: str
    snapshot_id: str
    taken_at: int
    group_id: str
    changes: tuple[OffsetChange, ...]
    warnings: tuple[str, ...]

    @property
    def hash(self) -> str:
        """SHA-256 of what the plan does. The group's present offsets are not part of it."""
        return hash_of(replace(self, warnings=(), changes=self._wanted()))

    @property
    def parts(self) -> dict[str, object]:
        return {
            "the application": self.application_id,
            "the group (`--group`)": self.group_id,
            "the snapshot": [self.snapshot_id, self.taken_at],
            "the offsets": [codec.encode(change) for change in self._wanted()],
        }

    def _wanted(self) -> tuple[OffsetChange, ...]:
        return tuple(replace(change, before=None, same=False) for change in self.changes)

    @property
    def moving(self) -> int:
        """Number of partitions whose offset would change."""
        return sum(1 for change in self.changes if not change.same)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackReport:
    """Offsets that were restored. ``before`` is the snapshot of the previous offsets, so that they can be restored too."""

    group_id: str
    snapshot_id: str
    before: str
    partitions: int
    moved: int


def plan_rollback(
    snapshot: OffsetSnapshot,
    group_id: str,
    *,
    now: Mapping[TopicPartition, CommittedOffset],
    topics: Mapping[str, TopicDescription],
    spans: Mapping[TopicPartition, tuple[int, int]],
) -> RollbackPlan:
    """The plan. ``now`` are the group's present offsets, ``topics`` the topics of the snapshot that still exist, ``spans`` the ``[start, end]`` of
    their logs. Raises ``Refused`` for offsets that have no meaning any more, all at once: those of topics that are gone or were created again, and
    those outside their logs.
    """
    wanted = snapshot.group(group_id)
    known = wanted.offsets
    problems = [_topic_problem(name, topic_id, topics.get(name)) for name, topic_id in sorted(wanted.topics.items())]
    found = [problem for problem in problems if problem] or [
        f"{tp} at {item.offset} is outside [{spans[tp][0]}, {spans[tp][1]}]" if tp in spans else f"{tp} is gone"
        for tp, item in sorted(known.items())
        if tp not in spans or not spans[tp][0] <= item.offset <= spans[tp][1]
    ]
    if found:
        raise Refused(
            f"group {group_id} cannot go back to snapshot {snapshot.snapshot_id}: {'; '.join(found[:20])}",
            next_step="nothing was changed; choose a newer snapshot, or set offsets with streams-recovery groups reset",
            problems=found,
        )
    partitions = sorted({*known, *(tp for tp in now if tp.topic in wanted.topics)})
    changes = tuple(_change(tp, now.get(tp), known.get(tp)) for tp in partitions)
    own = group_id == snapshot.application_id
    return RollbackPlan(
        application_id=snapshot.application_id,
        snapshot_id=snapshot.snapshot_id,
        taken_at=snapshot.taken_at,
        group_id=group_id,
        changes=changes,
        warnings=(f"only offsets go back: the state of {group_id} stays as it is, and counts input twice or never from here on",)
        if own
        else (),
    )


def _topic_problem(name: str, topic_id: str, found: TopicDescription | None) -> str | None:
    if found is None:
        return f"topic {name} is gone"
    return None if found.topic_id == topic_id else f"topic {name} was created again (id {topic_id} became {found.topic_id})"


def _change(tp: TopicPartition, before: CommittedOffset | None, wanted: CommittedOffset | None) -> OffsetChange:
    return OffsetChange(
        tp=tp,
        before=before.offset if before else None,
        after=wanted,
        same=before is not None and wanted is not None and (before.offset, before.metadata) == (wanted.offset, wanted.metadata),
    )
