"""How advice is worded: the finding, and the commands that carry it out."""

from __future__ import annotations

from streams_recovery.core import words
from streams_recovery.core.next_command import shell
from streams_recovery.core.status.advice.facts import AdviceFacts
from streams_recovery.core.status.finding import Severity, StatusFinding

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
