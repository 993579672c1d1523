"""The records of outputs behind the state that a restore brings back, listed while the application is down: readers that skip them see no result twice."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from streams_recovery.core.archive.state import at_cut
from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.kafka_types import Consistency, TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.restore.outputs_behind import FORMAT_VERSION, OutputsBehind, outputs_behind
from streams_recovery.core.restore.parts.savepoint import SavepointPart
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.planned import ArchivedState
from streams_recovery.core.restore.rebuild import target_name
from streams_recovery.operations.archive import read_archive
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.values import RestoreTicket
from streams_recovery.storage.json_object import create_value, read_value
from streams_recovery.storage.repository import AlreadyExists
from streams_recovery.storage.savepoints import SavepointStore


def list_outputs_behind(recovery: RecoveryContext, ticket: RestoreTicket, planned: RestorePlan) -> None:
    """Store the list, once: from the start on the application writes more. Nothing is stored where the state is not that of a savepoint of this cluster, or of
    a cut behind one, or no output that stays has such records.
    """
    if planned.savepoint_id is None or not isinstance(planned.part, SavepointPart):
        return
    manifest = _state_of(recovery, ticket.request.savepoints(recovery, planned), planned.savepoint_id, planned.part.state)
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


def _state_of(recovery: RecoveryContext, store: SavepointStore, savepoint_id: str, state: ArchivedState | None) -> Manifest:
    """The savepoint, at the cut behind it whose state was restored. Where the archive has it no more or cannot be read, one with which no list is exact."""
    if state is None:
        return store.outline(savepoint_id)
    manifest = store.read(savepoint_id)
    # The application is down and its offsets are set: the restore is not to end for want of a list.
    with contextlib.suppress(Damaged):
        found = at_cut(manifest, read_archive(recovery, manifest.application_id, upto=state.entry))
        if isinstance(found, Manifest) and found.captured_at == state.at:
            return found
    return replace(manifest, consistency=Consistency.AHEAD)


def listed_behind(recovery: RecoveryContext, restore_id: str) -> OutputsBehind | None:
    """The list of a restore, None if it has none."""
    try:
        return read_value(recovery.repository, OutputsBehind, recovery.layout.outputs_behind(restore_id))
    except NotFound:
        return None
