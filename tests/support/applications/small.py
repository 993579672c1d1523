"""An application without code: a few topics, a consumer group, and programs that answer for its instances. Savepoints of it take a second."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from streams_recovery.cli.connections import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core import codec
from streams_recovery.core.jobs import BackupResult, BackupSpec
from streams_recovery.core.kafka_types import CommittedOffset, QuiesceMode, TopicPartition
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.savepoint.damage import ChangedState
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.range_copy import copy_what_is_left
from streams_recovery.operations import restore, savepoint
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.savepoint import CutSummary, JobPlan, SavepointRequest, SavepointSummary, Ticket
from streams_recovery.operations.savepoint.values import CutDraft

STOPPED = [{"name": "one", "state": "gone", "streams_state": None, "closed_cleanly": True, "detail": "pid 1"}]
RUNNING = [{"name": "one", "state": "running", "streams_state": "RUNNING", "closed_cleanly": None, "detail": "pid 1"}]


@dataclass(frozen=True)
class Small:
    """An application that stopped cleanly with four records of five processed."""

    recovery: RecoveryContext
    input: TopicPartition
    output: TopicPartition
    changelog: TopicPartition
    tail: TopicPartition

    @property
    def topics(self) -> list[str]:
        return [tp.topic for tp in (self.input, self.output, self.changelog, self.tail)]


def says(states: Sequence[Mapping[str, object]]) -> list[str]:
    """A program that prints these states of instances."""
    return [sys.executable, "-c", f"print({json.dumps(json.dumps(states))})"]


@contextmanager
def small_application(
    bootstrap: str | Mapping[str, object],
    directory: Path,
    *,
    name: str | None = None,
    programs: Mapping[str, list[str]] | None = None,
    topics: Mapping[str, object] | None = None,
    consistency: Mapping[str, object] | None = None,
    guarantee: str = "exactly_once_v2",
    tidy: bool = True,
) -> Iterator[Small]:
    """The application in ``directory``, its topics with a few records and its offsets, gone at the end if ``tidy``. ``bootstrap`` may be
    the whole extra of a connection.
    """
    name = name or f"small{uuid.uuid4().hex[:8]}"
    names = [f"{name}.in", f"{name}.out", f"{name}-totals-changelog", f"{name}-by-key-repartition"]
    config = {
        "version": 1,
        "name": "small",
        "application": {"id": name, "guarantee": guarantee},
        "topics": {"inputs": names[:1], "outputs": names[1:2], **(topics or {})},
        "storage": {"backend": "filesystem", "path": str(directory / "repository")},
        "backup": {
            "survive_cluster_loss": False,
            "consistency": {"mode": "stop", "timeout_seconds": 2, **(consistency or {})},
            "segment_max_records": 1000,
        },
        "runs": {
            "kind": "command",
            "command": {
                "status": says(STOPPED),
                "stop": says(STOPPED),
                "start": ["true"],
                "wipe": [sys.executable, "-c", 'print(\'{"removed": [], "remaining": []}\')'],
                **(programs or {}),
            },
        },
    }
    (directory / "small.yaml").write_text(json.dumps(config))
    extra = {"bootstrap.servers": bootstrap} if isinstance(bootstrap, str) else bootstrap
    kafka = {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": extra})}
    with open_context(load_named("small", directory, {}), EnvironmentConnections(kafka)) as recovery:
        found = Small(recovery, *(TopicPartition(topic, 0) for topic in names))
        fill(found)
        yield found
        if tidy:
            recovery.cluster.delete_topics([topic for topic in names if topic in recovery.cluster.topic_names()])


@dataclass(frozen=True)
class _Same:
    connection: KafkaConnection

    def kafka(self, connection_id: str) -> KafkaConnection:  # noqa: ARG002
        return self.connection

    def storage(self, connection_id: str | None) -> None:  # noqa: ARG002
        return None

    def spark_master(self, connection_id: str) -> str:  # noqa: ARG002
        return "local[2]"


@contextmanager
def reopened(small: Small, connection: KafkaConnection | None = None) -> Iterator[Small]:
    """The same application with clients of its own, as the next task has them, or as another user has."""
    with open_context(small.recovery.config, _Same(connection or small.recovery.connection)) as recovery:
        yield replace(small, recovery=recovery)


def fill(small: Small) -> None:
    """Topics, records, offsets."""
    for topic in small.topics:
        config = {"cleanup.policy": "compact" if topic.endswith("changelog") else "delete"}
        small.recovery.cluster.create_topic(topic, partitions=1, replication_factor=1, config=config)
    for tp, count in ((small.input, 5), (small.output, 4), (small.changelog, 4), (small.tail, 4)):
        produce(small.recovery, tp, count)
    commits = {small.input: CommittedOffset(offset=4, metadata="AgAA", leader_epoch=None)}
    commits[small.tail] = CommittedOffset(offset=1, metadata="", leader_epoch=None)
    small.recovery.groups.set_offsets(small.recovery.application_id, commits)


def produce(recovery: RecoveryContext, tp: TopicPartition, count: int, **settings: object) -> None:
    """``count`` records with keys and values of their own."""
    producer = Producer({**recovery.connection.client_config(), **settings})
    for number in range(count):
        producer.produce(tp.topic, b"v%d" % number, b"k%d" % number, tp.partition)
    assert producer.flush(30) == 0


@contextmanager
def transaction(recovery: RecoveryContext) -> Iterator[Producer]:
    """A producer with a transaction under way, that is aborted unless it was ended."""
    producer = Producer({**recovery.connection.client_config(), "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    producer.begin_transaction()
    yield producer


def aborted(recovery: RecoveryContext, tp: TopicPartition, count: int = 3) -> None:
    """So many records that nobody is ever given, and a marker behind them."""
    with transaction(recovery) as producer:
        for number in range(count):
            producer.produce(tp.topic, b"v", b"%d" % number, tp.partition)
        producer.flush(30)
        producer.abort_transaction(30)


def commit(recovery: RecoveryContext, offsets: Mapping[TopicPartition, int]) -> None:
    """Other committed offsets."""
    recovery.groups.set_offsets(
        recovery.application_id, {tp: CommittedOffset(offset=offset, metadata="", leader_epoch=None) for tp, offset in offsets.items()}
    )


def delete_below(recovery: RecoveryContext, tp: TopicPartition, offset: int) -> None:
    """What retention does."""
    admin = AdminClient({"bootstrap.servers": recovery.connection.bootstrap_servers, "log_level": 0})
    for future in admin.delete_records([ClientPartition(tp.topic, tp.partition, offset)]).values():
        future.result(30)


def recreate(recovery: RecoveryContext, topic: str) -> tuple[str, str]:
    """Delete a topic and create it again under its name. Returns both ids."""
    before = recovery.cluster.describe_topics([topic])[topic]
    recovery.cluster.delete_topics([topic])
    policy = {"cleanup.policy": before.config["cleanup.policy"]}
    return before.topic_id, recovery.cluster.create_topic(topic, partitions=1, replication_factor=1, config=policy).topic_id


def with_policy(recovery: RecoveryContext, **policy: object) -> RecoveryContext:
    """A bench with another policy of consistency."""
    consistency = recovery.config.backup.consistency.model_copy(update=policy)
    backup = recovery.config.backup.model_copy(update={"consistency": consistency})
    return replace(recovery, config=recovery.config.model_copy(update={"backup": backup}))


def surviving(small: Small, **backup: object) -> Small:
    """The same application, with savepoints that survive the loss of the cluster."""
    changed = small.recovery.config.backup.model_copy(update={"survive_cluster_loss": True, **backup})
    return replace(small, recovery=replace(small.recovery, config=small.recovery.config.model_copy(update={"backup": changed})))


def begun(recovery: RecoveryContext, mode: QuiesceMode = QuiesceMode.STOP, changed_state: ChangedState = ChangedState.REFUSE) -> Ticket:
    request = SavepointRequest(
        run_id=uuid.uuid4().hex, requested_by="test", reason="", mode=mode, changed_state=changed_state, confirm=recovery.application_id
    )
    return savepoint.begin(recovery, request)


def cut(recovery: RecoveryContext, mode: QuiesceMode = QuiesceMode.STOP) -> CutDraft:
    """A cut that is not published."""
    ticket = begun(recovery, mode)
    try:
        taken = savepoint.capture(recovery, ticket, savepoint.quiesce(recovery, ticket))
    finally:
        savepoint.finish(recovery, ticket)
    return recovery.notes.read(CutDraft, taken.draft)


def asked(recovery: RecoveryContext, **changes: object) -> restore.RestoreRequest:
    """A request of somebody who has read what it asks."""
    plain = restore.RestoreRequest(
        source="",
        savepoint="latest",
        confirm=recovery.application_id,
        reason="test",
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def publish(small: Small) -> str:
    """A savepoint of the stopped application."""
    return take(small).savepoint_id


def nothing() -> None:
    pass


def take(
    small: Small,
    *,
    after_cut: Callable[[], object] = nothing,
    after_copy: Callable[[], object] = nothing,
    mode: QuiesceMode = QuiesceMode.STOP,
    changed_state: ChangedState = ChangedState.REFUSE,
    recovery: RecoveryContext | None = None,
) -> SavepointSummary:
    """A savepoint, copied here as the tasks of the job would. The two callables meddle between its steps."""
    recovery = recovery or small.recovery
    ticket = begun(recovery, mode, changed_state)
    try:
        taken = savepoint.capture(recovery, ticket, savepoint.quiesce(recovery, ticket))
        after_cut()
        done = copy(recovery, ticket, taken)
        after_copy()
        return savepoint.publish(recovery, ticket, savepoint.gather(recovery, ticket, *done).copied)
    finally:
        savepoint.finish(recovery, ticket)


def copy(recovery: RecoveryContext, ticket: Ticket, taken: CutSummary) -> tuple[ArtifactRef | None, ArtifactRef | None]:
    """What the job does, here. Returns its plan and its result."""
    plan = savepoint.plan_copy(recovery, ticket, taken.draft)
    return plan.plan, copied(recovery, plan)


def left(recovery: RecoveryContext, key: str, result: object) -> ArtifactRef:
    """What a job leaves."""
    data = codec.dumps(result)
    recovery.repository.create(key, data)
    return ArtifactRef.of(key, data)


def copied(recovery: RecoveryContext, plan: JobPlan) -> ArtifactRef | None:
    """A job that is planned already, done here."""
    if plan.spec is not None and plan.result_key is not None:
        done = [
            copy_what_is_left(
                recovery.connection, recovery.repository, recovery.layout, wanted, compression_level=3, attempt=uuid.uuid4().hex
            )
            for wanted in recovery.notes.read(BackupSpec, plan.spec).ranges
        ]
        result = BackupResult(
            ranges=tuple(piece for outcome in done for piece in outcome.copied),
            lost=tuple(piece for outcome in done for piece in outcome.lost),
            seconds=0,
        )
        return left(recovery, plan.result_key, result)
    return None


def published(small: Small, **how: object) -> Manifest:
    """The savepoint itself."""
    return small.recovery.savepoints.read(take(small, **how).savepoint_id)  # type: ignore[arg-type]


def rows_of(recovery: RecoveryContext, manifest: Manifest, tp: TopicPartition) -> list[dict[str, object]]:
    """The rows of one partition as its files have them."""
    found: list[dict[str, object]] = []
    for at, file in manifest.files():
        if at == tp:
            with pq.ParquetFile(recovery.repository.open(file.key)) as parquet:
                found += parquet.read().to_pylist()
    return found


def untouched(small: Small) -> bool:
    """No savepoint, no lock, no compaction guard."""
    found = small.recovery.cluster.describe_topics([small.changelog.topic])
    guards = [topic.config.get("min.compaction.lag.ms") for topic in found.values()]
    return small.recovery.savepoints.ids() == [] and small.recovery.lock.holder() is None and not any(guards)
