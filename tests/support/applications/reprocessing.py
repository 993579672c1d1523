"""An application with a past, and what processes intervals of it again."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.sandbox_application import SandboxName
from streams_recovery.core.forms import request_of
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.restore.interval import Interval
from streams_recovery.core.waiting import poll
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.operations import interval, restore
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.interval import Claimed, ReprocessOptions, ReprocessRequest
from streams_recovery.operations.restore.open import note
from tests.support.applications.restore_steps import saved, written
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small, says, small_application
from tests.support.applications.timed_inputs import FIRST, SECOND, ZERO, stamped
from tests.support.applications.topic_records import commit

GONE = [{"name": "again", "state": "gone", "streams_state": None, "closed_cleanly": True, "detail": "pid 3"}]


@dataclass(frozen=True)
class Again:
    """An application with two savepoints of its past, and what processes intervals of it again. Times are milliseconds after ``ZERO``; one is a second,
    so that intervals have names of their own.
    """

    small: Small
    stack: ExitStack
    directory: Path
    early: str

    @property
    def own(self) -> RecoveryContext:
        return self.small.recovery

    @property
    def kafka(self) -> dict[str, str]:
        extra = {"bootstrap.servers": self.own.connection.bootstrap_servers}
        return {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": extra})}

    def request(self, start: int, end: int, **asked: Any) -> ReprocessRequest:
        plain = {"lateness": "PT0S", "leave_late": True, **asked}
        return interval.requested(self.own, request_of(ReprocessOptions, plain), Interval(start=ZERO + start, end=ZERO + end))

    def claim(self, request: ReprocessRequest, run: str = "run-1") -> Claimed:
        found = interval.claim(self.own, request, run_id=run)
        assert found is not None
        return found

    def scratch(self, wanted: Claimed | ReprocessRequest) -> RecoveryContext:
        """What processes an interval, in its slot, or in the first one when it was not claimed."""
        name = (
            wanted.application
            if isinstance(wanted, Claimed)
            else str(SandboxName(application="small", interval=wanted.slice.interval.name, slot=0))
        )
        config = load_named(name, self.directory, {})
        return self.stack.enter_context(open_context(config, EnvironmentConnections(self.kafka)))

    def given(
        self, claimed: Claimed, meanwhile: Callable[[RecoveryContext], None] = lambda _: None
    ) -> tuple[RecoveryContext, restore.RestoreTicket]:
        """The interval up to where its input is loaded, as far as it is before the start. ``meanwhile`` happens once its topics are there."""
        recovery = self.scratch(claimed)
        interval.clear(recovery, self.own.application_id, claimed.request, run_id="run-1")
        planned = interval.plan(recovery, self.own.application_id, claimed.request)
        ticket = interval.open_interval(recovery, self.own.application_id, claimed.request, planned, run_id="run-1", requested_by="test")
        restore.stop(recovery, ticket)
        saved(recovery, ticket)
        restore.prepare(recovery, ticket)
        meanwhile(recovery)
        written(recovery, ticket)
        return recovery, ticket

    def processed(
        self, claimed: Claimed, results: Sequence[tuple[bytes, bytes | None, int]]
    ) -> tuple[RecoveryContext, restore.RestoreTicket]:
        """The interval up to where its application stopped, having written these results: key, value, time."""
        recovery, ticket = self.given(claimed)
        [output] = recovery.config.topics.outputs
        write(recovery, output, results)
        note(recovery, ticket, Phase.RECOVERED)
        return recovery, ticket

    def ended(
        self,
        recovery: RecoveryContext,
        claimed: Claimed,
        ticket: restore.RestoreTicket | None,
        published: interval.PublishReport | None = None,
        run: str = "run-1",
        *,
        finished: bool = True,
    ) -> interval.ReprocessEntry:
        """Removed and written down, as by a run that came to its end, or by one whose last step but the removal failed."""
        if ticket is not None:
            if finished:
                note(recovery, ticket, Phase.CLOSED)
            interval.remove(recovery, ticket, published)
        planned = interval.Planned(records=1, savepoint=None, text="")
        done = interval.Done(planned=planned, ticket=ticket, published=published, finished=finished, left=())
        return interval.conclude(self.own, claimed.request, done, run_id=run, requested_by="test")

    def here(self) -> set[str]:
        """Everything on the cluster that reprocessing would make."""
        names = {*self.own.cluster.topic_names(), *self.own.cluster.groups()}
        return {name for name in names if name.startswith(("again-", "again.")) and self.own.application_id in name}


def write(recovery: RecoveryContext, topic: str, records: Sequence[tuple[bytes, bytes | None, int]]) -> None:
    producer = Producer(recovery.connection.client_config())
    for key, value, at in records:
        producer.produce(topic, value, key, 0, timestamp=ZERO + at)
    assert producer.flush(30) == 0


def read(recovery: RecoveryContext, topic: str) -> list[tuple[bytes, bytes | None, int]]:
    tp = TopicPartition(topic, 0)

    def decided() -> tuple[int] | None:
        """The end, once the marker of the last transaction is there: it comes a moment after its commit was answered."""
        end = recovery.cluster.high_watermarks([tp])[tp]
        return (end,) if recovery.cluster.last_stable_offsets([tp])[tp] == end else None

    found = poll(decided, seconds=60, interval=0.1)
    assert found is not None
    [end] = found
    with RangeReader(recovery.connection, tp, 0, end) as reader:
        columns = [[batch.column(name).to_pylist() for name in ("key", "value", "timestamp")] for batch in reader]
    return [(key, value, at - ZERO) for batch in columns for key, value, at in zip(*batch, strict=True)]


@contextmanager
def again_at(bootstrap: str, tmp_path: Path) -> Iterator[Again]:
    """It, in a directory of its own; what it makes on the cluster is gone at the end."""
    name = f"small{uuid.uuid4().hex[:8]}"
    with small_application(bootstrap, tmp_path, name=name, topics={"include": [f"{name}.in"]}) as small, ExitStack() as stack:
        plain = json.loads((tmp_path / "small.yaml").read_text())
        plain["reprocess"] = {
            "application_id": f"again-{name}",
            "parallel": 2,
            "topic_map": {f"{name}.in": f"again.{name}.in", f"{name}.out": f"again.{name}.out"},
            "command": {
                "status": says(GONE),
                "stop": says(GONE),
                "start": ["true", f"again.{name}.in-{{interval}}", f"again.{name}.out-{{interval}}"],
                "wipe": [*says(GONE)[:2], 'print(\'{"removed": [], "remaining": []}\')'],
            },
        }
        (tmp_path / "small.yaml").write_text(json.dumps(plain))
        recovery = replace(small.recovery, config=ApplicationConfig.model_validate(plain))
        for topic, policy in ((small.input.topic, "delete"), (small.output.topic, "compact")):
            recovery.cluster.delete_topics([topic])
            # The cleaner would take away what the tests look for.
            config = {"retention.ms": "-1", "cleanup.policy": policy, "min.compaction.lag.ms": str(2**63 - 1)}
            recovery.cluster.create_topic(topic, partitions=1, replication_factor=1, config=config)
        stamped(recovery, small.input, FIRST)
        commit(recovery, {small.input: 2})
        own = replace(small, recovery=recovery)
        early = publish(own)
        stamped(recovery, small.input, SECOND)
        commit(recovery, {small.input: 7})
        publish(own)
        found = Again(own, stack, tmp_path, early)
        yield found
        recovery.cluster.delete_topics([topic for topic in found.here() if topic in recovery.cluster.topic_names()])


@contextmanager
def configured(again: Again, recovery: RecoveryContext, **verbs: Sequence[str]) -> Iterator[RecoveryContext]:
    """The same with other commands of the application."""
    runs = recovery.config.runs
    assert runs.command is not None
    command = runs.command.model_copy(update={verb: tuple(words) for verb, words in verbs.items()})
    config = recovery.config.model_copy(update={"runs": runs.model_copy(update={"command": command})})
    with open_context(config, EnvironmentConnections(again.kafka)) as found:
        yield found
