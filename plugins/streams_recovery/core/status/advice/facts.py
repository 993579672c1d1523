"""Facts that advice is made from, without a judgement: topics, brokers, and the application by its configuration. Also the words of advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from streams_recovery.core import words
from streams_recovery.core.kafka_types import Guarantee, StoreKind, TopicRole
from streams_recovery.core.remedies.remedy import KafkaTools, Remedy
from streams_recovery.core.remedies.topics import TopicAtHand
from streams_recovery.core.status.report import Severity, StatusFinding

DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceTopic:
    """One topic. ``settings`` are those in force, defaults included, with what its owner had set where a hold is in force, and ``overrides`` the names of those
    that its owner has set on the topic itself. ``archived`` tells whether savepoints have its records. ``offsets`` of each partition are those between the
    start and the end of its log, and ``replicas`` are the ids of the brokers that have it. ``store``, ``held`` and ``attributed``: see ``TopicAtHand``.
    """

    name: str
    role: TopicRole
    archived: bool
    settings: Mapping[str, str]
    overrides: frozenset[str]
    offsets: tuple[int, ...]
    replicas: tuple[tuple[int, ...], ...]
    store: StoreKind
    held: bool
    attributed: bool

    @property
    def at_hand(self) -> TopicAtHand:
        """What a remedy has to know of it."""
        return TopicAtHand(
            name=self.name, role=self.role, store=self.store, held=self.held, attributed=self.attributed, replicas=self.replicas
        )

    def number(self, setting: str) -> int | None:
        """A setting as a number, None when it is not known."""
        return as_number(self.settings.get(setting))

    @property
    def compacted(self) -> bool:
        """True when its policy removes records that newer ones replace."""
        return "compact" in self.settings.get("cleanup.policy", "")

    @property
    def expires(self) -> bool:
        """True when its policy deletes old records."""
        return "delete" in self.settings.get("cleanup.policy", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceFacts:
    """All facts. ``unreadable`` topics may not be described. ``broker`` has the settings of one broker, empty when they may not be read.
    ``interval_seconds`` is the longest time between two scheduled savepoints, ``down_seconds`` between two scheduled runs of an application that is down in
    between; None where nothing is scheduled. ``streams`` are settings of the application by Kafka Streams' names, as far as the configuration tells them:
    nobody can read them from outside. ``racks`` has the brokers that are up, with None for one that does not say its rack. ``deletes_read``: the application
    deletes what it has read from its repartition topics.
    """

    application_id: str
    tools: KafkaTools
    topics: tuple[AdviceTopic, ...]
    unreadable: tuple[str, ...]
    racks: Mapping[int, str | None]
    broker: Mapping[str, str]
    interval_seconds: float | None
    down_seconds: float | None
    guarantee: Guarantee
    commit_interval_ms: int
    capture_seconds: float
    standbys: int
    pauses: bool
    session_timeout_ms: int
    group_kind: str
    state_directories: tuple[str, ...]
    streams: Mapping[str, str]
    deletes_read: bool

    @property
    def brokers(self) -> int:
        """The number of brokers that are up."""
        return len(self.racks)

    def of(self, *roles: TopicRole) -> Iterator[AdviceTopic]:
        """Topics with one of ``roles``."""
        return (topic for topic in self.topics if topic.role in roles)

    @property
    def changelog_offsets(self) -> int:
        """Offsets of all changelogs: at most so many records does an instance without local state read."""
        return sum(sum(topic.offsets) for topic in self.of(TopicRole.CHANGELOG))


def as_number(text: str | None) -> int | None:
    """A whole number, None for anything else."""
    return int(text) if text is not None and text.removeprefix("-").isdecimal() else None


def advice(kind: str, severity: Severity, text: str, *, subject: str = "", remedy: Remedy | None = None, **numbers: float) -> StatusFinding:
    """One piece of advice. Its section on the page has the name of its kind. What to do stands behind the text, with a full stop."""
    said = "" if remedy is None or not remedy.text else f" {remedy.sentence}."
    return StatusFinding(
        kind=kind,
        severity=severity,
        subject=subject,
        text=f"{text}{said}",
        remedies=() if remedy is None else remedy.commands,
        runbook=f"advisor.md#{kind}",
        numbers=dict(numbers),
    )


def span(milliseconds: float) -> str:
    """A length of time as people say it. Below zero it has no end."""
    if milliseconds < 0:
        return "for ever"
    return words.span(milliseconds / 1000)
