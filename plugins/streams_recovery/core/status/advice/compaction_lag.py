"""Whether the log cleaner may compact changelogs soon enough."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.status.advice.facts import AdviceFacts
from streams_recovery.core.status.advice.words import DAY_SECONDS, advice, set_on_topic, span
from streams_recovery.core.status.finding import Severity, StatusFinding

KIND, CLEANER = "compaction-lag", "log-cleaner"
_LONG_MS = DAY_SECONDS * 1000


def compaction_lag(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Changelogs that keep replaced records for more than a day by their owner's setting. Holds of savepoints do not count."""
    for topic in facts.of(TopicRole.CHANGELOG):
        lag = topic.number("min.compaction.lag.ms")
        if not topic.compacted or lag is None or lag <= _LONG_MS:
            continue
        yield advice(
            KIND,
            Severity.WARNING,
            f"{topic.name} keeps every record for {span(lag)} before it may be compacted (min.compaction.lag.ms). A restore, and an instance without local "
            "state, read what newer records have replaced long ago.",
            subject=topic.name,
            remedies=(set_on_topic(facts, topic.name, "min.compaction.lag.ms", 0),),
            lag_seconds=lag / 1000,
        )


def log_cleaner(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Brokers whose log cleaner is off: nothing is ever compacted."""
    if facts.broker.get("log.cleaner.enable") == "false":
        yield advice(
            CLEANER,
            Severity.CRITICAL,
            "The brokers' log cleaner is off (log.cleaner.enable=false). Changelogs grow without end, and restores with them. Set "
            "log.cleaner.enable=true in server.properties and restart the brokers.",
        )
