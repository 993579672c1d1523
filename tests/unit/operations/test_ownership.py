"""Every start goes by what the repository says an application is."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams_recovery.application.command import CommandApplication
from streams_recovery.application.port import InstanceState, InstanceStatus, StopReport, StreamsApplication
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.runs import CommandRuns, Runs
from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, GroupDescription, QuiesceMode, TopicDescription, TopicPartition
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.ownership import OwnershipEntry, Role, agreed
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.words import new_id
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups
from streams_recovery.kafka.transactions import Transactions
from streams_recovery.operations import ownership, rollout
from streams_recovery.operations import savepoint as savepoints
from streams_recovery.operations.context import RecoveryContext, not_gone, open_context
from streams_recovery.operations.ownership import StartedByRole, current_owner, entries_of, ownership_log, role_by_logs
from streams_recovery.operations.renewed_lock import LEASE_SECONDS, HeldLock
from streams_recovery.operations.rollout import CutoverStep, CutoverTicket
from streams_recovery.operations.rollout.cutover import append_role
from streams_recovery.operations.savepoint.begin import owner
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository

STARTING = "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(os.environ['OUT'])"


def entry(role: Role) -> OwnershipEntry:
    return OwnershipEntry(role=role, other="orders", run="r", at=1, offsets={}, again={}, tail={})


def configured(directory: Path, *, clone: bool) -> ApplicationConfig:
    """An application whose start writes its output's name to a file."""
    plain = {
        "version": 1,
        "application": {"id": "next", "guarantee": "exactly_once_v2"},
        "topics": {"inputs": ["in"], "outputs": ["own.out"]},
        "storage": {"backend": "filesystem", "path": str(directory / "repository")},
        "backup": {"survive_cluster_loss": False},
        "restore": {"topic_map": {"out": "own.out"}},
        "runs": {
            "kind": "command",
            "command": {
                "start": [sys.executable, "-c", STARTING, str(directory / "started")],
                "environment": {"OUT": "own.out"},
                **{verb: ["true"] for verb in ("status", "stop", "wipe")},
            },
        },
        **({"clone": {"of": "orders", "cut_over": {"environment": {"OUT": "out"}}}} if clone else {}),
    }
    path = directory / "next.yaml"
    path.write_text(json.dumps(plain))
    return load(path, {})


def log_in(directory: Path, application_id: str = "next") -> AppendLog[OwnershipEntry]:
    return ownership_log(
        Repository(StorageLocation(backend="filesystem", path=str(directory / "repository")), None), Layout(application_id)
    )


def outputs(config: ApplicationConfig, applications: Mapping[str, ApplicationConfig] | None = None) -> tuple[str, ...]:
    """The outputs that the application counts as writing."""
    return current_owner(config, Repository(config.storage.location, None), lambda: applications or {}).topics.outputs


def started(directory: Path, config: ApplicationConfig) -> str | None:
    """With which output one is started on a cluster that does not answer, None when it is not."""
    repository = Repository(config.storage.location, None)
    nowhere = KafkaConnection.from_extra({"bootstrap.servers": "127.0.0.1:9"}, where="a test")
    mark = directory / "started"
    mark.unlink(missing_ok=True)
    with ConsumerGroups(lambda: nowhere, timeout=1) as groups, suppress(RecoveryError):
        StartedByRole(config, repository, groups, dict).start()
    return mark.read_text() if mark.exists() else None


@pytest.mark.parametrize("clone", [True, False])
def test_without_any_entry_an_application_is_started_as_it_is_configured_and_no_cluster_is_asked(tmp_path: Path, clone: bool) -> None:
    config, log = configured(tmp_path, clone=clone), log_in(tmp_path)
    assert started(tmp_path, config) == "own.out"
    assert log.last() is None
    assert outputs(config) == ("own.out",)


@pytest.mark.parametrize(("clone", "role"), [(True, Role.LIVE), (True, Role.RETIRED), (False, Role.RETIRED)])
def test_what_cannot_be_proven_is_not_started(tmp_path: Path, clone: bool, role: Role) -> None:
    config, log = configured(tmp_path, clone=clone), log_in(tmp_path)
    log.append(entry(role))
    assert started(tmp_path, config) is None
    assert outputs(config) == ("own.out",)


@pytest.mark.fault("F63")
@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        ((Role.RETIRED, "next"), "out"),
        ((Role.RETIRED, "another"), "own.out"),
        ((Role.LIVE, "next"), "own.out"),
        (None, "own.out"),
    ],
)
def test_a_clone_has_the_real_outputs_only_when_both_logs_say_so(tmp_path: Path, theirs: tuple[Role, str] | None, expected: str) -> None:
    config, log = configured(tmp_path, clone=True), log_in(tmp_path)
    log.append(entry(Role.LIVE))
    if theirs is not None:
        role, other = theirs
        log_in(tmp_path, "orders").append(replace(entry(role), other=other))
    assert outputs(config) == (expected,)
    renamed = config.application.model_copy(update={"id": "orders-2"})
    of = config.model_copy(update={"name": "orders", "application": renamed, "clone": None})
    # Where the configuration says whose clone it is, the log cannot name another.
    assert outputs(config, {"orders": of}) == ("own.out",)


def test_a_standby_is_started_with_its_own_outputs(tmp_path: Path) -> None:
    config, log = configured(tmp_path, clone=True), log_in(tmp_path)
    log.append(entry(Role.STANDBY))
    assert started(tmp_path, config) == "own.out"


OLD, NEXT, IN = "orders", "next", TopicPartition("in", 0)


@dataclass
class World:
    """A cluster and the programs of an application and of its clone: what each of the two is running with, and what its group has committed."""

    directory: Path
    running: dict[str, str] = field(default_factory=dict)
    committed: dict[str, int] = field(default_factory=lambda: {OLD: 5, NEXT: 5})

    @property
    def writers(self) -> int:
        """How many write the real output."""
        return list(self.running.values()).count("out")

    @cached_property
    def configs(self) -> dict[str, ApplicationConfig]:
        """Both configurations."""
        clone = configured(self.directory, clone=True)
        topics = replace(clone.topics, outputs=("out",))
        command = clone.runs.command.model_copy(update={"environment": {"OUT": "out"}}) if clone.runs.command is not None else None
        old = clone.model_copy(
            update={
                "name": OLD,
                "application": clone.application.model_copy(update={"id": OLD}),
                "topics": topics,
                "clone": None,
                "runs": clone.runs.model_copy(update={"command": command}),
            }
        )
        return {OLD: old, NEXT: clone}

    @contextmanager
    def opened(self, name: str) -> Iterator[RecoveryContext]:
        """The context of one of the two, opened anew as each task opens it."""
        nowhere = {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:9"}})}
        with open_context(self.configs[name], EnvironmentConnections(nowhere), applications=lambda: self.configs) as recovery:
            groups = Groups(self)
            application = StartedByRole(self.configs[name], recovery.repository, groups, lambda: self.configs)
            yield replace(
                recovery,
                groups=groups,
                cluster=Cluster(self),
                transactions=NoTransactions(self),
                application=application,
                counterpart=application.counterpart,
            )

    @contextmanager
    def both(self) -> Iterator[tuple[RecoveryContext, RecoveryContext]]:
        with self.opened(OLD) as old, self.opened(NEXT) as clone:
            yield old, clone

    def program(self, runs: Runs, application_id: str, _: ApplicationKind) -> StreamsApplication:
        """See ``open_application``."""
        assert runs.command is not None
        return Program(self, runs.command, application_id)


class Program(CommandApplication):
    """One application as it is told to run, without a program: its one instance is up or gone."""

    def __init__(self, world: World, section: CommandRuns, application_id: str) -> None:
        super().__init__(section, application_id)
        self.world, self.application_id, self.out = world, application_id, section.environment["OUT"]

    def status(self) -> tuple[InstanceStatus, ...]:
        here = self.application_id in self.world.running
        state = InstanceState.RUNNING if here else InstanceState.GONE
        return (InstanceStatus(name="one", state=state, streams_state="RUNNING" if here else None, closed_cleanly=not here, detail=""),)

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        assert not environment
        self.world.running.setdefault(self.application_id, self.out)

    def stop(self, *, timeout: float) -> StopReport:
        assert timeout > 0
        self.world.running.pop(self.application_id, None)
        return StopReport(instances=self.status())


class Groups(ConsumerGroups):
    """The groups of that cluster."""

    def __init__(self, world: World) -> None:
        self._world = world

    def describe(self, group_id: str) -> GroupDescription:
        return GroupDescription(
            group_id=group_id, kind="classic", state="Stable" if group_id in self._world.running else "Empty", members=()
        )

    def committed_partitions(self, group_id: str) -> tuple[TopicPartition, ...]:
        return (IN,) if group_id in self._world.committed else ()

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedOffset | None]:
        return {tp: CommittedOffset(offset=self._world.committed[group_id], metadata="") for tp in partitions}


class Cluster(KafkaCluster):
    """Its one topic."""

    def __init__(self, world: World) -> None:
        self._world = world

    def topic_names(self) -> tuple[str, ...]:
        return (IN.topic,)

    def describe_topics(self, names: Collection[str]) -> dict[str, TopicDescription]:
        one = TopicDescription(name=IN.topic, topic_id="id", partitions=1, replication_factor=1, config={}, leader_epochs=(0,))
        return {name: one for name in names if name == IN.topic}

    def last_stable_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, max(self._world.committed.values()))


class NoTransactions(Transactions):
    """Nothing is undecided."""

    def __init__(self, _: World) -> None:
        """Without a connection."""

    def undecided(self, _: object) -> tuple[str, ...]:
        return ()


@dataclass
class Walk:
    """A walk through all that can happen to the two. Each step is one function of this project, or what somebody adds: of one entry nobody runs as
    another, and of several no two write the real output.
    """

    world: World
    runs: list[str] = field(default_factory=lambda: ["forged"])
    forged: int = 0

    def new_run(self) -> str:
        self.runs.append(uuid.uuid4().hex)
        return self.runs[-1]

    def by_logs(self, *more: tuple[str, OwnershipEntry]) -> Role:
        """What the clone is by both logs, with entries that somebody might add."""
        logs = {name: entries_of(log_in(self.world.directory, name)) + [one for at, one in more if at == name] for name in (OLD, NEXT)}
        return agreed(logs[NEXT], logs[OLD], application_id=NEXT, of=OLD).role

    def switch(self, step: CutoverStep, *, killed: bool) -> None:
        """A cut-over or a way back from the stop on, all of it or half."""
        if step is CutoverStep.CUT_OVER and self.by_logs() is Role.LIVE:
            return
        run, start = self.new_run(), dict(self.world.running)
        with self.world.both() as (old, clone):
            locks = [HeldLock(lock=one.lock.acquire(run, lease_seconds=LEASE_SECONDS, purpose="a test")) for one in (old, clone)]
            ticket = CutoverTicket(
                step=step,
                run=run,
                requested_by="somebody",
                reason="test",
                plan_hash="",
                old=locks[0],
                clone=locks[1],
                running=tuple(start),
                restore_first=False,
                started_at=1,
            )
            for one in (old, clone):
                one.application.stop(timeout=1)
            self.world.committed = dict.fromkeys((OLD, NEXT), max(self.world.committed.values()))
            try:
                if killed:
                    append_role(*((old, clone) if step is CutoverStep.CUT_OVER else (clone, old)), run, _FIRST[step])
                else:
                    rollout.transfer_outputs(old, clone, ticket)
                    rollout.start_live(old, clone, ticket)
            except RecoveryError:
                with suppress(RecoveryError):
                    rollout.abandon(old, clone, ticket)
            finally:
                for one, lock in zip((old, clone), locks, strict=True):
                    one.lock.release(lock.lock)

    def failed_upgrade(self) -> None:
        """An upgrade in one go that is taken back behind the entry that retires the old application."""
        if OLD not in self.world.running or NEXT in self.world.running:
            return
        with self.world.both() as (old, clone), self.savepoint(OLD, self.new_run()) as ticket:
            self.runs.append(ticket.savepoint_id)
            self.world.running.pop(OLD)
            with suppress(RecoveryError):
                rollout.retire(old, clone, ticket, CUT)
            old.lock.release(ticket.lock)
            rollout.bring_back(old, clone, ticket)
            assert self.forged or OLD in self.world.running, "what an upgrade has stopped runs again"

    @contextmanager
    def savepoint(self, name: str, run: str) -> Iterator[savepoints.Ticket]:
        with self.world.opened(name) as recovery:
            request = savepoints.SavepointRequest(run_id=run, requested_by="test", reason="test", mode=QuiesceMode.STOP)
            lock = recovery.lock.acquire(owner(request), lease_seconds=LEASE_SECONDS, purpose="a test")
            yield savepoints.Ticket(
                application_id=name,
                savepoint_id=new_id(recovery.clock(), run),
                request=request,
                mode=QuiesceMode.STOP,
                fallback=None,
                lock=lock,
                mark=0,
                started_at=1,
                running=tuple(one.name for one in not_gone(recovery)),
                safety=False,
                expected=(),
                role=role_by_logs(recovery.application),
            )
            recovery.lock.release(lock)

    def saved(self, name: str, meanwhile: Sequence[Callable[[], None]]) -> None:
        """A savepoint in mode stop, and what happens while it holds the application."""
        before = self.world.running.get(name)
        with self.savepoint(name, self.new_run()) as ticket:
            with self.world.opened(name) as recovery:
                try:
                    savepoints.quiesce(recovery, ticket)
                except RecoveryError:
                    assert self.world.running.get(name) == before, "what is refused is refused before anything is stopped"
            for one in meanwhile:
                one()
            with self.world.opened(name) as recovery:
                others = self.world.writers
                try:
                    savepoints.resume(recovery, ticket)
                except RecoveryError:
                    assert (before, others) == ("out", 1), "only another writer keeps it down"
                else:
                    same = before in (None, self.world.running.get(name))
                    assert same or self.forged > 1, "what a savepoint has stopped runs as what it was"

    def start(self, name: str) -> None:
        """Anybody starts it, by the one door."""
        with self.world.opened(name) as recovery, suppress(RecoveryError):
            recovery.application.start()

    def forge(self, name: str, role: Role, run: str, other: str) -> None:
        """One entry by somebody who may create objects, in one log."""
        offsets = {IN: self.world.committed[OLD]}
        log_in(self.world.directory, name).append(replace(entry(role), run=run, other=other, offsets=offsets))
        self.forged += 1

    def check(self, *, half_way: bool) -> None:
        """What holds after every step."""
        assert self.world.writers <= 1, f"two write the real output: {self.world.running}"
        if not self.forged and not half_way:
            was = self.by_logs()
            for run in self.runs:
                for role in Role:
                    for name, other in ((OLD, NEXT), (NEXT, OLD)):
                        added = replace(entry(role), run=run, other=other)
                        assert self.by_logs((name, added)) is was, f"{role} of {run} in the log of {name} changes what the clone is"


_FIRST = {CutoverStep.CUT_OVER: Role.RETIRED, CutoverStep.ROLL_BACK: Role.STANDBY}
CUT = savepoints.CutSummary(
    savepoint_id="",
    consistency=Consistency.EXACT,
    reasons=(),
    partitions=1,
    tail_records=0,
    held_seconds=0.0,
    attempts=1,
    draft=ArtifactRef.of("orders/draft.json", b""),
)


@pytest.mark.fault("F80")
@pytest.mark.fault("F81")
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_whatever_happens_one_writes_the_outputs_and_a_savepoint_starts_what_it_stopped(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    world = World(tmp_path_factory.mktemp("walk"))
    monkeypatch.setattr(ownership, "open_application", world.program)
    walk, half_way = Walk(world), False
    walk.start(OLD)
    for _ in range(data.draw(st.integers(2, 7))):
        step = data.draw(st.sampled_from(("switch", "switch", "upgrade", "saved", "saved", "start", "forge", "moved")))
        name = data.draw(st.sampled_from((OLD, NEXT)))
        match step:
            case "switch":
                way, killed = data.draw(st.sampled_from(CutoverStep)), data.draw(st.sampled_from((False, False, True)))
                walk.switch(way, killed=killed)
                half_way = killed
            case "upgrade":
                walk.failed_upgrade()
            case "start":
                walk.start(name)
            case "forge":
                forged(walk, data, name)
            case "moved":
                world.committed[name] += 1
            case _:
                held = data.draw(st.lists(st.sampled_from(("forge", "moved", "start")), max_size=2))
                others: dict[str, Callable[[], None]] = {
                    "forge": lambda: forged(walk, data, data.draw(st.sampled_from((OLD, NEXT)))),
                    "moved": lambda: world.committed.update({OLD: world.committed[OLD] + 1}),
                    "start": lambda: walk.start(data.draw(st.sampled_from((OLD, NEXT)))),
                }
                walk.saved(name, [others[one] for one in held])
        walk.check(half_way=half_way)


def forged(walk: Walk, data: st.DataObject, name: str) -> None:
    walk.forge(
        name, data.draw(st.sampled_from(Role)), data.draw(st.sampled_from(walk.runs)), data.draw(st.sampled_from((OLD, NEXT, "nobody")))
    )
