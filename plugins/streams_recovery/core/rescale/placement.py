"""Decides by which part of their keys the records of a topic lie in its partitions: the proof that a rescale rests on, and where each record goes.

Kafka's default partitioner takes murmur2 of a key, without its sign, modulo the number of partitions. So records of old partition p go to new ones q with q = p
modulo the greatest common divisor of both numbers, and nowhere else: old and new partitions fall apart into as many classes, which have nothing to do with each
other.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import KeyForm, StoreKind, TopicPartition
from streams_recovery.core.state.edit import default_partition

# Bytes before and behind what decides.
AROUND: Final = {
    KeyForm.WHOLE: (0, 0),
    KeyForm.WINDOWED: (0, 8),
    KeyForm.WINDOW: (0, 12),
    KeyForm.SESSION: (0, 16),
    KeyForm.TIME_ORDERED: (9, 0),
    KeyForm.TIME_FIRST: (9, 4),
}
PARTITIONERS: Final = "streams_recovery.partitioners"
"""The group of entry points with partitioners of one's own: functions of key, value and number of partitions."""
MOST_KEYS: Final = 1_000
"""Distinct keys of a partition are counted up to here: a few dozen tell."""

_LENGTH: Final = struct.Struct(">i")
_ANY: Final = (*AROUND, KeyForm.FOREIGN_KEY)
_OF_TOPIC: Final = (KeyForm.WHOLE, KeyForm.WINDOWED, KeyForm.SESSION)
_FORMS: Final = {
    StoreKind.WINDOW: (KeyForm.WINDOW,),
    StoreKind.SESSION: (KeyForm.SESSION,),
    StoreKind.LIST: (KeyForm.TIME_ORDERED,),
    StoreKind.VERSIONED: _OF_TOPIC,
}
# What a store of this kind has where its keys do not tell: they are too few, or there was one partition.
_SAID_BY_KIND: Final = {
    StoreKind.KEY_VALUE: KeyForm.WHOLE,
    StoreKind.VERSIONED: KeyForm.WHOLE,
    StoreKind.WINDOW: KeyForm.WINDOW,
    StoreKind.SESSION: KeyForm.SESSION,
    StoreKind.LIST: KeyForm.TIME_ORDERED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaledTopic:
    """A topic whose records are to be placed anew: in ``new`` partitions, of ``old`` ones. ``form`` is what a person has named, None to find out; ``own`` names
    a partitioner of one's own (an entry point of ``PARTITIONERS``). With ``history`` the records that were read already are placed too, else only unread ones;
    of changelogs all are placed.
    """

    name: str
    old: int
    new: int
    form: KeyForm | None = None
    own: str | None = None
    history: bool = False

    @property
    def classes(self) -> int:
        """The number of classes that its partitions fall apart into. Of one's own partitioner nothing is known."""
        return 1 if self.own is not None else gcd(self.old, self.new)

    def sources(self, partition: int) -> range:
        """The old partitions that records of a new one come from."""
        return range(partition % self.classes, self.old, self.classes)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormFailed:
    """The first record of a partition that does not obey a form."""

    form: KeyForm
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FormPair:
    """Two forms that place a record of a partition in different new partitions."""

    one: KeyForm
    other: KeyForm


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSeen:
    """What a job saw of one old partition: all ``records`` that are to be placed, ``keyless`` ones among them, and distinct keys up to ``MOST_KEYS``. A form
    that is not in ``failed`` was obeyed by all records that have a key. It has only forms that the topic's keys may have. ``timed``: each key ends in what may
    be the moment of a window.
    """

    tp: TopicPartition
    records: int
    keyless: int
    keys: int
    failed: tuple[FormFailed, ...]
    differ: tuple[FormPair, ...]
    timed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FormProof:
    """The proof of a topic: all its ``records`` but the ``keyless`` ones lie where ``form`` puts them, None if none has a key. ``keys`` counts distinct ones,
    up to ``MOST_KEYS`` of each partition. ``also`` are forms that all of them obey too: they were too few to tell.
    """

    topic: str
    form: KeyForm | None
    records: int
    keyless: int
    keys: int
    also: tuple[KeyForm, ...] = ()


def candidates(topic: RescaledTopic, kind: StoreKind | None) -> tuple[KeyForm, ...]:
    """The forms that the keys of a topic may have; ``kind`` is that of a changelog's store, None for other topics."""
    if topic.own is not None:
        return (KeyForm.OWN,)
    if topic.form is not None:
        return (topic.form,)
    return _OF_TOPIC if kind is None else _FORMS.get(kind, _ANY)


def proven(topic: RescaledTopic, kind: StoreKind | None, seen: Sequence[PartitionSeen]) -> FormProof:
    """The form that all records of a topic obey. Raises ``Refused`` where none is obeyed by all, and where so few keys obey several that they do not tell."""
    failed = {one.form: (part.tp, one.offset) for part in reversed(seen) for one in reversed(part.failed)}
    tried = candidates(topic, kind)
    obeyed = [form for form in tried if form not in failed]
    keyed = sum(part.records - part.keyless for part in seen)
    if keyed and not obeyed:
        tp, offset = failed[tried[0]]
        raise Refused(
            f"{topic.name} cannot be placed anew: no known part of the keys puts all its records where they lie; the key of offset {offset} of partition "
            f"{tp.partition} is not put there as {tried[0]}",
            next_step="name the partitioner that its producers use, or rebuild the application with the new number",
            topic=topic.name,
            partition=tp.partition,
            offset=offset,
        )
    form = _decided(topic, kind, obeyed, seen) if keyed else None
    return FormProof(
        topic=topic.name,
        form=form,
        records=sum(part.records for part in seen),
        keyless=sum(part.keyless for part in seen),
        keys=sum(part.keys for part in seen),
        also=tuple(other for other in obeyed if keyed and other is not form),
    )


def _decided(topic: RescaledTopic, kind: StoreKind | None, obeyed: Sequence[KeyForm], seen: Sequence[PartitionSeen]) -> KeyForm:
    said = KeyForm.WHOLE if kind is None else _SAID_BY_KIND.get(kind)
    differ = {frozenset((pair.one, pair.other)) for part in seen for pair in part.differ}
    alike = not any(frozenset((obeyed[0], other)) in differ for other in obeyed[1:])
    # Windowed keys look like whole ones where few records, or one partition, do not tell. No kind of a store, and no topic, says which they are.
    unsaid = said is KeyForm.WHOLE and all(part.timed for part in seen if part.records > part.keyless)
    if said is not None and said in obeyed and not unsaid:
        return said
    if alike:
        return obeyed[0]
    keys = sum(part.keys for part in seen)
    raise Refused(
        f"{topic.name} cannot be placed anew: its {keys} keys lie where they would as {' and as '.join(obeyed)}, and these differ for {topic.new} partitions",
        next_step="nothing was changed; unread records: let the application process them first; a store: declare its `kind` under `stores` in the "
        "configuration, or rebuild it with the new number",
        topic=topic.name,
        forms=[str(form) for form in obeyed],
    )


def deciding(form: KeyForm, key: bytes) -> bytes | None:
    """The bytes of a key that decide where it lies, None for a key that has not this form."""
    if form is KeyForm.FOREIGN_KEY:
        length = _LENGTH.unpack_from(key)[0] if len(key) >= _LENGTH.size else -1
        return key[4 : 4 + length] if 0 <= length <= len(key) - 4 else None
    before, behind = AROUND[form]
    return key[before : len(key) - behind] if len(key) >= before + behind else None


def astray(form: KeyForm | None, keys: Iterable[bytes], partition: int, numbers: tuple[int, int]) -> int:
    """How many keys of a partition do not lie where the second of these numbers of partitions puts them. Where no record has proven the form they are taken as
    whole, and count only if the first number puts all of them there: a partitioner of one's own does not.
    """
    decides, (old, new) = form or KeyForm.WHOLE, numbers
    wrong = [key for key in keys if partition_of(decides, key, new) != partition]
    return len(wrong) if form is not None or all(partition_of(decides, key, old) == partition for key in wrong) else 0


def partition_of(form: KeyForm, key: bytes, partitions: int) -> int | None:
    """The partition of a key, None for one that has not this form."""
    part = deciding(form, key)
    return None if part is None else default_partition(part, partitions)
