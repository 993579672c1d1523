"""A check: one question about an application and its cluster, asked in several places and told there.

A check is written once, in this folder, over facts that are gathered once. ``CHECKS`` of this folder lists all. In each place where a check is asked, its
finding has a kind, a stable word that scripts and alerts compare.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.remedies.remedy import Remedy

F_contra = TypeVar("F_contra", contravariant=True)


class Occasion(enum.StrEnum):
    """Where a check is asked: before a run, in each look of the monitor, or as advice."""

    SAVEPOINT = "before a savepoint"
    RESTORE = "before a restore"
    LOOK = "in a look"
    ADVICE = "as advice"


class Severity(enum.StrEnum):
    """``critical``: a recovery is impossible, or state is being lost; before a run it blocks that. ``warning``: it soon will be, or an objective is missed.
    ``info``: slower or weaker than it could be; before a run nothing is said of it.
    """

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """The place in this order, 0 for the worst."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One answer. ``text`` has no full stop at its end, and goes on behind the name of the ``topic`` where it is about one. ``subject`` is what else it is
    about, empty for the application or the brokers. ``commands`` of this software show more. ``numbers`` are the measured values and limits in plain units.
    """

    severity: Severity
    text: str
    topic: str = ""
    subject: str = ""
    remedy: Remedy | None = None
    commands: tuple[str, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPlace:
    """A place where a check is asked, the ``kind`` of its findings there, and the ``roles`` of the topics that it is asked about. ``severity`` is None if the
    answer decides.
    """

    asked: Occasion
    kind: str
    severity: Severity | None = None
    roles: frozenset[TopicRole] = frozenset(TopicRole)

    @property
    def made(self) -> bool:
        """True where the topics are those that a restore makes."""
        return self.asked is Occasion.RESTORE


@dataclass(frozen=True, slots=True)
class CatalogueCheck(Generic[F_contra]):
    """A ``question``, the ``places`` where it is asked, and the function that answers it for one of them. ``severities`` are those that its answers have by
    themselves. ``apart`` says where nearly the same is asked otherwise on purpose, in sentences.
    """

    question: str
    find: Callable[[F_contra, CheckPlace], Iterable[Found]]
    places: tuple[CheckPlace, ...]
    severities: tuple[Severity, ...] = (Severity.WARNING,)
    apart: str = ""

    def ask(self, asked: Occasion, facts: F_contra) -> Iterator[tuple[CheckPlace, Found]]:
        """The answers in a place, as severe as they are there. Empty if the check is not asked there."""
        for place in self.places:
            if place.asked is asked:
                for found in self.find(facts, place):
                    yield place, found if place.severity is None else replace(found, severity=place.severity)

    def kinds(self, asked: Occasion) -> tuple[str, ...]:
        """The kinds of its findings in a place."""
        return tuple(place.kind for place in self.places if place.asked is asked)
