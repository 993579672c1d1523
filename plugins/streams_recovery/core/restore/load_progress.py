"""What a load that broke off left behind, and what may be done with it: go on behind it, or begin with an empty topic again."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from streams_recovery.core.kafka_types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One partition of a topic that a restore created: the log as it is, and the rows that belong there."""

    tp: TopicPartition
    start: int
    end: int
    rows: int

    @property
    def present(self) -> int | None:
        """Records that can be the beginning of what belongs there. None when they cannot: a log that was created empty begins at 0, and no
        more than its rows is in it. Whether they *are* the beginning only comparing them tells.
        """
        return self.end if self.start == 0 and self.end <= self.rows else None


class Found(enum.StrEnum):
    """A topic by its id: ``OURS`` was created by this restore; a ``STRANGER`` was not, and holds records or not; or there is none."""

    OURS = "ours"
    STRANGER_EMPTY = "empty"
    STRANGER_FULL = "full"
    MISSING = "missing"


class Course(enum.StrEnum):
    """What a load does with a topic: ``GO_ON`` behind what is there, ``BEGIN_AGAIN`` with an empty one, or ``REFUSE`` and leave it to a person."""

    GO_ON = "go on"
    BEGIN_AGAIN = "begin again"
    REFUSE = "refuse"


def course(kind: Found, *, records: int, differs: bool, others_write: bool) -> Course:
    """What becomes of a topic with so many ``records``. It ``differs`` when they cannot be the beginning of what belongs there, or were compared and are
    not. Where ``others_write`` such records may be the only copy there is, and are not deleted.
    """
    if kind is Found.STRANGER_FULL or (others_write and records and differs):
        return Course.REFUSE
    return Course.GO_ON if kind is Found.OURS and not differs else Course.BEGIN_AGAIN


def found(topic_id: str | None, ours: Iterable[str], offsets: int) -> Found:
    """What a topic with this id and so many offsets in it is to a restore that created the ids ``ours``. An id None means that there is none."""
    if topic_id is None:
        return Found.MISSING
    if topic_id in set(ours):
        return Found.OURS
    # A topic whose creation was not noted any more before the process died is empty.
    return Found.STRANGER_FULL if offsets else Found.STRANGER_EMPTY
