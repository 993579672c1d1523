"""Real applications with shapes of state (``Shapes.java``): what they are fed, how all that they have is lost, and what must be true once it is back."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from confluent_kafka import Producer

from embedded import example
from embedded.class_archive import options
from embedded.compiled import compiled
from embedded.demo import disaster
from embedded.jars import KAFKA, JarSet, jar_files
from embedded.java import QUICK, find_java
from embedded.ports import HOST, free_ports
from streams_recovery.cli import runs
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.cli.runner import Runner
from streams_recovery.config.loader import load_named
from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.names import internal_role
from streams_recovery.core.restore.report import RestoreReport
from streams_recovery.core.restore.request import SafetyPolicy
from streams_recovery.core.state.edit import default_partition
from streams_recovery.core.waiting import poll
from streams_recovery.engine.submitter import Submitter
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.restore.strategies import Rescale
from streams_recovery.operations.savepoint import SavepointRequest
from tests.support.applications.endpoints import java_endpoints
from tests.support.applications.shape_inputs import GLOBAL_SIDES, KEYS, SIDES, ZERO, Batches, part
from tests.support.applications.shape_oracles import ORACLES, PARTITIONS, Answer, Given
from tests.support.applications.small import asked
from tests.support.kafka.records_below import records_below
from tests.support.programs.java import STREAMS

PROGRAM: Final = STREAMS / "Shapes.java"
# Stores that no changelog has.
_STORES: Final = {
    "unlogged": {"unlogged-without": {"kind": "key-value", "logged": False}},
    # By its name it would be the buffer itself.
    "suppressed": {"suppressed-minutes": {"kind": "window"}},
    "versioned": {"versioned-table": {"kind": "versioned"}},
}
_SECONDS: Final = 120


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """An application: its shapes, and how it is run. One that ``survives`` the loss of the cluster has its inputs in its savepoints."""

    shapes: tuple[str, ...]
    guarantee: str = "exactly_once_v2"
    protocol: str = "classic"
    mode: str = "pause"
    instances: int = 1
    threads: int = 2
    standbys: int = 0
    static: bool = False
    optimized: bool = False
    survives: bool = False
    poll_ms: int = 100
    # How often records of repartition topics that were read are deleted.
    purge_ms: int = 30_000
    kafka: JarSet = KAFKA


# Those that go through rescales: every kind of join and buffer, and both guarantees.
RESCALED: Final = {
    "exactly once": Fleet(shapes=("tables", "foreign", "outer", "suppressed"), mode="stop", survives=True),
    "at least once": Fleet(shapes=("tables", "foreign"), guarantee="at_least_once", mode="stop", survives=True),
}

Fed = dict[str, list[Given]]
Result = tuple[str, str | None]


@dataclass(kw_only=True)
class Shaped:
    """The application on a broker, not started. ``before`` is what was processed when the savepoint was taken, ``since`` what its state has to meet again."""

    recovery: RecoveryContext
    fleet: Fleet
    # None for one that is only looked at.
    submitter: Submitter | None
    before: Fed
    since: Fed
    # Partitions of its inputs.
    numbers: int = PARTITIONS
    _begins: dict[TopicPartition, int] = field(default_factory=dict)
    _owed: dict[str, Counter[Result]] = field(default_factory=dict)
    _sent: Fed = field(default_factory=dict)

    def topic(self, shape: str, side: str) -> str:
        return f"{self.recovery.application_id}.{shape}.{side}"

    def partitions(self, *topics: str) -> list[TopicPartition]:
        inputs = self.recovery.config.topics.inputs
        return [TopicPartition(topic, number) for topic in topics for number in range(self.numbers if topic in inputs else PARTITIONS)]

    def start(self) -> None:
        self.recovery.application.start()

    def feed_part(self, number: int, *, last: bool = False) -> None:
        """Part ``number`` of the input of all its shapes."""
        self.feed({shape: part(shape, number, ZERO, last=last) for shape in self.fleet.shapes})

    def feed(self, batches: dict[str, Batches]) -> None:
        """Batch by batch, each processed before the next one is fed."""
        for together in zip_longest(*([(shape, batch) for batch in several] for shape, several in batches.items())):
            given = dict(pair for pair in together if pair is not None)
            self.send(given)
            self._await_processed()
            if any(one.side in GLOBAL_SIDES.get(shape, ()) for shape, records in given.items() for one in records):
                # Nothing is committed for these.
                assert poll(lambda: True if not [*self._unlike_kept(self._answer("globals"))] else None, seconds=_SECONDS, interval=0.1)

    def send(self, given: Fed) -> None:
        """Write records to the inputs, in their order. What reads them has to know them from here on."""
        producer = Producer(self.recovery.connection.client_config())
        for shape, records in given.items():
            for one in records:
                value = None if one.value is None else one.value.encode()
                headers = [] if one.trace is None else [("trace", one.trace.encode())]
                partition = default_partition(one.key.encode(), self.numbers)
                producer.produce(self.topic(shape, one.side), value, one.key, partition, timestamp=one.at, headers=headers)
            self.since[shape] += records
            self._sent.setdefault(shape, []).extend(records)
        assert producer.flush(30) == 0

    def _await_processed(self) -> None:
        """Until all input is committed. What comes of it may still be under way between two parts of the application."""
        inputs = self.partitions(*self.recovery.config.topics.inputs)

        def left() -> list[TopicPartition]:
            committed = self.recovery.groups.committed(self.recovery.application_id, inputs)
            ends = self.recovery.cluster.high_watermarks(inputs)
            return [tp for tp in inputs if ends[tp] > (found.offset if (found := committed[tp]) else 0)]

        assert poll(lambda: True if not left() else None, seconds=_SECONDS, interval=0.1), left()

    def savepoint(self) -> str:
        """Taken by the whole workflow. From here on, what the state must know is what it was given until now."""
        taken = self.backup()
        manifest = self.recovery.savepoints.read(taken)
        ends = {
            TopicPartition(topic.name, image.partition): image.end
            for topic in manifest.topics
            if topic.name in self.recovery.config.topics.outputs
            for image in topic.partitions
        }
        written = self._results(ends)
        for shape in self.fleet.shapes:
            self._owed[shape] = self._check_so_far(shape, written[shape])
        self._begins = ends
        self.before = {shape: [*self.before[shape], *self.since[shape]] for shape in self.fleet.shapes}
        self.since = {shape: [] for shape in self.fleet.shapes}
        return taken

    def backup(self) -> str:
        """A savepoint from which nothing is going to be restored."""
        request = SavepointRequest(run_id=uuid.uuid4().hex, requested_by="test", reason="", mode=None)
        return runs.backup(self._runner, request).savepoint_id

    def _check_so_far(self, shape: str, written: Sequence[Result]) -> Counter[Result]:
        """Before anything is lost, results are right. What found no partner may have been told at once, or is told later than it could be: that is a
        matter of which side was read first. Returns what the state still owes, less what it has told ahead of time.
        """
        answer = self._answer(shape)
        if answer.written is None or shape not in ("left", "outer"):
            assert not (wrong := unlike(written, answer)), (shape, wrong)
            return Counter()
        owed = Counter(answer.written)
        owed.subtract(Counter(written))
        assert all("null" in str(value) for (_, value), count in owed.items() if count), (shape, owed)
        return owed

    def lose(self) -> None:
        """Instances, internal topics, group and local state; and every other topic, where the application is to survive that."""
        recovery = self.recovery
        assert disaster.destroy(recovery, self._kill)
        if self.fleet.survives:
            recovery.cluster.delete_topics(sorted(recovery.config.topics.declared))
            self.since = {shape: [] for shape in self.fleet.shapes}
            self._sent = {shape: list(records) for shape, records in self.before.items()}
        self.mark()

    def _kill(self, recovery: RecoveryContext) -> None:
        disaster.kill_processes(recovery)
        # Nobody but the broker can remove members of a group of the streams protocol.
        assert self.fleet.protocol == "classic" or poll(
            lambda: True if not recovery.groups.describe(recovery.application_id).members else None, seconds=_SECONDS, interval=0.5
        )

    def internal(self) -> list[str]:
        """Its changelogs and repartition topics."""
        return [topic for topic in self.recovery.cluster.topic_names() if internal_role(topic, self.recovery.application_id)]

    def spoil(self) -> list[str]:
        """Records that no input explains, in every changelog: what a wrong version leaves. The application is down and has nothing else. Returns its internal
        topics.
        """
        recovery = self.recovery
        recovery.application.stop(timeout=60)
        recovery.application.wipe_state()
        internal = self.internal()
        producer = Producer(recovery.connection.client_config())
        for topic in internal:
            if topic.endswith("-changelog"):
                producer.produce(topic, b"spoiled", KEYS[0], 0)
        assert producer.flush(30) == 0
        self.mark()
        return internal

    def logs(self) -> dict[TopicPartition, list[Given]]:
        """What every partition of the inputs has, from offset 0 on."""
        found: dict[TopicPartition, list[Given]] = {tp: [] for tp in self.partitions(*self.recovery.config.topics.inputs)}
        for shape, records in self._sent.items():
            for one in records:
                found[TopicPartition(self.topic(shape, one.side), one.partition)].append(one)
        return found

    def forget(self, begins: Mapping[TopicPartition, int] = MappingProxyType({})) -> None:
        """All that there was has to be processed again, of these partitions of the inputs what is there from these offsets on."""
        passed = {id(one) for tp, records in self.logs().items() for one in records[: begins.get(tp, 0)]}
        self.since = {shape: [one for one in records if id(one) not in passed] for shape, records in self._sent.items()}
        self.before = {shape: [] for shape in self.fleet.shapes}
        self._owed = {}

    def mark(self) -> None:
        """From here on results count."""
        outputs = self.partitions(*self.recovery.config.topics.outputs)
        there = {*self.recovery.cluster.topic_names()}
        self._begins = dict.fromkeys(outputs, 0) | self.recovery.cluster.high_watermarks([tp for tp in outputs if tp.topic in there])

    def restore(self, kind: type | None = None, **wanted: object) -> RestoreReport:
        """By the whole workflow."""
        requester = runs.Requester(run_id=uuid.uuid4().hex, requested_by="test")
        request = asked(self.recovery, kind, replace=True, safety=SafetyPolicy.SKIP, **wanted)
        return runs.restore_in_place(self._runner, request, requester, approve=lambda _: True)

    def rescale(self, numbers: int, **wanted: object) -> RestoreReport:
        """By the whole workflow, all inputs at once: whoever writes to them does so from here on."""
        inputs, requester = self.recovery.config.topics.inputs, runs.Requester(run_id=uuid.uuid4().hex, requested_by="test")
        asking = {"partitions": " ".join(f"{topic}={numbers}" for topic in inputs), **wanted}
        request = asked(self.recovery, Rescale, replace=True, delete=tuple(self.internal()), **asking)
        report = runs.restore_in_place(self._runner, request, requester, approve=lambda _: True)
        self.numbers = numbers
        return report

    @property
    def _runner(self) -> Runner:
        assert self.submitter is not None
        return Runner(recovery=self.recovery, submitter=self.submitter, say=print)

    def check(self) -> None:
        """Everything is as it must be, in time, and nothing comes after that: not even when all is flushed."""
        assert poll(lambda: True if not self._wrong(kept=True) else None, seconds=_SECONDS / 2, interval=0.5), self._wrong(kept=True)
        self.recovery.application.stop(timeout=60)
        assert not (wrong := self._wrong(kept=False)), wrong

    def _wrong(self, *, kept: bool) -> dict[str, list[str]]:
        """By shape, how results, and stores if these are asked too, differ from what they must be."""
        outputs = self.partitions(*self.recovery.config.topics.outputs)
        written = self._results(self.recovery.cluster.high_watermarks(outputs))
        found = {}
        for shape in self.fleet.shapes:
            answer = self._answer(shape)
            found[shape] = [*unlike(written[shape], answer), *(self._unlike_kept(answer) if kept else ())]
            found[shape] += [] if written[shape] else ["there are no results"]
        return {shape: problems for shape, problems in found.items() if problems}

    def _answer(self, shape: str) -> Answer:
        answer = ORACLES[shape](self.before[shape], self.since[shape])
        if answer.written is not None:
            answer.written.update(self._owed.get(shape, Counter()))
        return answer

    def _unlike_kept(self, answer: Answer) -> Iterator[str]:
        for store, wanted in answer.kept.items():
            try:
                found = self.recovery.application.query(store)
            except RecoveryError as error:
                yield f"{store}: {error}"
            else:
                wrong = [(key, found.get(key), wanted.get(key)) for key in {*found, *wanted} if found.get(key) != wanted.get(key)]
                if wrong:
                    yield f"{store}: {_some(wrong)}"

    def _results(self, ends: Mapping[TopicPartition, int]) -> dict[str, list[Result]]:
        """By shape, since they count and up to these ends, in the order of their partitions."""
        found: dict[str, list[Result]] = {shape: [] for shape in self.fleet.shapes}
        for tp, message in records_below(self.recovery.connection.bootstrap_servers, ends, self._begins):
            key, value = message.key(), message.value()
            assert isinstance(key, bytes)
            found[tp.topic.split(".")[1]].append((key.decode(), value.decode() if isinstance(value, bytes) else None))
        return found


Open = Callable[[Fleet], Shaped]


def unlike(written: Sequence[Result], answer: Answer) -> list[str]:
    """How results differ from what they must be."""
    if answer.written is not None:
        counted = Counter(written)
        missing, extra = answer.written - counted, counted - answer.written
        return [f"{len(missing)} missing {_some(missing)}, {len(extra)} too many {_some(extra)}"] if missing or extra else []
    last = dict(written)
    wrong = {key: (value, answer.last.get(key)) for key, value in last.items() if value != answer.last.get(key)}
    return [f"{len(wrong)} last results are wrong: {_some(wrong.items())}"] if wrong else []


def _some(things: Any) -> str:
    return str(sorted(things, key=str)[:5])


@contextmanager
def shaped(bootstrap: str, directory: Path, fleet: Fleet, submitter: Submitter | None = None) -> Iterator[Shaped]:
    """The application with its topics, which are empty. It is stopped, and they are gone, at the end."""
    name = f"shapes{uuid.uuid4().hex[:8]}"
    (directory / "shapes.yaml").write_text(json.dumps(_configuration(bootstrap, directory, fleet, name)))
    kafka = {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}})}
    with open_context(load_named("shapes", directory, {}), EnvironmentConnections(kafka)) as recovery:
        for topic in recovery.config.topics.declared:
            policy = "compact" if topic.endswith(".optimized.table") else "delete"
            recovery.cluster.create_topic(
                topic, partitions=PARTITIONS, replication_factor=1, config={"retention.ms": "-1", "cleanup.policy": policy}
            )
        found = Shaped(
            recovery=recovery,
            fleet=fleet,
            submitter=submitter,
            before={shape: [] for shape in fleet.shapes},
            since={shape: [] for shape in fleet.shapes},
        )
        found.mark()
        try:
            yield found
        finally:
            disaster.kill_processes(recovery)
            recovery.cluster.delete_topics([topic for topic in recovery.cluster.topic_names() if topic.startswith(name)])


def _configuration(bootstrap: str, directory: Path, fleet: Fleet, name: str) -> dict[str, Any]:
    topics: dict[str, list[str]] = {"inputs": [], "globals": [], "outputs": [f"{name}.{shape}.out" for shape in fleet.shapes]}
    stores: dict[str, Any] = {}
    for shape in fleet.shapes:
        stores |= _STORES.get(shape, {})
        for side in SIDES[shape]:
            topics["globals" if side in GLOBAL_SIDES.get(shape, ()) else "inputs"].append(f"{name}.{shape}.{side}")
    if fleet.instances > PARTITIONS:
        # Some instances have nothing of it, and the restore asks all of them.
        stores["tables-inner"] = {"kind": "key-value", "queryable": True, "key": "string", "value": "string"}
    if fleet.optimized:
        stores["optimized-table"] = {"kind": "key-value", "source": f"{name}.optimized.table"}
    session = 45_000 if fleet.static else 6_000
    environment = {
        "APPLICATION_ID": name,
        "BOOTSTRAP_SERVERS": bootstrap,
        "GUARANTEE": fleet.guarantee,
        "PROTOCOL": fleet.protocol,
        "THREADS": str(fleet.threads),
        "STANDBYS": str(fleet.standbys),
        "SESSION_MS": str(session),
        "OPTIMIZATION": "reuse.ktable.source.topics" if fleet.optimized else "none",
        "POLL_MS": str(fleet.poll_ms),
        "PURGE_MS": str(fleet.purge_ms),
        "PORT": "{port}",
        "STATE_DIR": "{state_directory}",
        **({"STATIC_MEMBER": "{name}"} if fleet.static else {}),
    }
    instances = [
        {"name": f"one-{number}", "url": f"http://{HOST}:{port}", "state_directory": str(directory / f"state{number}")}
        for number, port in enumerate(free_ports(fleet.instances))
    ]
    process = {
        "directory": str(directory / "processes"),
        "command": command(fleet),
        "environment": environment,
        "instances": instances,
        "control": {"close": "/close"},
    }
    return {
        "version": 1,
        "name": "shapes",
        "application": {
            "id": name,
            "guarantee": fleet.guarantee,
            "commit_interval_ms": 100,
            "session_timeout_ms": session,
            "standby_replicas": fleet.standbys,
        },
        "topics": topics,
        "stores": stores,
        "storage": {"backend": "filesystem", "path": str(directory / "repository")},
        "backup": {"survive_cluster_loss": fleet.survives, "consistency": {"mode": fleet.mode, "timeout_seconds": 60}},
        "restore": {"producers_still_seconds": 1, "catch_up_timeout_seconds": 120},
        "runs": {"kind": "process", "process": process},
    }


def command(fleet: Fleet) -> list[str]:
    """What runs one instance."""
    base, own = example.program(), fleet.kafka is KAFKA
    with_endpoints = java_endpoints(base.class_path if own else jar_files(fleet.kafka))
    class_path = ":".join(map(str, (*with_endpoints, compiled(PROGRAM, with_endpoints))))
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    flags = options(base, example.exercise) if own else QUICK
    return [str(find_java()), "-Xmx256m", *flags, quiet, "-cp", class_path, PROGRAM.stem, ",".join(fleet.shapes)]
