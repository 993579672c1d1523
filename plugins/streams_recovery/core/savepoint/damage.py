"""Detects state that changed between two savepoints although no restore did that. The cut of such state may be proven exact, but the state is
damaged.

If a changelog is gone, Kafka Streams creates it again, empty and without an error, and continues from its committed offsets.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from streams_recovery.core.errors import StateDamaged
from streams_recovery.core.kafka_types import ClaimedTopic, TopicPartition, TopicRole, truncation
from streams_recovery.core.repository.journal import JournalEntry, Phase, created_by
from streams_recovery.core.repository.manifest import Manifest, PartitionCut, TopicImage
from streams_recovery.core.topic_settings import expires


class ChangedState(enum.StrEnum):
    """The treatment of state that changed that way. A savepoint is refused, or published as ``damaged``; or the change was ``intended``,
    and the present state counts.
    """

    REFUSE = "refuse"
    DAMAGED = "damaged"
    INTENDED = "intended"


class DamageKind(enum.StrEnum):
    """``missing``: a declared store has no changelog. The other kinds are about topics of the last savepoint: ``vanished``; ``recreated`` under the
    same name; ``truncated``; ``claimed``: it exists, but is now assigned to another application.
    """

    MISSING = "missing"
    VANISHED = "vanished"
    RECREATED = "recreated"
    TRUNCATED = "truncated"
    CLAIMED = "claimed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """An internal topic that changed. ``topic_id`` is the present one, None if the topic does not exist. ``since`` is the savepoint that it is compared
    with, None for a changelog that no savepoint has. ``taken_by`` is the application that a claimed topic is assigned to. ``partitions`` are those that were
    truncated.
    """

    kind: DamageKind
    topic: str
    topic_id: str | None
    problem: str
    since: str | None = None
    taken_by: str | None = None
    partitions: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.problem


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTopic:
    """An internal topic as the cluster has it. ``expires``: its policy lets the broker delete old records."""

    name: str
    role: TopicRole
    topic_id: str
    expires: bool
    partitions: tuple[PartitionCut, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """Changes that restores explain. ``created`` has the ids of all topics that they created, by name. ``since`` has those of the last restore that
    replaced the state, if that was after the last savepoint, otherwise it is None. It is empty if that restore left the creation of topics to the
    application, or if a person repaired the application in another way.
    """

    created: Mapping[str, Collection[str]]
    since: Mapping[str, Collection[str]] | None

    def explains(self, damage: Damage) -> bool:
        """True if a restore explains the topic's present state."""
        if damage.kind is DamageKind.RECREATED and damage.topic_id in self.created.get(damage.topic, ()):
            return True
        replaced = damage.kind in (DamageKind.RECREATED, DamageKind.VANISHED) and self.since is not None
        return replaced and damage.topic not in (self.since or {})


def restored(journals: Iterable[tuple[JournalEntry, ...]], moment: int) -> Restored:
    """The changes since ``moment`` that these journals (oldest first) explain."""
    created: dict[str, set[str]] = {}
    since: Mapping[str, Collection[str]] | None = None
    for entries in journals:
        mine = created_by(entries)
        for name, ids in mine.items():
            created.setdefault(name, set()).update(ids)
        if any(entry.phase is Phase.DESTROYING and entry.at > moment for entry in entries):
            finished = any(entry.phase is Phase.RECOVERED for entry in entries)
            since = mine if finished else {}
    return Restored(created=created, since=since)


def missing_changelogs(changelogs: Mapping[str, str], existing: Collection[str]) -> tuple[Damage, ...]:
    """Declared stores whose changelogs are not among the ``existing`` topics, with the names of these changelogs."""
    return tuple(
        Damage(
            kind=DamageKind.MISSING,
            topic=changelog,
            topic_id=None,
            problem=f"store {store} is declared, and its changelog {changelog} does not exist",
        )
        for store, changelog in sorted(changelogs.items())
        if changelog not in existing
    )


def changed_topics(
    last: Manifest,
    topics: Iterable[StateTopic],
    claimed: Iterable[ClaimedTopic],
    epoch_ends: Mapping[TopicPartition, int | None],
) -> tuple[Damage, ...]:
    """Internal topics of the savepoint ``last`` that have changed. ``topics`` are the application's present ones. ``epoch_ends`` are the offsets at
    which the broker says that the records up to the leader epochs in ``last`` end.
    """
    now = {topic.name: topic for topic in topics}
    others = {one.topic: one for one in claimed}
    found = []
    for image in last.topics:
        if image.role.internal:
            here = now.get(image.name)
            damage = _gone(last, image, others.get(image.name)) if here is None else _replaced(last, image, here, epoch_ends)
            found += [damage] if damage is not None else []
    return tuple(found)


def _gone(last: Manifest, image: TopicImage, claim: ClaimedTopic | None) -> Damage:
    if claim is None:
        what = f"topic {image.name} (id {image.topic_id}) is in savepoint {last.savepoint_id} and does not exist any more"
        return Damage(kind=DamageKind.VANISHED, topic=image.name, topic_id=None, problem=what, since=last.savepoint_id)
    what = f"topic {image.name} is in savepoint {last.savepoint_id} and would be left out: {claim.why}"
    return Damage(kind=DamageKind.CLAIMED, topic=image.name, topic_id=None, problem=what, since=last.savepoint_id, taken_by=claim.group)


def _replaced(last: Manifest, image: TopicImage, here: StateTopic, epoch_ends: Mapping[TopicPartition, int | None]) -> Damage | None:
    if here.topic_id != image.topic_id:
        what = f"topic {image.name} was created again since savepoint {last.savepoint_id}: id {image.topic_id} became {here.topic_id}"
        return Damage(kind=DamageKind.RECREATED, topic=image.name, topic_id=here.topic_id, problem=what, since=last.savepoint_id)
    cut_back = list(_cut_back(image, here, epoch_ends))
    if not cut_back:
        return None
    why = [f"partition {number}: {why}" for number, why in cut_back[:5]]
    return Damage(
        kind=DamageKind.TRUNCATED,
        topic=image.name,
        topic_id=here.topic_id,
        problem=f"topic {image.name} lost records since savepoint {last.savepoint_id}: {'; '.join(why)}",
        since=last.savepoint_id,
        partitions=tuple(number for number, _ in cut_back),
    )


def _cut_back(image: TopicImage, here: StateTopic, epoch_ends: Mapping[TopicPartition, int | None]) -> Iterator[tuple[int, str]]:
    cuts = {cut.tp.partition: cut for cut in here.partitions}
    # The application itself deletes read records of its repartition topics. The broker deletes old records of a windowed store's changelog.
    stays = image.role is TopicRole.CHANGELOG and not here.expires and not expires(image.config, unknown=False)
    for before in image.partitions:
        cut = cuts.get(before.partition)
        if cut is None:
            yield before.partition, "it does not exist any more"
        elif cut.end < before.end:
            yield before.partition, f"it ended at {before.end} and ends at {cut.end}"
        elif stays and cut.log_start > before.log_start:
            yield before.partition, f"it began at {before.log_start} and begins at {cut.log_start}, and its policy deletes nothing"
        else:
            end = epoch_ends.get(cut.tp)
            why = truncation(seen=before.leader_epoch, upto=before.end, now=cut.leader_epoch, epoch_end=end)
            if why is not None:
                yield before.partition, why


def require_whole(application_id: str, found: Collection[Damage], wanted: ChangedState) -> None:
    """Raise ``StateDamaged`` with all of ``found``, unless the request allows it. A missing changelog of a declared store cannot be intended."""
    refused = [
        one for one in found if wanted is ChangedState.REFUSE or (wanted is ChangedState.INTENDED and one.kind is DamageKind.MISSING)
    ]
    if not refused:
        return
    kinds = {one.kind for one in refused}
    steps = ["nothing was changed"]
    if DamageKind.MISSING in kinds:
        steps.append("correct `stores` in the configuration if that store has no changelog (logged: false, or its source)")
    if DamageKind.CLAIMED in kinds:
        steps.append(
            "name the stores of topics that are this application's under `stores` in the configuration, or the topics under topics.owned"
        )
    if kinds - {DamageKind.MISSING, DamageKind.CLAIMED}:
        steps.append("if state was lost, restore or rebuild the application")
    if wanted is ChangedState.REFUSE and DamageKind.MISSING not in kinds:
        steps.append("if the present state is intended, take one savepoint with `changed_state` intended")
    steps.append(f"to save what is left, take one with `changed_state` damaged; both need the application id {application_id} typed")
    raise StateDamaged(
        f"the state of {application_id} is damaged: {'; '.join(map(str, refused[:10]))}",
        next_step="; ".join(steps),
        topics=[one.topic for one in refused],
        damage=refused,
    )
