"""States what the cut of a held application assumes, if the application does not report it; and what is proven of one that a run is said to have stopped.

Without transactions nothing on the cluster shows whether everything that was processed is also committed. After a pause that is certain once a commit
interval has passed; after a stop, if Kafka Streams was closed first. If an application reports both, that is used. Otherwise it is assumed, and the
savepoint says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import Guarantee
from streams_recovery.core.repository.manifest import CopiedRange
from streams_recovery.core.timestamps import moment
from streams_recovery.core.words import first_names

BELIEVED_MS = 86_400_000
MOST_COMMIT_INTERVAL_MS: Final = 3_600_000


def commit_interval(reported: Mapping[str, int | None], configured_ms: int) -> int:
    """The longest time (ms) until an application commits: the longest interval that an instance reports. If an instance reports none, at least the
    configured one. Raises ``Refused`` for an interval that no configuration may have: the application would be held for as long as an instance likes.
    """
    beyond = {name: interval for name, interval in reported.items() if interval is not None and interval > MOST_COMMIT_INTERVAL_MS}
    if beyond:
        raise Refused(
            f"{', '.join(f'{name} reports a commit interval of {interval} ms' for name, interval in sorted(beyond.items()))}, and {MOST_COMMIT_INTERVAL_MS} ms "
            "is the longest that a pause waits for",
            next_step="correct what it reports as commit_interval_ms, or set backup.consistency.mode: stop",
            intervals=beyond,
        )
    known = [interval for interval in reported.values() if interval is not None]
    return max(known) if known and len(known) == len(reported) else max([*known, configured_ms])


def of_pause(guarantee: Guarantee, reported: Mapping[str, int | None], configured_ms: int) -> tuple[str, ...]:
    """The assumptions behind the label of a paused application's cut, as sentences."""
    silent = sorted(name for name, interval in reported.items() if interval is None)
    if guarantee is Guarantee.EXACTLY_ONCE_V2 or not silent:
        return ()
    return (
        f"its label assumes that {', '.join(silent)} commits every {configured_ms} ms, as application.commit_interval_ms says: it does not report its interval",
    )


def of_stop(guarantee: Guarantee, silent: Iterable[str], closed: str) -> tuple[str, ...]:
    """The assumptions behind the label of a stopped application's cut, as sentences. ``silent`` instances did not report that they were closed; ``closed`` is
    what is assumed of them.
    """
    names = sorted(silent)
    if guarantee is Guarantee.EXACTLY_ONCE_V2 or not names:
        return ()
    return (f"its label assumes that {', '.join(names)} {closed}",)


def deletions_kept(copied: Iterable[tuple[CopiedRange, int]], known: int | None, last: int) -> int | None:
    """The moment since which a topic that shares files with the savepoint of ``last`` takes for granted that no deletion was cleaned away, None when the
    log proves that none was. ``copied`` are the ranges that were read since, each with what a consumer received of it, ``known`` is what that savepoint took
    for granted.

    The cleaner keeps a deletion for as long as ``delete.retention.ms`` says at the time when it comes by, and nothing in Kafka tells what the setting was
    then. So where the setting was lowered and put back between two savepoints, only a missing offset is left of a deletion, and the shared files bring
    the key back. A missing offset is explained when the consumer received something for each offset: a record or the marker of a transaction.
    """
    if known is not None:
        return known
    return last if any(fetched != piece.end - piece.start for piece, fetched in copied) else None


def of_deletions(since: Mapping[str, int]) -> tuple[str, ...]:
    """The assumption of a savepoint whose topics take that for granted since these moments, as a sentence."""
    if not since:
        return ()
    have, after = "has" if len(since) == 1 else "have", moment(min(since.values()))
    said = (
        f"{first_names(sorted(since))} {have} the records of several savepoints, and offsets in between are missing. It is assumed that the log cleaner "
        f"removed only values that were written again: if delete.retention.ms was lowered for a while after {after} and put back before the next "
        "savepoint, keys that were deleted then come back. A savepoint that copies in full assumes nothing"
    )
    return (said,)


def why_not_brought_back(stopped_here: Mapping[str, bool | None], *, age_ms: int, between_runs: bool) -> str | None:
    """Why an application is not started again although a record says that a dead run has stopped it, None when it may be. ``stopped_here`` has, of the
    instances in the record that are gone, whether this software asked them to end. A record is data, so this is what counts; where nobody keeps it, a record
    is believed for a day. ``between_runs``: the application is down between two of its own runs, and no savepoint stops what is down.
    """
    if between_runs and stopped_here:
        return "it is down between two of its runs"
    if not stopped_here or any(stopped_here.values()):
        return None
    if any(asked is not None for asked in stopped_here.values()):
        return f"{', '.join(sorted(stopped_here))} were not stopped by this software, so somebody else has stopped them"
    return None if 0 <= age_ms <= BELIEVED_MS else "the record is older than a day or of the future, and nothing else says who stopped it"
