"""How many records of each input lie between two moments, by how far savepoints had read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from streams_recovery.core.status.report import SavepointSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class InputAmount:
    """Records of one input, about. None when that is not known."""

    topic: str
    records: int | None


class Positions:
    """Up to where inputs were processed at a moment: measured at savepoints, between two of them in proportion to the time, behind the last at its rate."""

    def __init__(self, savepoints: Sequence[SavepointSummary]) -> None:
        known = ((one.captured_at, one.input_positions) for one in savepoints if one.input_positions is not None)
        self._known = sorted(known, key=lambda one: one[0])

    def between(self, inputs: Sequence[str], begin: int, end: int) -> tuple[InputAmount, ...]:
        """Records of each input between two moments."""
        return tuple(InputAmount(topic=topic, records=self._amount(topic, begin, end)) for topic in inputs)

    def _amount(self, topic: str, begin: int, end: int) -> int | None:
        first, last = self._at(topic, begin), self._at(topic, end)
        return None if first is None or last is None else max(0, round(last - first))

    def _at(self, topic: str, moment: int) -> float | None:
        known = [(at, positions[topic]) for at, positions in self._known if topic in positions]
        if not known or moment < known[0][0]:
            return None
        for (at, position), (next_at, next_position) in pairwise(known):
            if at <= moment < next_at:
                return position + (next_position - position) * (moment - at) / (next_at - at)
        return _behind(known, moment)


def _behind(known: Sequence[tuple[int, int]], moment: int) -> float | None:
    at, position = known[-1]
    if moment == at:
        return position
    earlier = next(((before, was) for before, was in reversed(known[:-1]) if before < at), None)
    if earlier is None:
        return None
    return position + max(0, position - earlier[1]) * (moment - at) / (at - earlier[0])
