"""Settings of brokers that no command changes while they run: topics that make themselves, and how long offsets of an idle group are kept."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.preflight.facts import AUTO_CREATE
from streams_recovery.core.status.advice.facts import AdviceFacts, as_number
from streams_recovery.core.status.advice.words import DAY_SECONDS, advice, span
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.words import first_names

AUTO_CREATION, OFFSETS, UNREADABLE = "auto-topic-creation", "offsets-retention", "settings-not-readable"
_WEEK_SECONDS = 7 * DAY_SECONDS


def auto_topic_creation(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Brokers that create a topic for whoever names it."""
    if facts.broker.get(AUTO_CREATE) == "true":
        yield advice(
            AUTO_CREATION,
            Severity.WARNING,
            f"The brokers create topics on first use ({AUTO_CREATE}=true). While a restore has deleted a topic, a client that is still running makes it "
            f"again with the wrong partitions and settings. Set {AUTO_CREATE}=false in server.properties and restart the brokers one by one.",
        )


def offsets_retention(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Brokers that forget the offsets of a group that is down for some days."""
    minutes = as_number(facts.broker.get("offsets.retention.minutes"))
    if minutes is None:
        return
    kept, down = minutes * 60, facts.down_seconds
    if down is None and kept >= _WEEK_SECONDS:
        return
    if down is not None and kept >= 2 * down:
        return
    often = "" if down is None else f", and {facts.application_id} runs every {span(down * 1000)}"
    yield advice(
        OFFSETS,
        Severity.CRITICAL if down is not None and kept < down else Severity.WARNING,
        f"The brokers forget the offsets of a group without members after {span(kept * 1000)} (offsets.retention.minutes){often}. An application that is "
        "down for longer does not know where it was. Set offsets.retention.minutes in server.properties and restart the brokers one by one.",
        kept_seconds=kept,
    )


def settings_not_readable(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """What there is no advice about, because the user of the connection may not look."""
    unseen = [*(["the brokers"] if not facts.broker else []), *facts.unreadable]
    if unseen:
        yield advice(
            UNREADABLE,
            Severity.INFO,
            f"The settings of {first_names(unseen)} may not be read, so there is no advice "
            "about them. `streams-recovery preflight` has the command that grants the right.",
            unreadable=len(unseen),
        )
