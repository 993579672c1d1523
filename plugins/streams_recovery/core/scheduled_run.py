"""How far an application runs that is not meant to run all the time: up to where its input ended, or for a while. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streams_recovery.core.durations import milliseconds
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import TopicPartition, partition_text
from streams_recovery.core.lag import Lag

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How far a run has come. ``targets`` are offsets that are to be read now, by ``<topic> <partition>``: at first, at ``hop`` 0, the ends of the inputs; then
    the ends, as they were once the targets before were read, of the topics that the application writes for itself. ``lag`` is what the last look has
    found, by the same names.
    """

    targets: dict[str, int]
    hop: int
    lag: dict[str, Lag]


def next_hop(reading: Reading, own: Mapping[TopicPartition, int]) -> Reading | None:
    """What is to be read after the targets, None when all that the input had caused is. ``own`` are the topics that the application writes for itself,
    with ends that were read after the targets were seen to be read.

    What a record causes goes through these topics one after the other and through none twice. So with each hop one more is sure to be read, also
    while new input keeps all of them moving.
    """
    if reading.hop >= len({tp.topic for tp in own}):
        return None
    return Reading(targets={partition_text(tp): end for tp, end in sorted(own.items())}, hop=reading.hop + 1, lag=reading.lag)


def processed(before: Mapping[TopicPartition, int], after: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Offsets each partition has moved on; one without a commit before counts from the first that is known of it, 0."""
    return {tp: moved for tp, offset in sorted(after.items()) if (moved := offset - before.get(tp, 0)) > 0}
