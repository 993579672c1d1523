"""Findings of a preflight check, and the facts that it has read: the cluster, its topics and the application."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streams_recovery.core.errors import RecoveryError, Refused
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.remedies.remedy import Remedy, as_refused

MIN_IN_SYNC, UNCLEAN, TIMESTAMP_TYPE, MAX_MESSAGE = (
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "message.timestamp.type",
    "max.message.bytes",
)
CLEANUP = "cleanup.policy"
AUTO_CREATE = "auto.create.topics.enable"
# The broker setting that applies to a topic without an override.
BROKER_DEFAULTS = {
    MIN_IN_SYNC: MIN_IN_SYNC,
    UNCLEAN: UNCLEAN,
    TIMESTAMP_TYPE: "log.message.timestamp.type",
    MAX_MESSAGE: "message.max.bytes",
}
LOG_APPEND = "LogAppendTime"


class PreflightSeverity(enum.StrEnum):
    """``blocking``: the run would fail or do harm. ``warning``: the run would work, but a person should know."""

    BLOCKING = "blocking"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightFinding:
    """One finding and what to do about it. ``kind`` is a word that scripts can compare. Where the remedy has a command, the ``text`` ends with its words."""

    severity: PreflightSeverity
    kind: str
    text: str
    remedy: Remedy

    @property
    def is_command(self) -> bool:
        """True where ``next_step`` is a complete command."""
        return bool(self.remedy.commands)

    @property
    def next_step(self) -> str:
        """What to do: the command where there is one, or else the words."""
        return self.remedy.commands[0] if self.remedy.commands else self.remedy.text

    @property
    def shown(self) -> dict[str, object]:
        """The finding for scripts."""
        return {
            "severity": self.severity.value,
            "kind": self.kind,
            "text": self.text,
            "remedy": self.next_step,
            "is_command": self.is_command,
        }

    def __str__(self) -> str:
        return f"{self.text}: {self.next_step}"


def blocking(findings: Iterable[PreflightFinding]) -> tuple[PreflightFinding, ...]:
    """The blocking findings."""
    return tuple(found for found in findings if found.severity is PreflightSeverity.BLOCKING)


def required(findings: Iterable[PreflightFinding], doing: str, *, look_again: Iterable[str] = ()) -> tuple[str, ...]:
    """The warnings as texts. Raises ``Refused`` with all blocking findings at once. ``doing`` is the start of the sentence "... cannot begin".
    ``look_again`` is the command that shows what is left, where there is one.
    """
    findings = tuple(findings)
    stopping = blocking(findings)
    if stopping:
        raise Refused(
            f"{doing} cannot begin, nothing was changed. "
            + " ".join(f"({at}) {found.text if found.is_command else found}." for at, found in enumerate(stopping, 1)),
            next_step="correct all of it, then run again",
            kinds=[found.kind for found in stopping],
            findings=[str(found) for found in stopping],
        ).then(*dict.fromkeys(found.next_step for found in stopping if found.is_command), *look_again)
    return tuple(str(found) for found in findings)


def warning(kind: str, text: str, remedy: Remedy) -> PreflightFinding:
    """A finding that only warns."""
    return PreflightFinding(severity=PreflightSeverity.WARNING, kind=kind, text=text, remedy=remedy)


def blocking_finding(kind: str, text: str, remedy: Remedy) -> PreflightFinding:
    """A finding that blocks."""
    return PreflightFinding(severity=PreflightSeverity.BLOCKING, kind=kind, text=text, remedy=remedy)


def refused(kind: str, error: RecoveryError) -> PreflightFinding:
    """A finding that blocks, of what was asked as the run would ask it."""
    return blocking_finding(kind, error.reason, as_refused(error.next_step))


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """``brokers`` counts running brokers. ``settings`` are broker settings, empty if they cannot be read. ``metadata_level`` is the highest level of
    ``metadata.version`` that the broker supports, which shows its release; None if the broker does not report it.
    """

    brokers: int
    settings: Mapping[str, str]
    metadata_level: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """An existing topic. ``settings`` are the effective settings, including defaults; empty if they cannot be read."""

    name: str
    role: TopicRole
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationFacts:
    """``application_id`` is that of the target. ``group_kind`` is as in ``GroupDescription``."""

    application_id: str
    group_kind: str
