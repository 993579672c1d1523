"""What the advisor has looked up, without a judgement: topics, brokers, and what the configuration says of the application.

How advice is worded: the finding, and the commands that carry it out. What cannot be seen from outside the application.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from streams_recovery.core import words
from streams_recovery.core.kafka_types import Guarantee, TopicRole
from streams_recovery.core.status.report import Severity, StatusFinding
from streams_recovery.core.words import shell


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceTopic:
    """One topic. ``settings`` are those in force, defaults included, with what its owner had set where a hold is in force.
    ``archived`` tells whether savepoints have its records. ``offsets`` of each partition are those between the start and the end of its log, and ``replicas``
    are the ids of the brokers that have it.
    """

    name: str
    role: TopicRole
    archived: bool
    settings: Mapping[str, str]
    offsets: tuple[int, ...]
    replicas: tuple[tuple[int, ...], ...]

    @property
    def replication_factor(self) -> int:
        """How many brokers have a partition; the fewest, where partitions differ."""
        return min(map(len, self.replicas), default=0)

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
    """All of it. ``unreadable`` topics may not be described. ``broker`` has the settings of one broker, empty when they may not be read.
    ``interval_seconds`` is the longest time between two scheduled savepoints, ``down_seconds`` between two scheduled runs of an application that is down in
    between; None where nothing is scheduled. ``streams`` are settings of the application by Kafka Streams' names, as far as the configuration tells them:
    nobody can read them from outside.
    """

    application_id: str
    bootstrap_servers: str
    topics: tuple[AdviceTopic, ...]
    unreadable: tuple[str, ...]
    broker_ids: tuple[int, ...]
    broker: Mapping[str, str]
    interval_seconds: float | None
    down_seconds: float | None
    guarantee: Guarantee
    commit_interval_ms: int
    capture_seconds: float
    standbys: int
    pauses: bool
    session_timeout_ms: int
    state_directories: tuple[str, ...]
    streams: Mapping[str, str]

    @property
    def brokers(self) -> int:
        """How many brokers are up."""
        return len(self.broker_ids)

    def of(self, *roles: TopicRole) -> Iterator[AdviceTopic]:
        """Topics with one of ``roles``."""
        return (topic for topic in self.topics if topic.role in roles)

    @property
    def internal(self) -> Iterator[AdviceTopic]:
        """Changelog and repartition topics."""
        return (topic for topic in self.topics if topic.role.internal)

    @property
    def changelog_offsets(self) -> int:
        """Offsets of all changelogs: at most so many records does an instance without local state read."""
        return sum(sum(topic.offsets) for topic in self.of(TopicRole.CHANGELOG))


def as_number(text: str | None) -> int | None:
    """A whole number, None for anything else."""
    return int(text) if text is not None and text.removeprefix("-").isdecimal() else None


PAGE = "advisor.md"
DAY_SECONDS = 86_400


def advice(
    kind: str, severity: Severity, text: str, *, subject: str = "", remedies: tuple[str, ...] = (), **numbers: float
) -> StatusFinding:
    """One piece of advice. Its section on the page has the name of its kind."""
    return StatusFinding(
        kind=kind, severity=severity, subject=subject, text=text, remedies=remedies, runbook=f"{PAGE}#{kind}", numbers=dict(numbers)
    )


def set_on_topic(facts: AdviceFacts, topic: str, setting: str, value: object) -> str:
    """The command that sets one setting of a topic."""
    return _configs(facts, "topics", "--entity-name", topic, "--add-config", f"{setting}={value}")


def set_on_brokers(facts: AdviceFacts, setting: str, value: object) -> str:
    """The command that sets one setting of all brokers, for those that can be changed while they run."""
    return _configs(facts, "brokers", "--entity-default", "--add-config", f"{setting}={value}")


def span(milliseconds: float) -> str:
    """A length of time as people say it. Below zero it has no end."""
    if milliseconds < 0:
        return "for ever"
    return words.span(milliseconds / 1000)


def _configs(facts: AdviceFacts, entity: str, *words: str) -> str:
    connect = ("--bootstrap-server", facts.bootstrap_servers, "--command-config", "admin.properties")
    return shell("kafka-configs.sh", *connect, "--alter", "--entity-type", entity, *words)


UNSEEN_KIND = "settings-not-known"
_ASKED = ("acceptable.recovery.lag", "restore.consumer.max.poll.records", "rocksdb.config.setter")
_TRANSACTIONS = "producer.transaction.timeout.ms"


def settings_not_known(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Settings of the application that advice depends on and that the configuration does not tell. Those that it tells are believed."""
    wanted = [*_ASKED, *([_TRANSACTIONS] if facts.guarantee is Guarantee.EXACTLY_ONCE_V2 else [])]
    unknown = [name for name in wanted if name not in facts.streams]
    if facts.streams or not unknown:
        return
    yield advice(
        UNSEEN_KIND,
        Severity.INFO,
        f"No broker knows the application's own settings, so Kafka Streams' defaults are assumed for {', '.join(unknown)}. What the application sets can be "
        "written under application.streams_config.",
        unknown=len(unknown),
    )
