"""Time-outs of transactions and of sessions, against how long a savepoint and a restore wait."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.kafka_types import Guarantee
from streams_recovery.core.status.advice.facts import AdviceFacts, as_number
from streams_recovery.core.status.advice.words import advice, span
from streams_recovery.core.status.finding import Severity, StatusFinding

KIND, SESSION = "transaction-timeout", "session-timeout"
_TIMEOUT = "producer.transaction.timeout.ms"
# What Kafka Streams sets where the application sets nothing (StreamsConfig).
_DEFAULT_MS = 10_000
_LONG_SESSION_MS = 120_000


def transaction_timeout(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Transactions that a dead instance leaves open for longer than a savepoint waits, or than the brokers or the application allow."""
    if facts.guarantee is not Guarantee.EXACTLY_ONCE_V2:
        return
    timeout = as_number(facts.streams.get(_TIMEOUT, facts.streams.get("transaction.timeout.ms"))) or _DEFAULT_MS
    most = as_number(facts.broker.get("transaction.max.timeout.ms"))
    if most is not None and timeout > most:
        yield _advice(
            Severity.CRITICAL,
            f"and the brokers allow {span(most)} (transaction.max.timeout.ms): the application cannot start",
            timeout,
            most,
        )
    elif timeout <= facts.commit_interval_ms:
        yield _advice(
            Severity.CRITICAL,
            f"and it commits every {span(facts.commit_interval_ms)} (commit.interval.ms): brokers abort its transactions before it commits them",
            timeout,
            facts.commit_interval_ms,
        )
    elif timeout > facts.capture_seconds * 1000:
        limit = facts.capture_seconds * 1000
        yield _advice(
            Severity.WARNING,
            f"and a savepoint waits {span(limit)} (backup.consistency.timeout_seconds): after an instance died, savepoints fail until the brokers abort "
            "what it left open",
            timeout,
            limit,
        )


def _advice(severity: Severity, against: str, timeout: float, limit: float) -> StatusFinding:
    return advice(
        KIND,
        severity,
        f"A transaction of the application may stay open for {span(timeout)} ({_TIMEOUT}), {against}. It is a setting of the application.",
        timeout_seconds=timeout / 1000,
        limit_seconds=limit / 1000,
    )


def session_timeout(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Sessions that are so long that a dead instance holds its partitions for minutes."""
    timeout = facts.session_timeout_ms
    if timeout > _LONG_SESSION_MS:
        yield advice(
            SESSION,
            Severity.INFO,
            f"The group notices the death of an instance after {span(timeout)} (application.session_timeout_ms). Its partitions stand still until then, and "
            "a restore waits as long for the group to become empty. It is a setting of the application: session.timeout.ms.",
            timeout_seconds=timeout / 1000,
        )
