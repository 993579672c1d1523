"""What is stored: a manifest through a repository and back, its ranges in tables of their own; and results as a job leaves them."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from streams_recovery.core import codec
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.manifest import CopiedRange, Manifest
from streams_recovery.core.repository.ranges import Ranges
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore


def stored(value: Manifest) -> Manifest:
    """``value`` as it is read again after it was published."""
    with tempfile.TemporaryDirectory(prefix="stored-") as directory:
        store = store_in(Path(directory), value.application_id)
        store.publish(value)
        return store.read(value.savepoint_id)


def with_keys(value: Manifest) -> Manifest:
    """``value`` with the keys that its files must have, whatever a test has called them."""
    layout = Layout(value.application_id)

    def named(tp: TopicPartition, piece: CopiedRange) -> CopiedRange:
        return replace(piece, file=piece.file and replace(piece.file, key=layout.segment(tp, piece.start, piece.end, "a")))

    return replace(
        value,
        topics=tuple(
            replace(
                topic,
                partitions=tuple(
                    replace(one, ranges=Ranges.of(named(TopicPartition(topic.name, one.partition), piece) for piece in one.ranges))
                    for one in topic.partitions
                ),
            )
            for topic in value.topics
        ),
    )


def store_in(directory: Path, application_id: str = "orders") -> SavepointStore:
    """Savepoints in a directory."""
    return SavepointStore(Repository(StorageLocation(backend="filesystem", path=str(directory))), Layout(application_id))


def left(recovery: RecoveryContext, key: str, result: object) -> ArtifactRef:
    """What a job leaves."""
    data = codec.dumps(result)
    recovery.repository.create(key, data)
    return ArtifactRef.of(key, data)
