"""The records of outputs behind the state that a restore brings back, listed while the application is down: readers that skip them see no result twice."""

from __future__ import annotations

import contextlib

from streams_recovery.core.errors import NotFound
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.restore.outputs_behind import FORMAT_VERSION, OutputsBehind, outputs_behind
from streams_recovery.core.restore.parts.savepoint import SavepointPart
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.rebuild import target_name
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.values import RestoreTicket
from streams_recovery.storage.json_object import create_value, read_value
from streams_recovery.storage.repository import AlreadyExists


def list_outputs_behind(recovery: RecoveryContext, ticket: RestoreTicket, planned: RestorePlan) -> None:
    """Store the list, once: from the start on the application writes more. Nothing is stored where the state is not that of a savepoint of this cluster, or no
    output that stays has such records.
    """
    if planned.savepoint_id is None or not isinstance(planned.part, SavepointPart) or planned.part.state is not None:
        return
    manifest = ticket.request.savepoints(recovery, planned).outline(planned.savepoint_id)
    names = {
        target_name(topic, manifest, recovery.application_id, recovery.config.restore.topic_map, recovery.config.dialect): topic
        for topic in manifest.topics
        if topic.role is TopicRole.OUTPUT
    }
    there = recovery.cluster.describe_topics(list(names))
    made = {step.name for step in planned.create}
    stay = {name: names[name] for name, found in there.items() if name not in made and found.topic_id == names[name].topic_id}
    partitions = [TopicPartition(name, number) for name in stay for number in range(there[name].partitions)]
    found = outputs_behind(manifest, stay, recovery.cluster.high_watermarks(partitions))
    if found:
        value = OutputsBehind(
            format_version=FORMAT_VERSION, restore_id=ticket.restore_id, savepoint_id=manifest.savepoint_id, outputs=found
        )
        with contextlib.suppress(AlreadyExists):
            create_value(recovery.repository, recovery.layout.outputs_behind(ticket.restore_id), value)


def listed_behind(recovery: RecoveryContext, restore_id: str) -> OutputsBehind | None:
    """The list of a restore, None if it has none."""
    try:
        return read_value(recovery.repository, OutputsBehind, recovery.layout.outputs_behind(restore_id))
    except NotFound:
        return None
