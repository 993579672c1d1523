"""Decides for each topic of a savepoint whether it is created from the savepoint or kept. Uses only names, ids and lengths. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from streams_recovery.core.application_kind import ApplicationKind, Dialect
from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicDescription, TopicRole
from streams_recovery.core.repository.manifest import Manifest, TopicImage


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target of a restore. ``existing`` are its topics by name, ``filled`` those that contain records. ``topic_map`` renames inputs, outputs and
    globals. ``declared`` are the names in the configuration of the target application, by role. ``proven`` are inputs that are
    other topics than those of the savepoint and are known to have their records, ``contained`` those whose records the savepoint is known to have.
    """

    application_id: str
    dialect: Dialect = ApplicationKind.KAFKA_STREAMS.dialect
    cluster_id: str
    existing: Mapping[str, TopicDescription]
    filled: Collection[str]
    topic_map: Mapping[str, str]
    declared: Mapping[TopicRole, Collection[str]]
    proven: Collection[str] = ()
    contained: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """One topic of the savepoint, and its name in the target. ``made``: it is created and loaded. Otherwise it exists and is kept."""

    image: TopicImage
    name: str
    made: bool


def target_name(topic: TopicImage, manifest: Manifest, application_id: str, topic_map: Mapping[str, str], dialect: Dialect) -> str:
    """The name in the target. Internal topics are called as in applications of this kind; other topics are renamed by the map."""
    if topic.role.internal:
        return dialect.name_in(topic.name, topic.role, manifest.application_id, application_id)
    return topic_map.get(topic.name, topic.name)


def place(manifest: Manifest, target: Target) -> tuple[Placed, ...]:
    """The decision for every topic. Raises ``Refused`` with all problems at once."""
    placed, problems, topics = [], _output_problems(manifest, target), []
    for topic in manifest.topics:
        name = target_name(topic, manifest, target.application_id, target.topic_map, target.dialect)
        made, problem = _decided(topic, name, manifest, target)
        placed.append(Placed(image=topic, name=name, made=made))
        if problem:
            problems.append(problem)
            topics.append(name)
    names = [one.name for one in placed]
    problems += [f"{name} would stand for two topics of the savepoint" for name in sorted({n for n in names if names.count(n) > 1})]
    if problems:
        raise Refused(
            f"savepoint {manifest.savepoint_id} of {manifest.application_id} cannot be restored as {target.application_id}: {'; '.join(problems)}",
            next_step="nothing was changed; archive the inputs (backup.survive_cluster_loss: true) to restore where they are not, map topics of another "
            "application (restore.topic_map), or rebuild from the input",
            problems=problems,
            topics=topics,
        )
    return tuple(placed)


def _decided(topic: TopicImage, name: str, manifest: Manifest, target: Target) -> tuple[bool, str | None]:
    if topic.role.internal:
        return True, None
    found = target.existing.get(name)
    same = found is not None and target.cluster_id == manifest.cluster_id and found.topic_id == topic.topic_id
    what = f"{topic.role} {name}"
    if found is not None and (same or name in target.proven or topic.role in (TopicRole.OUTPUT, TopicRole.GLOBAL)):
        if topic.role is TopicRole.INPUT and found.partitions != len(topic.partitions):
            return False, f"{what} has {found.partitions} partitions, {len(topic.partitions)} at the savepoint"
        return False, None
    if found is not None and name in target.contained:
        return True, None
    if found is not None and name in target.filled:
        return (
            False,
            f"{what} holds records and is not the topic of the savepoint (id {topic.topic_id}, here {found.topic_id}): offsets mean nothing",
        )
    if not topic.archived and topic.role is not TopicRole.OUTPUT:
        return False, f"{what} is {'gone' if found is None else 'empty'}, and its records are not in the savepoint"
    return True, None


def _output_problems(manifest: Manifest, target: Target) -> list[str]:
    """Names of outputs are in an application's code, not derived from its id. So a new application on the same cluster could write into the old one's
    outputs.
    """
    if manifest.application_id == target.application_id:
        return []
    problems = []
    for topic in manifest.topics:
        if topic.role not in target.declared:
            continue
        name = target_name(topic, manifest, target.application_id, target.topic_map, target.dialect)
        if topic.role is TopicRole.OUTPUT and name == topic.name and target.cluster_id == manifest.cluster_id:
            problems.append(f"output {topic.name} would be written by {manifest.application_id} and {target.application_id}")
        elif name not in target.declared[topic.role]:
            problems.append(f"{topic.role} {topic.name} would be {name}, which the configuration of {target.application_id} does not name")
    return problems
