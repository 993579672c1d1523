"""What a cut of a held application rests on where the application does not say it itself.

Without transactions nothing on the cluster shows whether all that was processed is committed. After a pause that is known when a commit interval has passed,
and after an end when Kafka Streams was closed before. An application that reports both is believed; for any other it is assumed, and said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streams_recovery.core.kafka_types import Guarantee


def commit_interval(reported: Mapping[str, int | None], configured_ms: int) -> int:
    """How long (ms) an application commits at the latest: the longest interval that an instance reports. As long as one reports none, not shorter than the
    configured one.
    """
    known = [interval for interval in reported.values() if interval is not None]
    return max(known) if known and len(known) == len(reported) else max([*known, configured_ms])


def of_pause(guarantee: Guarantee, reported: Mapping[str, int | None], configured_ms: int) -> tuple[str, ...]:
    """What the label of a paused application's cut rests on, in sentences."""
    silent = sorted(name for name, interval in reported.items() if interval is None)
    if guarantee is Guarantee.EXACTLY_ONCE_V2 or not silent:
        return ()
    return (
        f"its label assumes that {', '.join(silent)} commits every {configured_ms} ms, as application.commit_interval_ms says: it does not report its interval",
    )


def of_stop(guarantee: Guarantee, silent: Iterable[str]) -> tuple[str, ...]:
    """What the label of a stopped application's cut rests on, in sentences. ``silent`` instances did not say that Kafka Streams was closed."""
    names = sorted(silent)
    if guarantee is Guarantee.EXACTLY_ONCE_V2 or not names:
        return ()
    return (
        f"its label assumes that {', '.join(names)} closed Kafka Streams before it ended, as its exit status says: it did not say so itself",
    )
