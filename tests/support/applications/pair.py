"""A small application and a clone of it, both behind a program that only pretends to run them: it notes with which output it was started."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_all, load_named
from streams_recovery.core.jobs.spec import JobPlan
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.ownership import Role
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.submitter import SparkJob
from streams_recovery.operations import restore, rollout
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.rollout import CutoverReport, CutoverRequest, CutoverStep, CutoverTicket
from streams_recovery.operations.rollout.discover import role
from tests.support.applications.restore_steps import compare, load, loaded, opened, saved, verified
from tests.support.applications.savepoint_steps import copied, publish
from tests.support.applications.small import Small, asked, small_application
from tests.support.applications.topic_records import commit

PROGRAM = """\
import json, os, pathlib, sys
place, verb = pathlib.Path(sys.argv[1]), sys.argv[2]
mark = place / "started"
if verb == "start":
    if (place / "broken").exists():
        sys.exit("it cannot be started")
    place.mkdir(exist_ok=True)
    mark.write_text(os.environ.get("OUT", ""))
if verb == "stop":
    mark.unlink(missing_ok=True)
if verb == "wipe":
    print(json.dumps({"removed": [], "remaining": []}))
if verb == "status" and mark.exists() and (place / "blind").exists():
    sys.exit("it cannot be asked")
if verb in ("status", "stop"):
    alive = mark.exists()
    state = {"state": "running", "streams_state": "RUNNING", "closed_cleanly": None}
    gone = {"state": "gone", "streams_state": None, "closed_cleanly": not (place / "unclean").exists()}
    print(json.dumps([{"name": "one", "detail": "pid 1", **(state if alive else gone)}]))
"""


def programs(directory: Path, place: str) -> dict[str, list[str]]:
    """The verbs of one of the two."""
    program = directory / "program.py"
    program.write_text(PROGRAM)
    return {verb: [sys.executable, str(program), str(directory / place), verb] for verb in ("status", "start", "stop", "wipe")}


@dataclass
class Both:
    """The old application, which runs, and the clone. Contexts are opened anew after every cut-over, as tasks open them."""

    small: Small
    directory: Path
    clone_id: str
    own: str

    @property
    def old(self) -> RecoveryContext:
        return self.small.recovery

    @property
    def variables(self) -> dict[str, str]:
        kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": self.old.connection.bootstrap_servers}}
        return {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(kafka), "STREAMS_RECOVERY_CONFIG_DIR": str(self.directory)}

    @contextmanager
    def clone(self) -> Iterator[RecoveryContext]:
        config = load_named("next", self.directory, {})
        with open_context(
            config, EnvironmentConnections(self.variables), applications=lambda: load_all(self.directory, {}).applications
        ) as recovery:
            yield recovery

    @property
    def tail(self) -> TopicPartition:
        """The clone's repartition topic."""
        return TopicPartition(f"{self.clone_id}-by-key-repartition", 0)

    def started_with(self, place: str) -> str | None:
        """The output an application was started with, None while it is down."""
        mark = self.directory / place / "started"
        return mark.read_text() if mark.exists() else None

    def cloned(self, savepoint: str, *, read_to: int = 5) -> None:
        """The clone restored from a savepoint, at work, and with its input read so far."""
        with self.clone() as clone:
            ticket = opened(clone, asked(clone, source=self.old.application_id, savepoint=savepoint))
            self.restored(clone, ticket, read_to=read_to)

    def restored(
        self, clone: RecoveryContext, ticket: restore.RestoreTicket, *, read_to: int = 5, before_start: bool = False
    ) -> restore.VerifySummary:
        """The steps of a restore behind the stop; with ``before_start`` only those before the start. Returns what was proven."""
        saved(clone, ticket)
        loaded(clone, ticket)
        proven = verified(clone, ticket)
        restore.set_offsets(clone, ticket)
        restore.wipe(clone, ticket)
        if not before_start:
            self.begun(clone, ticket, proven, read_to=read_to)
        return proven

    def begun(self, clone: RecoveryContext, ticket: restore.RestoreTicket, proven: restore.VerifySummary, *, read_to: int = 5) -> None:
        """The start and what follows."""
        started = restore.start(clone, ticket)
        commit(clone, {self.small.input: read_to})
        restore.await_recovered(clone, ticket, started)
        restore.finish(clone, ticket, proven)


@dataclass(frozen=True)
class Here:
    """See Submitter. Jobs done here, without Spark, on this context."""

    recovery: RecoveryContext

    def submit(self, job: SparkJob) -> ArtifactRef:
        """Do it."""
        plan = JobPlan(spec=job.spec, result_key=job.result_key, ranges=0, offsets=0)
        left: ArtifactRef = {"backup": copied, "restore": load, "verify": compare}[job.name](self.recovery, plan)
        return left


def request(step: CutoverStep, *, restore_first: bool = False) -> CutoverRequest:
    """What is asked of one step of a cut-over."""
    return CutoverRequest(step=step, reason="test", restore_first=restore_first)


def open_switch(old: RecoveryContext, clone: RecoveryContext, wanted: CutoverRequest, *, run: str | None = None) -> CutoverTicket:
    """A cut-over whose plan was approved."""
    planned = rollout.plan_cutover(old, clone, wanted)
    run = run or uuid.uuid4().hex
    return rollout.open_cutover(old, clone, wanted, run_id=run, requested_by="test", approved_hash=planned.hash)


def switched(both: Both, wanted: CutoverRequest, *, run: str | None = None) -> CutoverReport:
    """A whole cut-over, each of its steps taken twice, as a task that is repeated takes it."""
    with both.clone() as clone:
        ticket = open_switch(both.old, clone, wanted, run=run)
        stopped = [rollout.stop(both.old, clone, ticket) for _ in range(2)]
        for _ in range(2):
            rollout.transfer_outputs(both.old, clone, ticket)
        rollout.start_live(both.old, clone, ticket)
        started = rollout.start_live(both.old, clone, ticket)
        if started.instances:
            live = clone if wanted.step is CutoverStep.CUT_OVER else both.old
            commit(live, live.cluster.high_watermarks([both.small.input]))
        rollout.await_live(both.old, clone, ticket, started)
        return rollout.finish(both.old, clone, ticket, stopped[-1])


@contextmanager
def two_applications(bootstrap: str, directory: Path, *, guarantee: str = "exactly_once_v2") -> Iterator[Both]:
    """Both, the old one running with all of its input and its repartition topic read, the clone not made yet."""
    name = f"old{uuid.uuid4().hex[:8]}"
    own, clone_id = f"{name}.next.out", f"next{name}"
    with small_application(bootstrap, directory, name=name, programs=programs(directory, "old"), guarantee=guarantee) as small:
        plain = json.loads((directory / "small.yaml").read_text())
        real = small.output.topic
        plain |= {
            "name": "next",
            "application": {"id": clone_id, "guarantee": guarantee},
            "topics": {"inputs": [small.input.topic], "outputs": [own]},
            "restore": {"topic_map": {real: own}, "catch_up_timeout_seconds": 2},
            "clone": {"of": "small", "cut_over": {"environment": {"OUT": real}}},
        }
        plain["runs"]["command"] |= {**programs(directory, "next"), "environment": {"OUT": own}}
        (directory / "next.yaml").write_text(json.dumps(plain))
        both = Both(small, directory, clone_id, own)
        yield both
        made = [topic for topic in both.old.cluster.topic_names() if topic.startswith(clone_id) or topic == own]
        both.old.cluster.delete_topics(made)


def roles(both: Both) -> tuple[Role, Role]:
    """Of the old application and of the clone."""
    with both.clone() as clone:
        return role(both.old), role(clone)


def free(both: Both) -> bool:
    """Whether nobody holds either lock."""
    with both.clone() as clone:
        return both.old.lock.holder() is clone.lock.holder() is None


def cloned(both: Both) -> None:
    """The clone at work beside the old application. Both have read all there is, the old one its repartition topic too."""
    savepoint = publish(both.small)
    both.old.application.start()
    both.cloned(savepoint)
    commit(both.old, {both.small.input: 5, both.small.tail: 4})
