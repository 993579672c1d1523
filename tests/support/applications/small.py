"""An application without code: a few topics, a consumer group, and programs that answer for its instances. Savepoints of it take a second."""

from __future__ import annotations

import base64
import json
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_all, load_named
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.repository.layout import Backend, StorageLocation
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.state.read import batches_in
from streams_recovery.storage.credentials import StorageCredentials
from tests.support.applications.topic_records import produce

STOPPED = [{"name": "one", "state": "gone", "streams_state": None, "closed_cleanly": True, "detail": "pid 1"}]
RUNNING = [{"name": "one", "state": "running", "streams_state": "RUNNING", "closed_cleanly": None, "detail": "pid 1"}]
# What Kafka Streams commits with an offset: a version, and eight bytes of stream time.
STREAMS_METADATA = base64.b64encode(b"\x02" + (1_800_000_000_000).to_bytes(8)).decode()


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
def small_application(  # noqa: PLR0913  # each is what some test changes
    bootstrap: str | Mapping[str, object],
    directory: Path,
    *,
    name: str | None = None,
    programs: Mapping[str, list[str]] | None = None,
    topics: Mapping[str, object] | None = None,
    consistency: Mapping[str, object] | None = None,
    guarantee: str = "exactly_once_v2",
    bucket: tuple[StorageLocation, StorageCredentials] | None = None,
    encryption: Mapping[str, object] | None = None,
    tidy: bool = True,
) -> Iterator[Small]:
    """The application in ``directory``, its topics with a few records and its offsets, gone at the end if ``tidy``. ``bootstrap`` may be
    the whole extra of a connection. Its repository is there too, or in a ``bucket``.
    """
    name = name or f"small{uuid.uuid4().hex[:8]}"
    names = [f"{name}.in", f"{name}.out", f"{name}-totals-changelog", f"{name}-by-key-repartition"]
    config: dict[str, Any] = {
        "version": 1,
        "name": "small",
        "application": {"id": name, "guarantee": guarantee, "session_timeout_ms": 1_000},
        "topics": {"inputs": names[:1], "outputs": names[1:2], **(topics or {})},
        "storage": {"backend": "filesystem", "path": str(directory / "repository"), "encryption": encryption},
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
    extra = {"bootstrap.servers": bootstrap} if isinstance(bootstrap, str) else bootstrap
    kafka = {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": extra})}
    if bucket is not None:
        location, keys = bucket
        config["storage"] = {
            name: getattr(location, name) for name in ("backend", "bucket", "prefix", "endpoint", "path_style", "allow_http")
        }
        config["storage"] |= {"connection": "s3"}
        kafka["AIRFLOW_CONN_S3"] = json.dumps(
            {"conn_type": "aws", "login": keys.options["access_key_id"], "password": keys.options["secret_access_key"]}
        )
    (directory / "small.yaml").write_text(json.dumps(config))
    with open_context(
        load_named("small", directory, {}), EnvironmentConnections(kafka), applications=lambda: load_all(directory, {}).applications
    ) as recovery:
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

    def storage(self, connection_id: str | None, backend: Backend) -> None:  # noqa: ARG002
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
        # As many replicas as the cluster gives by default.
        small.recovery.cluster.create_topic(topic, partitions=1, replication_factor=-1, config=config)
    for tp, count in ((small.input, 5), (small.output, 4), (small.changelog, 4), (small.tail, 4)):
        produce(small.recovery, tp, count)
    commits = {small.input: CommittedOffset(offset=4, metadata="AgAA", leader_epoch=None)}
    commits[small.tail] = CommittedOffset(offset=1, metadata="", leader_epoch=None)
    small.recovery.groups.set_offsets(small.recovery.application_id, commits)


def with_policy(recovery: RecoveryContext, **policy: object) -> RecoveryContext:
    """A context with another policy of consistency."""
    consistency = recovery.config.backup.consistency.model_copy(update=policy)
    backup = recovery.config.backup.model_copy(update={"consistency": consistency})
    return replace(recovery, config=recovery.config.model_copy(update={"backup": backup}))


def surviving(small: Small, **backup: object) -> Small:
    """The same application, with savepoints that survive the loss of the cluster."""
    changed = small.recovery.config.backup.model_copy(update={"survive_cluster_loss": True, **backup})
    return replace(small, recovery=replace(small.recovery, config=small.recovery.config.model_copy(update={"backup": changed})))


_SAFEGUARDS = {field.name for field in fields(restore.Safeguards)}


def asked(recovery: RecoveryContext, kind: type | None = None, **wanted: object) -> restore.RestoreRequest:
    """A request of somebody who has read what it asks: to a moment when it names one, else from a savepoint, unless ``kind`` is another."""
    given = {"confirm": recovery.application_id} | {name: value for name, value in wanted.items() if name in _SAFEGUARDS}
    others = {name: value for name, value in wanted.items() if name not in _SAFEGUARDS}
    strategy = kind or (restore.AsOfMoment if "as_of" in wanted else restore.FromSavepoint)
    return strategy(**{"reason": "test", "safeguards": restore.Safeguards(**given), **others})  # type: ignore[arg-type,no-any-return]


def rows_of(recovery: RecoveryContext, manifest: Manifest, tp: TopicPartition) -> list[dict[str, object]]:
    """The rows of one partition as its files have them."""
    found: list[dict[str, object]] = []
    for at, file in manifest.files():
        if at == tp:
            for batch in batches_in(recovery.repository, [file]):
                found += batch.to_pylist()
    return found


def untouched(small: Small) -> bool:
    """No savepoint, no lock, no compaction guard."""
    found = small.recovery.cluster.describe_topics([small.changelog.topic])
    guards = [topic.config.get("min.compaction.lag.ms") for topic in found.values()]
    return small.recovery.savepoints.ids() == [] and small.recovery.lock.holder() is None and not any(guards)


def configured(recovery: RecoveryContext, **sections: dict[str, object]) -> ApplicationConfig:
    """The configuration of a context with some keys changed."""
    plain = json.loads(recovery.config.model_dump_json())
    for name, section in sections.items():
        plain[name] |= section
    return ApplicationConfig.model_validate(plain)


def configured_for(small: Small, **sections: dict[str, object]) -> RecoveryContext:
    """The application's context with that configuration."""
    return replace(small.recovery, config=configured(small.recovery, **sections))


def lose_state(small: Small) -> None:
    """The changelog and the repartition topic."""
    small.recovery.cluster.delete_topics([small.changelog.topic, small.tail.topic])


def lose_state_and_group(small: Small) -> None:
    """Those, and the group."""
    lose_state(small)
    small.recovery.groups.delete(small.recovery.application_id)


def lose(small: Small) -> None:
    """Every topic, and the group."""
    small.recovery.cluster.delete_topics(small.topics)
    small.recovery.groups.delete(small.recovery.application_id)
