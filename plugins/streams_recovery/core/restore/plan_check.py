"""Checks that every stored plan must pass, whoever has written it."""

from __future__ import annotations

from collections.abc import Sequence

from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.checked_names import check_names, check_numbered, check_partitions, check_segment_key
from streams_recovery.core.restore.in_place import LaterTopic
from streams_recovery.core.restore.plan import RestorePlan, TopicToCreate
from streams_recovery.core.restore.single_topics import SingleTopics
from streams_recovery.core.words import first_names


def check_plan(planned: RestorePlan, *, where: str) -> None:
    """Raise ``Damaged`` for a name that is not on the allow-list, a topic or partition that is in the plan twice, and a file that does not belong to
    the application of the savepoint.
    """
    check_names("application id", {planned.application_id, planned.source_application_id}, where=where)
    check_names("topic", [*(topic.name for topic in planned.create), *(topic.name for topic in planned.delete)], where=where)
    filled = planned.single.filled if planned.single is not None else {}
    for topic in planned.create:
        numbers = [part.partition for part in topic.partitions]
        if topic.name in filled:
            check_partitions("partitions", [TopicPartition(topic.name, number) for number in numbers], where=where)
        else:
            check_numbered(topic.name, numbers, where=where)
    check_partitions("offsets", [*(item.tp for item in planned.offsets), *planned.offsets_kept], where=where)
    if planned.single is not None:
        _check_single(planned.single, planned.create, where)
    if planned.in_place:
        check_later(planned.in_place.later, application_id=planned.source_application_id, where=where)
    groups = planned.in_place.groups if planned.in_place else ()
    by_group: dict[str, list[TopicPartition]] = {}
    for one in groups:
        by_group.setdefault(one.group, []).append(one.tp)
    for group, partitions in by_group.items():
        check_partitions(f"offsets of group {group}", partitions, where=where)
    _check_files(planned.create, planned.source_application_id, where)


def _check_single(single: SingleTopics, create: Sequence[TopicToCreate], where: str) -> None:
    """A topic of which partitions are loaded is one of those that are loaded: it is altered by its name."""
    check_names("topic", list(single.names), where=where)
    check_partitions("begins", list(single.begins), where=where)
    named = {topic.name for topic in create}
    begun = {TopicPartition(topic.name, part.partition) for topic in create if topic.name in single.filled for part in topic.partitions}
    strange = [
        *map(str, begun.symmetric_difference(single.begins)),
        *named.symmetric_difference(single.names),
        *(single.filled.keys() - named),
    ]
    if strange:
        raise Damaged(
            f"{where} is about single topics, and does not say the same everywhere of {first_names(strange)}",
            next_step="do not use it: this software writes no such thing; find out who can write to this repository, and verify it",
            where=where,
        )


def check_later(later: Sequence[LaterTopic], *, application_id: str, where: str) -> None:
    """The same checks for records that were removed from the application's inputs and are appended to them again."""
    check_names("topic", [topic.name for topic in later], where=where)
    check_partitions("records", [TopicPartition(topic.name, part.partition) for topic in later for part in topic.partitions], where=where)
    _check_files(later, application_id, where)


def _check_files(topics: Sequence[TopicToCreate] | Sequence[LaterTopic], application_id: str, where: str) -> None:
    for topic in topics:
        for part in topic.partitions:
            for key in part.files.keys:
                check_segment_key(key, application_id, TopicPartition(topic.name, part.partition), where=where)
