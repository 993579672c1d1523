"""What of an input a restore of the newest exact savepoint needs from the topic itself, and what of that is gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streams_recovery.core.repository.manifest import TopicImage
from streams_recovery.core.status.facts import InputState


@dataclass(frozen=True, slots=True, kw_only=True)
class InputLogs:
    """The logs of one topic by partition: where they start and end, and what the group has committed there."""

    starts: Mapping[int, int]
    ends: Mapping[int, int]
    committed: Mapping[int, int]


def needed_from(image: TopicImage) -> dict[int, int]:
    """From which offset on a restore of a savepoint needs the topic, by partition: behind what is archived, or else behind what was read."""
    if image.archived:
        return {part.partition: part.end for part in image.partitions}
    return _read_at(image)


def retention_seconds(settings: Mapping[str, str]) -> float | None:
    """After how long a topic with these settings deletes records, None when it does not, or by size only."""
    retention = int(settings.get("retention.ms", "-1"))
    return retention / 1000 if "delete" in settings.get("cleanup.policy", "delete") and retention >= 0 else None


def input_state(topic: str, logs: InputLogs, settings: Mapping[str, str], image: TopicImage | None, captured_at: int) -> InputState:
    """``image`` is the topic in the newest exact savepoint, captured at ``captured_at``; None without one, or when the topic was made again since."""
    needed = needed_from(image) if image is not None else {}
    known = [partition for partition in logs.ends if partition in needed]
    read = _read_at(image) if image is not None else {}
    return InputState(
        topic=topic,
        retention_seconds=retention_seconds(settings),
        needed_since=captured_at if any(logs.ends[partition] > needed[partition] for partition in known) else None,
        lost=sum(max(0, logs.starts[partition] - needed[partition]) for partition in known),
        unread=sum(max(0, logs.starts[partition] - offset) for partition, offset in logs.committed.items()),
        since_savepoint=sum(max(0, end - read[partition]) for partition, end in logs.ends.items() if partition in read),
    )


def _read_at(image: TopicImage) -> dict[int, int]:
    return {part.partition: part.committed.offset for part in image.partitions if part.committed is not None}
