"""What of an input a restore of the newest exact savepoint needs from the topic itself, and what of that is gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from streams_recovery.core.lag import Lag
from streams_recovery.core.repository.manifest import TopicImage
from streams_recovery.core.status.facts import InputState


@dataclass(frozen=True, slots=True, kw_only=True)
class InputLogs:
    """The logs of one topic by partition, with what the group has committed there. ``first_times`` are timestamps (ms) of the records at
    ``first_unsaved``, as far as they are known.
    """

    lags: Mapping[int, Lag]
    first_times: Mapping[int, int] = field(default_factory=dict)


def needed_from(image: TopicImage) -> dict[int, int]:
    """From which offset on a restore of a savepoint needs the topic, by partition: behind what is archived, or else behind what was read."""
    if image.archived:
        return {part.partition: part.end for part in image.partitions}
    return _read_at(image)


def first_unsaved(logs: InputLogs, image: TopicImage | None) -> dict[int, int]:
    """The first offset that no savepoint has and that is still to be read, by partition: of an archived topic by a restore behind the archive, of another
    one by the application or a restore. Partitions without such an offset are left out, and so are those in which nothing was ever committed: where the
    application begins there is not known.
    """
    needed = needed_from(image) if image is not None else {}
    archived = needed if image is not None and image.archived else {}
    known = {
        partition: [archived[partition]]
        if partition in archived
        else [offset for offset in (needed.get(partition), lag.committed) if offset is not None]
        for partition, lag in logs.lags.items()
    }
    first = {partition: replace(logs.lags[partition], committed=min(offsets)) for partition, offsets in known.items() if offsets}
    return {partition: lag.position for partition, lag in first.items() if lag.left}


def retention_seconds(settings: Mapping[str, str]) -> float | None:
    """After how long a topic with these settings deletes records, None when it does not, or by size only."""
    retention = int(settings.get("retention.ms", "-1"))
    return retention / 1000 if "delete" in settings.get("cleanup.policy", "delete") and retention >= 0 else None


def input_state(topic: str, logs: InputLogs, settings: Mapping[str, str], image: TopicImage | None, captured_at: int) -> InputState:
    """``image`` is the topic in the newest exact savepoint, captured at ``captured_at``; None without one, or when the topic was made again since."""
    needed = _from(logs, needed_from(image) if image is not None else {})
    read = _from(logs, _read_at(image) if image is not None else {})
    return InputState(
        topic=topic,
        retention_seconds=retention_seconds(settings),
        needed_since=_needed_since(logs, image, captured_at),
        lost=sum(lag.gone for lag in needed),
        unread=sum(lag.gone for lag in logs.lags.values()),
        since_savepoint=sum(lag.behind for lag in read),
    )


def _from(logs: InputLogs, offsets: Mapping[int, int]) -> list[Lag]:
    """How far somebody is behind who reads from these offsets on."""
    return [replace(lag, committed=offsets[partition]) for partition, lag in logs.lags.items() if partition in offsets]


def _needed_since(logs: InputLogs, image: TopicImage | None, captured_at: int) -> int | None:
    first = first_unsaved(logs, image)
    # Retention goes by the times of records, which may be older than the savepoint. Of one that could not be read nothing better than that is known.
    otherwise = {} if image is None else dict.fromkeys(first, captured_at)
    return min((otherwise | {partition: at for partition, at in logs.first_times.items() if partition in first}).values(), default=None)


def _read_at(image: TopicImage) -> dict[int, int]:
    return {part.partition: part.committed.offset for part in image.partitions if part.committed is not None}
