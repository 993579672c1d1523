"""How far an application runs that is not meant to run all the time: up to where its input ended, or for a while. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streams_recovery.core.durations import milliseconds
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.model import CommittedOffset, TopicPartition

ENDS = "ends"
_DURATION = "duration:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """``ends``: up to the ends that the inputs had at the start; ``milliseconds`` is None then, and else how long."""

    text: str
    milliseconds: int | None

    def until(self, now: int) -> int | None:
        """The moment a run that starts ``now`` ends at, None when it ends by its input."""
        return None if self.milliseconds is None else now + self.milliseconds


def parse_limit(text: str) -> Limit:
    """``ends`` or ``duration:PT30M``. Raises ``ConfigInvalid``."""
    if text == ENDS:
        return Limit(text=text, milliseconds=None)
    if not text.startswith(_DURATION):
        raise ConfigInvalid(f"{text[:80]!r} is no limit for a run", next_step="use ends, or a duration such as duration:PT30M")
    length = milliseconds(text.removeprefix(_DURATION))
    if length == 0:
        raise ConfigInvalid(f"{text!r} is no time at all", next_step="use ends, or a duration such as duration:PT30M")
    return Limit(text=text, milliseconds=length)


def remaining(
    ends: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, CommittedOffset | None]
) -> dict[TopicPartition, int | None]:
    """Offsets each partition is behind its end; those that are not behind are left out. None where nothing was ever committed: an empty
    partition (end 0) is never behind.
    """
    behind: dict[TopicPartition, int | None] = {}
    for tp, end in ends.items():
        known = committed.get(tp)
        if known is None and end > 0:
            behind[tp] = None
        elif known is not None and known.offset < end:
            behind[tp] = end - known.offset
    return behind


def processed(before: Mapping[TopicPartition, int], after: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Offsets each partition has moved on; one without a commit before counts from the first that is known of it, 0."""
    return {tp: moved for tp, offset in sorted(after.items()) if (moved := offset - before.get(tp, 0)) > 0}
