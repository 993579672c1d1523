"""The settings of a topic that a restore makes, so that the settings in force before stay in force.

The topic gets every override that its owner had set, but those of the place and those that the target does not take. If a broker's default had decided what the
topic keeps and takes, and the target's default differs, the old value becomes an override. The plan names all that is left out or set so. A plan is refused if
the target does not take a setting without which records would go or would not be taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from streams_recovery.core.repository.manifest import TopicImage
from streams_recovery.core.topic_settings import of_the_place
from streams_recovery.core.words import first_names

_POLICY: Final = "cleanup.policy"
_LARGEST: Final = "max.message.bytes"
_IN_SYNC: Final = "min.insync.replicas"
# Settings that stay in force, with the cleanup policy that makes them count.
_KEPT: Final = {
    _POLICY: "",
    "retention.ms": "delete",
    "retention.bytes": "delete",
    "delete.retention.ms": "compact",
    "min.compaction.lag.ms": "compact",
    "message.timestamp.type": "",
    "message.timestamp.before.max.ms": "",
    "message.timestamp.after.max.ms": "",
}
# A line of the plan: what is said before the names of topics and behind them.
_Said = tuple[str, str]
# Bytes of a batch besides its record, and what compression may add.
_BATCH_BYTES: Final = 1_024
_MOST: Final = 2**31 - 1
# Kafka's default.
_LARGEST_BY_DEFAULT: Final = 1_048_588


class Override(NamedTuple):
    """A setting of a topic with a value."""

    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings:
    """The settings of topics at the cluster where they are made. ``refused`` are overrides that it does not take, with its reason. ``defaults`` are what a
    topic without overrides has there, without those that are not known, or that are not the same on all brokers.
    """

    refused: Mapping[Override, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)


def agreed(brokers: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The settings that all ``brokers`` have with one value."""
    several = list(brokers)
    return {name: value for name, value in several[0].items() if all(one.get(name) == value for one in several)} if several else {}


def to_ask(topics: Iterable[TopicImage], defaults: Mapping[str, str]) -> frozenset[Override]:
    """The overrides that these topics would get, each of which a target has to be asked for, with ``defaults`` as in ``TargetSettings``."""
    target = TargetSettings(defaults=defaults)
    return frozenset(
        override
        for topic in topics
        for override in (
            *(Override(name, value) for name, value in topic.config.items() if not of_the_place(name)),
            *(Override(name, value) for name, value in _in_force(topic, target).items()),
            *_rooms(topic, target),
        )
    )


def restored_overrides(topic: TopicImage, target: TargetSettings) -> dict[str, str]:
    """The overrides that a topic gets when it is made again."""
    own = {name: value for name, value in topic.config.items() if not of_the_place(name) and Override(name, value) not in target.refused}
    return own | _taken(_in_force(topic, target), target) | _room(topic, target)


def left_out(topics: Mapping[str, TopicImage], target: TargetSettings) -> tuple[str, ...]:
    """Warnings about overrides that do not come back, of topics by the names that they get."""
    return _lines(topics, lambda topic: _own(topic, target))


def setting_warnings(topics: Mapping[str, TopicImage], target: TargetSettings) -> tuple[str, ...]:
    """Warnings about settings of these topics, one for each setting: overrides that do not come back, those that are set for the first time, and what a person
    has to decide.
    """
    return _lines(
        topics, lambda topic: (*_own(topic, target), *_of_brokers(topic, target), *_about_room(topic, target), *_lower(topic, target))
    )


def lost_settings(topics: Mapping[str, TopicImage], target: TargetSettings) -> tuple[str, ...]:
    """The settings of these topics that the target does not take, and without which records would go or not be taken: see ``_NEEDED``."""
    return _lines(topics, lambda topic: _lost(topic, target))


def _lines(topics: Mapping[str, TopicImage], said: Callable[[TopicImage], Iterable[_Said]]) -> tuple[str, ...]:
    """One line for all topics of which the same is said."""
    found: dict[_Said, list[str]] = {}
    for name, topic in topics.items():
        for one in said(topic):
            found.setdefault(one, []).append(name)
    return tuple(f"{before} {first_names(found[before, after])}{after}" for before, after in sorted(found))


def _own(topic: TopicImage, target: TargetSettings) -> Iterator[_Said]:
    for override in (Override(name, value) for name, value in topic.config.items()):
        if of_the_place(override.name):
            yield (
                f"{override} of",
                " is not set again: it belongs to the cluster that the topic was on; set it by hand where it is meant here too",
            )
        elif override in target.refused and override.name not in _room(topic, target):
            yield (
                f"{override} of",
                f" is not set again, this cluster does not take it ({target.refused[override]}): what it has by default counts",
            )


def _of_brokers(topic: TopicImage, target: TargetSettings) -> Iterator[_Said]:
    for override in (Override(name, value) for name, value in _in_force(topic, target).items()):
        if override in target.refused:
            yield f"{override} is not set on", f", where it counted: this cluster does not take it ({target.refused[override]})"
        else:
            yield f"{override} is set on", f": that was in force there, and {_here(override.name, target)}"


def _about_room(topic: TopicImage, target: TargetSettings) -> Iterator[_Said]:
    own = topic.config.get(_LARGEST)
    wanted = [Override(_LARGEST, own)] if own is not None and Override(_LARGEST, own) in target.refused else [*_rooms(topic, target)[:1]]
    room = _room(topic, target)
    if wanted and not room and own is None:
        yield (
            f"{wanted[0]} is not set on",
            f", where it counted or records are as large: this cluster does not take it ({target.refused[wanted[0]]})",
        )
    for override in (Override(name, value) for name, value in room.items()):
        why = next(
            (f"of {one.value}, which counted there, this cluster says: {target.refused[one]}" for one in wanted if one != override), ""
        )
        yield f"{override} is set on", f", for records that it has or could take: {why or _here(_LARGEST, target)}"


def _lower(topic: TopicImage, target: TargetSettings) -> Iterator[_Said]:
    was, here = topic.in_force.get(_IN_SYNC), target.defaults.get(_IN_SYNC)
    if was is not None and here is not None and _IN_SYNC not in topic.config and _whole(here) < _whole(was.value):
        yield (
            f"{Override(_IN_SYNC, was.value)} was in force on",
            f" by the brokers there, and {_here(_IN_SYNC, target)}: set it here where it is meant",
        )


def _lost(topic: TopicImage, target: TargetSettings) -> Iterator[_Said]:
    for override in (Override(name, value) for name, value in (topic.config | _in_force(topic, target)).items()):
        needed = _NEEDED.get(override.name)
        if needed is not None and override in target.refused and _counts(override.name, topic):
            here = target.defaults.get(override.name)
            if not needed.enough(override.value, here):
                yield f"{override} of", f" ({target.refused[override]}; {_here(override.name, target)}): {needed.without}"
    rooms, here = _rooms(topic, target), target.defaults.get(_LARGEST)
    if rooms and not _room(topic, target) and _whole(rooms[-1].value) > (_LARGEST_BY_DEFAULT if here is None else _whole(here)):
        yield f"{rooms[-1]} of", f" ({target.refused[rooms[-1]]}; {_here(_LARGEST, target)}): its largest record would not be taken"


def room_for(largest_record: int) -> int:
    """``max.message.bytes`` of a topic that takes such a record, however badly it can be compressed."""
    return min(largest_record + largest_record // 128 + _BATCH_BYTES, _MOST)


def largest_record(topic: TopicImage) -> int:
    """The bytes of the largest record that is archived of it."""
    return max((partition.ranges.facts.largest_record for partition in topic.partitions), default=0)


def _in_force(topic: TopicImage, target: TargetSettings) -> dict[str, str]:
    """Overrides that keep in force what brokers had decided. A broker's setting that the target has too needs none."""
    return {
        name: was.value
        for name in _KEPT
        if _counts(name, topic)
        and name not in topic.config
        and (was := topic.in_force.get(name)) is not None
        and not _same(was.value, target.defaults.get(name))
    }


def _counts(name: str, topic: TopicImage) -> bool:
    """False for a setting that the topic's cleanup policy makes no use of."""
    policy = topic.config.get(_POLICY, topic.in_force[_POLICY].value if _POLICY in topic.in_force else "")
    return _KEPT.get(name, "") in policy


def _taken(settings: Mapping[str, str], target: TargetSettings) -> dict[str, str]:
    return {name: value for name, value in settings.items() if Override(name, value) not in target.refused}


def _room(topic: TopicImage, target: TargetSettings) -> dict[str, str]:
    """An override that lets the topic take what it took before, and its largest record; or that record alone, where the target takes no more."""
    return dict([one for one in _rooms(topic, target) if one not in target.refused][:1])


def _rooms(topic: TopicImage, target: TargetSettings) -> tuple[Override, ...]:
    own, there, here = topic.config.get(_LARGEST), topic.in_force.get(_LARGEST), target.defaults.get(_LARGEST)
    if own is not None and Override(_LARGEST, own) in target.refused:
        own = None
    least = room_for(largest_record(topic))
    before = _whole(there.value) if there is not None and topic.config.get(_LARGEST) is None else 0
    limit = own or here
    if limit is None:
        if there is None and _LARGEST not in topic.config:
            return ()
        # For brokers that may not be asked: no less than Kafka's own.
        least = max(least, _LARGEST_BY_DEFAULT)
    return tuple(
        Override(_LARGEST, str(size)) for size in dict.fromkeys((max(least, before), least)) if limit is None or _whole(limit) < size
    )


def _here(name: str, target: TargetSettings) -> str:
    """The target's default of a setting, as a part of a sentence."""
    return f"the brokers here have {target.defaults[name]}" if name in target.defaults else "what the brokers here have is not known"


def _same(one: str, other: str | None) -> bool:
    return other is not None and {part.strip() for part in one.split(",")} == {part.strip() for part in other.split(",")}


def _limit(value: str) -> float:
    """A limit as a number, for -1 none."""
    try:
        number = int(value)
    except ValueError:
        return -math.inf
    return math.inf if number < 0 else number


def _whole(value: str) -> int:
    return int(value) if value.isdecimal() else 0


class _Needed(NamedTuple):
    """The demand on a target that does not take a setting: its default must be ``enough`` for the value in force before, None if that is not known. ``without``
    says what would happen else.
    """

    enough: Callable[[str, str | None], bool]
    without: str


def _no_less(was: str, here: str | None) -> bool:
    """A number that is at least as large, -1 is no limit."""
    least = _limit(was)
    return least <= 0 or (here is not None and _limit(here) >= least)


def _no_less_if_known(was: str, here: str | None) -> bool:
    return here is None or _no_less(was, here)


# The settings that a plan is refused without. All others may be left out, with a warning: they say how records are stored and copied, and how long what was
# deleted or replaced stays readable; ``max.message.bytes`` is given as far as the records need it. Brokers before 3.6 know no ``before`` and ``after``: they
# take any timestamp, and what is not taken there is an error that is seen.
_NEEDED: Final[Mapping[str, _Needed]] = {
    _POLICY: _Needed(_same, "records would be deleted that are kept, or kept for ever that are deleted"),
    "retention.ms": _Needed(_no_less, "records would be deleted before their time"),
    "retention.bytes": _Needed(_no_less, "records would be deleted before their time"),
    "min.compaction.lag.ms": _Needed(_no_less, "records of a key would be removed before they are read"),
    "message.timestamp.type": _Needed(_same, "records would get other timestamps"),
    "message.timestamp.before.max.ms": _Needed(_no_less_if_known, "records would not be taken for their timestamps"),
    "message.timestamp.after.max.ms": _Needed(_no_less_if_known, "records would not be taken for their timestamps"),
}
