"""Findings of a preflight check, and the facts that it has read: the cluster, its topics and the application."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicRole

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
    """One finding and what to do about it. ``kind`` is a word that scripts can compare. With ``is_command`` the ``remedy`` is a complete command."""

    severity: PreflightSeverity
    kind: str
    text: str
    remedy: str
    is_command: bool = False

    def __str__(self) -> str:
        return f"{self.text}: {self.remedy}"


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
        ).then(*dict.fromkeys(found.remedy for found in stopping if found.is_command), *look_again)
    return tuple(str(found) for found in findings)


def warning(kind: str, text: str, remedy: str) -> PreflightFinding:
    """A finding that only warns."""
    return PreflightFinding(severity=PreflightSeverity.WARNING, kind=kind, text=text, remedy=remedy)


def blocking_finding(kind: str, text: str, remedy: str) -> PreflightFinding:
    """A finding that blocks."""
    return PreflightFinding(severity=PreflightSeverity.BLOCKING, kind=kind, text=text, remedy=remedy)


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
