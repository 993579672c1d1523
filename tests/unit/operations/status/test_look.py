"""A look without a cluster: what can be seen is seen, what cannot keeps its last values, and the whole never fails."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from streams_recovery.core import codec
from streams_recovery.core.archive.log import ArchivedLog, ArchiveEntry, ArchiveEvent
from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.seal import Adoption, ForgedRecord, SealKeys
from streams_recovery.core.restore.estimate import STEPS
from streams_recovery.core.status.info import info_lines
from streams_recovery.core.status.report import Health, Part, StatusReport, TopicStatus
from streams_recovery.core.words import new_id
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups
from streams_recovery.operations.archive import archive_log
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.evidence import keep_evidence
from streams_recovery.operations.status import current as status_current
from streams_recovery.operations.status import log as logs
from streams_recovery.operations.status import log as status_log
from streams_recovery.operations.status import look as status_look
from streams_recovery.operations.status.cluster import disks_seen
from streams_recovery.operations.status.info import application_info
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from streams_recovery.storage.seals import new_private_key
from streams_recovery.ui.overview import headline
from tests.support.examples.restore_report import REPORT
from tests.support.examples.statuses import ADVICE
from tests.support.repository.golden import FIRST, SECOND, SECOND_AT, OpenGolden, root

NOW = SECOND_AT + 600_000
HOUR = 3_600_000
T = TypeVar("T")
TOPIC = TopicStatus(name="orders", role=TopicRole.INPUT, partitions=1, records=5, disk_bytes=100, lag=2)


@pytest.fixture
def seen(golden: OpenGolden) -> tuple[RecoveryContext, StatusReport]:
    opened = golden("good", now=NOW)
    # Nobody answers there: no need to wait for long.
    recovery = replace(opened, cluster=KafkaCluster(opened.connection, timeout=0.2), groups=ConsumerGroups(opened.connection, timeout=0.2))
    return recovery, status_look.observe(recovery, None)


def test_a_cluster_that_does_not_answer_takes_nothing_from_the_rest(seen: tuple[RecoveryContext, StatusReport]) -> None:
    recovery, report = seen
    assert (report.taken_at, report.savepoint_count, report.health) == (NOW, 2, Health.TROUBLE)
    assert report.newest_exact is not None
    assert report.newest_exact.savepoint_id == SECOND
    assert report.repository_bytes == sum(path.stat().st_size for path in root(recovery).rglob("*") if path.is_file())
    assert [disk.name for disk in report.disks] == ["repository"]
    assert {name: part.problem is None for name, part in report.parts.items()} == {
        "repository": True,
        "cluster": False,
        "disks": False,
        "application": False,
    }
    assert [(one.kind, one.subject) for one in report.findings if one.kind == "not-seen"] == [
        ("not-seen", "cluster"),
        ("not-seen", "application"),
        ("not-seen", "disks"),
    ]
    minute = int(str(recovery.config.backup.schedule).split()[0])
    assert report.next_savepoint_at is not None
    assert (report.next_savepoint_at % HOUR, NOW < report.next_savepoint_at <= NOW + HOUR) == (minute * 60_000, True)
    assert [point.at for point in report.history] == [NOW]
    assert codec.loads(StatusReport, codec.dumps(report), where="here") == report
    # Only reads.
    assert not list((root(recovery) / "status").glob("*"))


def test_while_nobody_has_seen_the_cluster_the_estimate_is_what_the_last_restore_or_drill_took(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    status_look.refresh(recovery)
    found = logs.newest(recovery.repository, recovery.layout)
    assert found is not None
    assert found.estimate is None, "nothing was measured"
    took = dict.fromkeys(STEPS, 6.0)
    restored = replace(REPORT, restore_id=new_id(NOW, "drill"), application_id=recovery.application_id, seconds=took)
    keep_evidence(recovery.repository, recovery.layout, restored)
    status_look.refresh(recovery)
    found = logs.newest(recovery.repository, recovery.layout)
    assert found is not None
    assert found.newest_exact is not None
    assert found.monitored_at is None
    assert found.estimate is not None
    assert found.estimate.measured == 1
    assert "would take about" in str(headline(found, NOW)[1])


def test_a_look_names_what_is_forged_and_counts_it_for_nothing(golden: OpenGolden, tmp_path: Path) -> None:
    """What the golden repository has is put in as it is, which is without a seal; one savepoint is adopted."""
    private, public = new_private_key()
    recovery = golden("good", now=NOW)
    sealed = Repository(recovery.repository.location, seal=SealKeys(public=(public,), private=private))
    key = recovery.layout.manifest(FIRST)
    records = {key: hashlib.sha256(sealed.unchecked(key).content).hexdigest()}
    AppendLog(sealed, recovery.layout.adopted, Adoption).append(Adoption(at=1, requested_by="me", reason="mine", records=records))
    recovery = replace(recovery, repository=sealed, savepoints=SavepointStore(sealed, recovery.layout, recovery.clock))
    status_look.refresh(recovery)
    report = status_log.newest(sealed, recovery.layout)
    assert report is not None
    assert [(one.savepoint_id, one.adopted) for one in report.savepoints] == [(FIRST, True)]
    assert report.savepoint_count == 1
    assert report.forged[0] == ForgedRecord(key=recovery.layout.manifest(SECOND), why="it has no seal")
    assert report.forged_count == len(report.forged)
    assert key not in {one.key for one in report.forged}
    (found,) = [one for one in report.findings if one.kind == "records-forged"]
    assert recovery.layout.manifest(SECOND) in found.text
    assert (report.health, found.remedies) == (
        Health.TROUBLE,
        ("streams-recovery verify golden", "streams-recovery seal golden --plan"),
    )
    assert not [one for one in report.findings if one.kind in ("savepoints-unreadable", "not-sealed")]


def test_what_was_known_stays_with_its_age(seen: tuple[RecoveryContext, StatusReport]) -> None:
    recovery, report = seen
    earlier = replace(
        report,
        taken_at=NOW - 300_000,
        topics=(TOPIC,),
        advice=(ADVICE,),
        parts=report.parts | {"cluster": Part(looked_at=NOW - 300_000, problem=None)},
        history=(replace(report.history[0], at=NOW - 300_000),),
    )
    again = status_look.observe(recovery, earlier)
    assert again.topics == (TOPIC,)
    assert again.advice == (ADVICE,)
    assert again.parts["cluster"].looked_at == NOW - 300_000
    assert "127.0.0.1:1" in str(again.parts["cluster"].problem)
    assert [point.at for point in again.history] == [NOW - 300_000, NOW]
    assert [(one.savepoint_id, one.held_seconds) for one in again.savepoints] == [
        (one.savepoint_id, one.held_seconds) for one in report.savepoints
    ]


@pytest.mark.parametrize(("schedule", "seconds"), [("*/5 * * * *", 900), ("0 * * * *", 7200), ("0 9 * * 1-5", 6 * 86_400), (None, None)])
def test_a_status_says_how_long_it_counts(seen: tuple[RecoveryContext, StatusReport], schedule: str | None, seconds: float | None) -> None:
    recovery, report = seen
    monitor = recovery.config.monitor.model_copy(update={"schedule": schedule})
    again = replace(recovery, config=recovery.config.model_copy(update={"monitor": monitor}))
    assert status_look.observe(again, report).fresh_seconds == seconds


@pytest.mark.parametrize(
    ("since", "measured"),
    [
        ({"repository_bytes": 5}, 5),
        ({"repository_bytes": 0}, 0),
        ({"repository_bytes": None}, None),
        ({"repository_bytes": 5, "taken_at": NOW - HOUR}, None),
        ({"repository_bytes": 5, "newest": None}, None),
    ],
    ids=["known", "nothing", "never measured", "an hour ago", "a new savepoint"],
)
def test_the_size_of_a_repository_is_measured_once_an_hour_and_behind_a_new_savepoint(
    seen: tuple[RecoveryContext, StatusReport], since: dict[str, Any], measured: int | None
) -> None:
    recovery, report = seen
    again = status_look.observe(recovery, replace(report, **since))
    assert again.repository_bytes == (report.repository_bytes if measured is None else measured)


def test_a_repository_that_is_damaged_keeps_the_last_list(seen: tuple[RecoveryContext, StatusReport]) -> None:
    recovery, report = seen
    lock = root(recovery) / "locks"
    lock.mkdir(exist_ok=True)
    # A hole in the log of the lock: not one entry, the whole of it is unknown.
    for number in (1, 3):
        (lock / f"{number:012}.json").write_bytes(b"{}")
    again = status_look.observe(
        recovery,
        replace(report, taken_at=NOW - 1, history=(), parts=dict.fromkeys(report.parts, Part(looked_at=NOW - 3_600_000, problem=None))),
    )
    assert again.savepoints == report.savepoints
    assert again.parts["repository"].problem is not None
    assert ("not-seen", "repository") in [(one.kind, one.subject) for one in again.findings]


def test_reports_are_stored_and_only_the_newest_stay(seen: tuple[RecoveryContext, StatusReport]) -> None:
    recovery, report = seen
    assert status_log.newest(recovery.repository, recovery.layout) is None
    for number in range(logs.KEPT + 3):
        assert status_log.record(recovery, replace(report, taken_at=NOW + number), None)
    there = sorted((root(recovery) / "status").iterdir())
    assert len(there) == logs.KEPT
    newest = status_log.newest(recovery.repository, recovery.layout)
    assert newest is not None
    assert newest.taken_at == NOW + logs.KEPT + 2
    # One of another release, and one that somebody removed, hide nothing.
    there[-1].write_bytes(b"{}")
    there[0].unlink()
    (root(recovery) / "status" / there[-5].name).unlink()
    before = status_log.newest(recovery.repository, recovery.layout)
    assert before is not None
    assert before.taken_at == NOW + logs.KEPT + 1
    for _ in range(logs.KEPT):
        assert status_log.record(recovery, report, before)
    assert len(list((root(recovery) / "status").iterdir())) == logs.KEPT, "a hole goes with the entries around it"


def test_where_nothing_may_be_removed_an_entry_an_hour_has_to_do(
    seen: tuple[RecoveryContext, StatusReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    recovery, report = seen
    monkeypatch.setattr(logs, "KEPT", 10_000)
    monkeypatch.setattr(logs, "_MOST", 3)
    for _ in range(4):
        assert status_log.record(recovery, report, None)
    assert not status_log.record(recovery, replace(report, taken_at=NOW + 60_000), report)
    assert status_log.record(recovery, replace(report, taken_at=NOW + 3_600_000), report)


# What the status tells of in the repository, and nothing is refreshed for: it changes all the time, or is measured by the monitor alone.
NOT_AT_ONCE = {"archive", "locks", "holds", "quiesce-records", "segments", "details", "work", ""}


class Noting(Repository):
    """Remembers what was read and listed of an application: the second name of each key."""

    asked: set[str]

    def _do(self, doing: str, key: str, call: Callable[[], T], **more: Any) -> T:
        self.__dict__.setdefault("asked", set()).add(key.split("/")[1])
        return super()._do(doing, key, call, **more)


def test_whatever_the_status_tells_of_is_made_anew_when_it_changes(seen: tuple[RecoveryContext, StatusReport]) -> None:
    recovery, _ = seen
    noting = Noting(recovery.repository.location)
    layout = recovery.layout
    status_look.observe(replace(recovery, repository=noting, savepoints=SavepointStore(noting, layout)), None)
    for name in sorted(noting.asked - NOT_AT_ONCE):
        before = len(list(recovery.repository.keys(layout.status)))
        with status_current.kept_current(recovery):
            recovery.repository.create(f"golden/{name}/000000000009.test", b"{}")
        assert len(list(recovery.repository.keys(layout.status))) == before + 1, name
        recovery.repository.delete([f"golden/{name}/000000000009.test"])
        recovery.repository.changed.clear()
    with status_current.kept_current(recovery):
        assert len(list(recovery.repository.keys(layout.status))) == before + 1, "who changes nothing writes nothing"


@pytest.mark.parametrize(
    ("state", "end", "expected"), [(True, 63, True), (True, 62, False), (False, 63, False)], ids=["news", "at rest", "not asked for"]
)
def test_old_state_is_found_by_the_configuration_and_what_the_archive_has(
    golden: OpenGolden, state: bool, end: int, expected: bool
) -> None:
    """The savepoint has read its input up to 62."""
    now = SECOND_AT + 20 * 60_000
    recovery = golden("good", now=now)
    section = recovery.config.archive.model_copy(update={"enabled": True, "state": state})
    recovery = replace(recovery, config=recovery.config.model_copy(update={"archive": section}))
    log = ArchivedLog(tp=TopicPartition("orders", 0), topic_id="orders-id", start=end, end=end, leader_epoch=None, ranges=())
    entry = ArchiveEntry(event=ArchiveEvent.BEGUN, run="r", at=now, cluster_id="golden-cluster", safe_at=now, logs=(log,))
    archive_log(recovery).append(entry)
    status_look.refresh(recovery)
    report = status_log.newest(recovery.repository, recovery.layout)
    assert report is not None
    assert ("archive-state-old" in {one.kind for one in report.findings}) is expected


def without_savepoints(recovery: RecoveryContext) -> dict[Path, Path]:
    """The same repository before the first savepoint. Returns where its parts went."""
    moved = {}
    for name in ("savepoints", "published"):
        if (root(recovery) / name).exists():
            moved[root(recovery) / name] = root(recovery).parent / f"{name}-later"
            (root(recovery) / name).rename(moved[root(recovery) / name])
    return moved


def published(recovery: RecoveryContext, moved: dict[Path, Path], *, fails: bool = False) -> None:
    """What a run does that publishes savepoints, and fails behind that perhaps."""
    with status_current.kept_current(recovery):
        for place, later in moved.items():
            later.rename(place)
        recovery.repository.create(f"{recovery.layout.savepoints}note", b"")
        (root(recovery) / "savepoints" / "note").unlink()
        if fails:
            raise Refused("the test", next_step="none")


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_that_publishes_says_so_at_once_and_leaves_the_rest_as_it_is_known(
    seen: tuple[RecoveryContext, StatusReport], fails: bool
) -> None:
    recovery, _ = seen
    moved = without_savepoints(recovery)
    looked = status_look.watch(recovery)
    assert (looked.newest_exact, looked.monitored_at, looked.health) == (None, NOW, Health.TROUBLE)
    assert "no-savepoint" in {one.kind for one in looked.findings}
    later = replace(recovery, clock=lambda: NOW + 60_000)
    with pytest.raises(Refused) if fails else nullcontext():
        published(later, moved, fails=fails)
    report = status_log.newest(recovery.repository, recovery.layout)
    assert report is not None
    assert (report.newest_exact and report.newest_exact.savepoint_id, report.savepoint_count) == (SECOND, 2)
    assert (report.taken_at, report.monitored_at, report.parts["repository"].looked_at) == (NOW + 60_000, NOW, NOW + 60_000)
    kept = {one.cause for one in looked.findings if one.kind == "not-seen"}
    assert {one.cause for one in report.findings} >= kept
    assert "no-savepoint" not in {one.kind for one in report.findings}
    assert report.parts | {"repository": looked.parts["repository"]} == looked.parts
    assert (report.history, report.disks, report.topics) == (looked.history, looked.disks, looked.topics)


def test_before_the_monitor_has_looked_nothing_is_said_of_the_rest(seen: tuple[RecoveryContext, StatusReport]) -> None:
    recovery, _ = seen
    published(recovery, without_savepoints(recovery))
    report = status_log.newest(recovery.repository, recovery.layout)
    assert report is not None
    assert (report.monitored_at, report.health, report.newest_exact is not None) == (None, Health.UNKNOWN, True)
    assert [name for name, part in report.parts.items() if part.looked_at is not None] == ["repository"]
    assert status_look.observe(recovery, report).monitored_at == NOW


def test_a_look_that_a_savepoint_overtakes_hides_it_not(seen: tuple[RecoveryContext, StatusReport]) -> None:
    recovery, _ = seen
    status_look.watch(recovery)
    moved = without_savepoints(recovery)

    def connect() -> KafkaConnection:
        """Asked for once the look is through with the repository."""
        if not (root(recovery) / "savepoints").exists():
            published(replace(recovery, clock=lambda: NOW + 1), moved)
        raise NotFound("no connection", next_step="none")

    status_look.watch(replace(recovery, cluster=KafkaCluster(connect, timeout=0.2), groups=ConsumerGroups(connect, timeout=0.2)))
    report = status_log.newest(recovery.repository, recovery.layout)
    assert report is not None
    assert report.savepoint_count == 2


class Overtaken(Repository):
    """Once, somebody else is faster with the next entry of the status."""

    faster: Callable[[], object] | None = None

    def create(self, key: str, data: bytes, *, previous: str | None = None) -> None:
        faster, self.faster = (self.faster, None) if "/status/" in key else (None, self.faster)
        if faster is not None:
            faster()
        super().create(key, data, previous=previous)


def test_a_refresh_that_a_look_overtakes_keeps_what_that_has_seen(seen: tuple[RecoveryContext, StatusReport]) -> None:
    recovery, first = seen
    status_log.record(recovery, first, None)
    slow = Overtaken(recovery.repository.location)
    slow.faster = lambda: status_log.record(recovery, replace(first, topics=(TOPIC,)), first)
    status_look.refresh(replace(recovery, repository=slow))
    report = status_log.newest(recovery.repository, recovery.layout)
    assert report is not None
    assert report.topics == (TOPIC,)


def test_a_status_that_cannot_be_written_fails_no_run(seen: tuple[RecoveryContext, StatusReport]) -> None:
    recovery, _ = seen
    (root(recovery) / "status").write_text("no directory")
    with status_current.kept_current(recovery):
        recovery.repository.create(f"{recovery.layout.savepoints}note", b"")


@pytest.mark.parametrize(
    ("schedule", "promised", "seconds"),
    [("0 * * * *", None, 7_200.0), ("0 * * * *", "PT90M", 5_400.0), (None, None, None), (None, "PT90M", 5_400.0)],
)
@pytest.mark.parametrize("looked", [True, False])
def test_info_says_the_limit_by_which_the_monitor_judges(
    seen: tuple[RecoveryContext, StatusReport], schedule: str | None, promised: str | None, seconds: float | None, looked: bool
) -> None:
    recovery, report = seen
    config = recovery.config
    objectives = config.monitor.objectives.model_copy(update={"newest_age": promised})
    monitor, backup = config.monitor.model_copy(update={"objectives": objectives}), config.backup.model_copy(update={"schedule": schedule})
    recovery = replace(recovery, config=config.model_copy(update={"monitor": monitor, "backup": backup}))
    if looked:
        status_log.record(recovery, report, None)
    found = application_info(recovery)
    assert (found.objective_seconds, found.objective_met) == (seconds, None if seconds is None else True)
    assert any("no savepoint is scheduled" in line for line in info_lines(found, NOW)) == (schedule is None and promised is None)


def test_local_state_is_measured_where_it_is_on_this_machine(golden: OpenGolden, tmp_path: Path) -> None:
    recovery = golden("good", now=NOW)
    state = tmp_path / "state" / "golden" / "0_0" / "rocksdb"
    state.mkdir(parents=True)
    (state / "000001.sst").write_bytes(b"x" * 1000)
    process = {"directory": str(tmp_path / "run"), "command": ["true"]}
    instance = {"name": "one", "url": "http://127.0.0.1:1", "state_directory": str(tmp_path / "state")}
    runs = type(recovery.config.runs).model_validate({"kind": "process", "process": {**process, "instances": [instance]}})
    found = disks_seen(replace(recovery, config=recovery.config.model_copy(update={"runs": runs})), None)
    assert found.state_bytes == 1000
    assert [disk.name for disk in found.facts.disks] == ["repository", "state one"]
