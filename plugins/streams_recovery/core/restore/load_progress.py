"""Decides what to do with the records that a failed load left: continue after them, or begin again with an empty topic."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from streams_recovery.core.kafka_types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """One partition of a topic that a restore created: the present log, and the number of rows to load."""

    tp: TopicPartition
    start: int
    end: int
    rows: int

    @property
    def present(self) -> int | None:
        """The number of records that can be the first part of the rows to load. None if they cannot be: the log must begin at 0 and have at most this
        number of rows. Only a comparison shows whether they *are* the right records.
        """
        return self.end if self.start == 0 and self.end <= self.rows else None


class TopicState(enum.StrEnum):
    """A topic by its id. ``OURS``: this restore created it. ``STRANGER_EMPTY`` and ``STRANGER_FULL``: it did not. ``MISSING``: there is no such
    topic.
    """

    OURS = "ours"
    STRANGER_EMPTY = "empty"
    STRANGER_FULL = "full"
    MISSING = "missing"


class LoadAction(enum.StrEnum):
    """What a load does with a topic: ``GO_ON`` after the existing records, ``BEGIN_AGAIN`` with an empty topic, or ``REFUSE`` and let a person
    decide.
    """

    GO_ON = "go on"
    BEGIN_AGAIN = "begin again"
    REFUSE = "refuse"


def next_action(kind: TopicState, *, records: int, differs: bool, others_write: bool) -> LoadAction:
    """The action for a topic with ``records`` records. ``differs``: they cannot be the first rows to load, or were compared and differ.
    ``others_write``: producers write to the topic, so such records may be the only copy, and are not deleted.
    """
    if kind is TopicState.STRANGER_FULL or (others_write and records and differs):
        return LoadAction.REFUSE
    return LoadAction.GO_ON if kind is TopicState.OURS and not differs else LoadAction.BEGIN_AGAIN


def topic_state(topic_id: str | None, ours: Iterable[str], offsets: int) -> TopicState:
    """The state of a topic with this id and number of offsets, for a restore that created the ids ``ours``. An id None means that there is no topic."""
    if topic_id is None:
        return TopicState.MISSING
    if topic_id in set(ours):
        return TopicState.OURS
    # If the process died before it recorded the creation of a topic, the topic is empty.
    return TopicState.STRANGER_FULL if offsets else TopicState.STRANGER_EMPTY
