"""What a load that failed left behind, and what may be done with it: go on behind it, or begin with an empty topic again."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from streams_recovery.core.kafka_types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
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


class TopicState(enum.StrEnum):
    """A topic by its id: ``OURS`` was created by this restore; a ``STRANGER`` was not, and holds records or not; or there is none."""

    OURS = "ours"
    STRANGER_EMPTY = "empty"
    STRANGER_FULL = "full"
    MISSING = "missing"


class LoadAction(enum.StrEnum):
    """What a load does with a topic: ``GO_ON`` behind what is there, ``BEGIN_AGAIN`` with an empty one, or ``REFUSE`` and leave it to a person."""

    GO_ON = "go on"
    BEGIN_AGAIN = "begin again"
    REFUSE = "refuse"


def next_action(kind: TopicState, *, records: int, differs: bool, others_write: bool) -> LoadAction:
    """What becomes of a topic with so many ``records``. It ``differs`` when they cannot be the beginning of what belongs there, or were compared and are
    not. Where ``others_write`` such records may be the only copy there is, and are not deleted.
    """
    if kind is TopicState.STRANGER_FULL or (others_write and records and differs):
        return LoadAction.REFUSE
    return LoadAction.GO_ON if kind is TopicState.OURS and not differs else LoadAction.BEGIN_AGAIN


def topic_state(topic_id: str | None, ours: Iterable[str], offsets: int) -> TopicState:
    """What a topic with this id and so many offsets in it is to a restore that created the ids ``ours``. An id None means that there is none."""
    if topic_id is None:
        return TopicState.MISSING
    if topic_id in set(ours):
        return TopicState.OURS
    # A topic whose creation was not noted any more before the process died is empty.
    return TopicState.STRANGER_FULL if offsets else TopicState.STRANGER_EMPTY
