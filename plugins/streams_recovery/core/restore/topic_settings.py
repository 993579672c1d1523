"""Which settings a topic gets that a restore makes, so that what was in force on it stays in force.

Every override that its owner had set, but those of the place and those that the target does not take. Where a broker had decided what the topic keeps and
takes, and the brokers of the target decide otherwise, what was in force becomes an override. All that is left out or set so stands in the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
# What a batch has besides its record, and what compression may add.
_BATCH_BYTES: Final = 1_024
_MOST: Final = 2**31 - 1


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
    found = _by_override({name: topic.config for name, topic in topics.items()})
    return (
        *(
            f"{override} of {names} is not set again: it belongs to the cluster that the topic was on; set it by hand where it is meant here too"
            for override, names in found.items()
            if of_the_place(override.name)
        ),
        *(
            f"{override} of {names} is not set again, this cluster does not take it ({target.refused[override]}): what it has by default counts"
            for override, names in found.items()
            if override in target.refused
        ),
    )


def setting_warnings(topics: Mapping[str, TopicImage], target: TargetSettings) -> tuple[str, ...]:
    """Warnings about settings of these topics: overrides that do not come back, those that are set for the first time, and what a person has to decide."""
    wanted = {name: _in_force(topic, target) for name, topic in topics.items()}
    kept = _by_override({name: _taken(settings, target) for name, settings in wanted.items()})
    lost = {
        name: {key: value for key, value in settings.items() if Override(key, value) in target.refused} for name, settings in wanted.items()
    }
    for name, topic in topics.items():
        lost[name] |= {one.name: one.value for one in _rooms(topic, target)[:1] if one in target.refused}
    room = _by_override({name: _room(topic, target) for name, topic in topics.items()})
    lower = {
        name: {_IN_SYNC: topic.in_force[_IN_SYNC].value}
        for name, topic in topics.items()
        if _IN_SYNC in topic.in_force
        and _IN_SYNC not in topic.config
        and _IN_SYNC in target.defaults
        and _whole(target.defaults[_IN_SYNC]) < _whole(topic.in_force[_IN_SYNC].value)
    }
    return (
        *left_out(topics, target),
        *(f"{override} is set on {names}: that was in force there, and {_here(override.name, target)}" for override, names in kept.items()),
        *(
            f"{override} is set on {names}, for records that it has or could take: {_here(override.name, target)}"
            for override, names in room.items()
        ),
        *(
            f"{override} is not set on {names}, where it counted or records are as large: this cluster does not take it ({target.refused[override]})"
            for override, names in _by_override(lost).items()
        ),
        *(
            f"{override} was in force on {names} by the brokers there, and {_here(override.name, target)}: set it here where it is meant"
            for override, names in _by_override(lower).items()
        ),
    )


def room_for(largest_record: int) -> int:
    """``max.message.bytes`` of a topic that takes such a record, however badly it can be compressed."""
    return min(largest_record + largest_record // 128 + _BATCH_BYTES, _MOST)


def largest_record(topic: TopicImage) -> int:
    """The bytes of the largest record that is archived of it."""
    return max((partition.ranges.facts.largest_record for partition in topic.partitions), default=0)


def _in_force(topic: TopicImage, target: TargetSettings) -> dict[str, str]:
    """Overrides that keep in force what brokers had decided. A broker's setting that the target has too needs none."""
    policy = topic.config.get(_POLICY, topic.in_force[_POLICY].value if _POLICY in topic.in_force else "")
    return {
        name: was.value
        for name, needs in _KEPT.items()
        if needs in policy
        and name not in topic.config
        and (was := topic.in_force.get(name)) is not None
        and not _same(was.value, target.defaults.get(name))
    }


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
    if limit is None and there is None:
        return ()
    return tuple(
        Override(_LARGEST, str(size)) for size in dict.fromkeys((max(least, before), least)) if limit is None or _whole(limit) < size
    )


def _here(name: str, target: TargetSettings) -> str:
    """What the target has of a setting, as a part of a sentence."""
    return f"the brokers here have {target.defaults[name]}" if name in target.defaults else "what the brokers here have is not known"


def _same(one: str, other: str | None) -> bool:
    return other is not None and {part.strip() for part in one.split(",")} == {part.strip() for part in other.split(",")}


def _whole(value: str) -> int:
    return int(value) if value.isdecimal() else 0


def _by_override(configs: Mapping[str, Mapping[str, str]]) -> dict[Override, str]:
    """The overrides, each with the first of the topics that have it."""
    topics: dict[Override, list[str]] = {}
    for topic, config in configs.items():
        for name, value in config.items():
            topics.setdefault(Override(name, value), []).append(topic)
    return {override: first_names(topics[override]) for override in sorted(topics)}
