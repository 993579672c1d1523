"""What cannot be seen from outside the application."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.kafka_types import Guarantee
from streams_recovery.core.status.advice.facts import AdviceFacts
from streams_recovery.core.status.advice.words import advice
from streams_recovery.core.status.finding import Severity, StatusFinding

KIND = "settings-not-known"
_ASKED = ("acceptable.recovery.lag", "restore.consumer.max.poll.records", "rocksdb.config.setter")
_TRANSACTIONS = "producer.transaction.timeout.ms"


def settings_not_known(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Settings of the application that advice depends on and that the configuration does not tell. Those that it tells are believed."""
    wanted = [*_ASKED, *([_TRANSACTIONS] if facts.guarantee is Guarantee.EXACTLY_ONCE_V2 else [])]
    unknown = [name for name in wanted if name not in facts.streams]
    if facts.streams or not unknown:
        return
    yield advice(
        KIND,
        Severity.INFO,
        f"No broker knows the application's own settings, so Kafka Streams' defaults are assumed for {', '.join(unknown)}. What the application sets can be "
        "written under application.streams_config.",
        unknown=len(unknown),
    )
