"""Whether acknowledged records survive the loss of a broker: copies, copies in sync, and who may become leader."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.preflight.facts import MIN_IN_SYNC, UNCLEAN
from streams_recovery.core.status.advice.facts import AdviceFacts, AdviceTopic
from streams_recovery.core.status.advice.replicas import add_replicas
from streams_recovery.core.status.advice.words import advice, set_on_topic
from streams_recovery.core.status.finding import Severity, StatusFinding

REPLICATION, IN_SYNC, UNCLEAN_ELECTION = "replication", "min-insync", "unclean-election"
_REPLICAS = 3


def replication(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Topics with fewer copies than the brokers could hold, up to three."""
    wanted = min(_REPLICAS, facts.brokers)
    for topic in facts.topics:
        copies = topic.replication_factor
        if not 0 < copies < wanted:
            continue
        yield advice(
            REPLICATION,
            Severity.WARNING if copies == 1 else Severity.INFO,
            f"{topic.name} has {copies} of {wanted} possible replicas. {_when_lost(copies)}{_how(topic, wanted)}",
            subject=topic.name,
            remedies=add_replicas(facts, topic, wanted),
            replicas=copies,
            brokers=facts.brokers,
        )


def _when_lost(copies: int) -> str:
    if copies == 1:
        return "The loss of one disk loses its records, and a restore is the only way back. "
    return "While one broker is down for maintenance, one more failure stops or loses it. "


def _how(topic: AdviceTopic, wanted: int) -> str:
    own = (
        f"Set replication.factor={wanted} in the application for topics that Kafka Streams makes from now on, and a"
        if topic.role.internal
        else "A"
    )
    return f"{own}dd replicas to those that are there with kafka-reassign-partitions.sh, which copies them."


def min_in_sync(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Topics that take a record with one copy, or that no broker may be missing for."""
    for topic in facts.topics:
        needed, copies = topic.number(MIN_IN_SYNC), topic.replication_factor
        if needed is None:
            continue
        found = _in_sync(needed, copies)
        if found is None:
            continue
        severity, text = found
        yield advice(
            IN_SYNC,
            severity,
            f"{topic.name} {text}",
            subject=topic.name,
            remedies=(set_on_topic(facts, topic.name, MIN_IN_SYNC, max(1, min(2, copies - 1))),),
            min_insync=needed,
            replicas=copies,
        )


def _in_sync(needed: int, copies: int) -> tuple[Severity, str] | None:
    if needed > copies:
        return Severity.CRITICAL, f"needs {needed} replicas in sync ({MIN_IN_SYNC}) and has {copies}: nothing can be written to it."
    # With two copies, two in sync would stop every write while one broker is down: more copies come first.
    if needed == 1 and copies >= _REPLICAS:
        return (
            Severity.WARNING,
            f"takes a record when one of its {copies} replicas has it ({MIN_IN_SYNC}=1): the loss of that one loses the record.",
        )
    if needed == copies >= _REPLICAS:
        return (
            Severity.WARNING,
            f"needs all of its {copies} replicas in sync ({MIN_IN_SYNC}): while one broker is down nothing can be written to it.",
        )
    return None


def unclean_election(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Topics whose leader may become a replica that lacks records."""
    for topic in facts.topics:
        if topic.settings.get(UNCLEAN) != "true":
            continue
        yield advice(
            UNCLEAN_ELECTION,
            Severity.WARNING,
            f"A replica of {topic.name} that lacks acknowledged records may become its leader ({UNCLEAN}=true). State and committed offsets then belong "
            "to different histories.",
            subject=topic.name,
            remedies=(set_on_topic(facts, topic.name, UNCLEAN, "false"),),
        )
