"""A look without a cluster: what can be seen is seen, what cannot keeps its last values, and the whole never fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streams_recovery.core import codec
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.status.report import Health, Part, StatusReport, TopicStatus
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.groups import ConsumerGroups
from streams_recovery.operations import status
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.status import log as logs
from streams_recovery.operations.status.disks import disks_seen
from tests.support.examples.statuses import ADVICE
from tests.support.repository.golden import SECOND, SECOND_AT, OpenGolden, root

NOW = SECOND_AT + 600_000
HOUR = 3_600_000
TOPIC = TopicStatus(name="orders", role=TopicRole.INPUT, partitions=1, records=5, disk_bytes=100, lag=2)


@pytest.fixture
def seen(golden: OpenGolden) -> tuple[RecoveryContext, StatusReport]:
    opened = golden("good", now=NOW)
    # Nobody answers there: no need to wait for long.
    recovery = replace(opened, cluster=KafkaCluster(opened.connection, timeout=0.2), groups=ConsumerGroups(opened.connection, timeout=0.2))
    return recovery, status.observe(recovery, None)


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
    again = status.observe(recovery, earlier)
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
    assert status.observe(again, report).fresh_seconds == seconds


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
    again = status.observe(recovery, replace(report, **since))
    assert again.repository_bytes == (report.repository_bytes if measured is None else measured)


def test_a_repository_that_is_damaged_keeps_the_last_list(seen: tuple[RecoveryContext, StatusReport]) -> None:
    recovery, report = seen
    lock = root(recovery) / "locks"
    lock.mkdir(exist_ok=True)
    # A hole in the log of the lock: not one entry, the whole of it is unknown.
    for number in (1, 3):
        (lock / f"{number:012}.json").write_bytes(b"{}")
    again = status.observe(
        recovery,
        replace(report, taken_at=NOW - 1, history=(), parts=dict.fromkeys(report.parts, Part(looked_at=NOW - 3_600_000, problem=None))),
    )
    assert again.savepoints == report.savepoints
    assert again.parts["repository"].problem is not None
    assert ("not-seen", "repository") in [(one.kind, one.subject) for one in again.findings]


def test_reports_are_stored_and_only_the_newest_stay(seen: tuple[RecoveryContext, StatusReport]) -> None:
    recovery, report = seen
    assert status.newest(recovery.repository, recovery.layout) is None
    for number in range(logs.KEPT + 3):
        assert status.record(recovery, replace(report, taken_at=NOW + number), None)
    there = sorted((root(recovery) / "status").iterdir())
    assert len(there) == logs.KEPT
    newest = status.newest(recovery.repository, recovery.layout)
    assert newest is not None
    assert newest.taken_at == NOW + logs.KEPT + 2
    # One of another release, and one that somebody removed, hide nothing.
    there[-1].write_bytes(b"{}")
    there[0].unlink()
    (root(recovery) / "status" / there[-5].name).unlink()
    before = status.newest(recovery.repository, recovery.layout)
    assert before is not None
    assert before.taken_at == NOW + logs.KEPT + 1
    for _ in range(logs.KEPT):
        assert status.record(recovery, report, before)
    assert len(list((root(recovery) / "status").iterdir())) == logs.KEPT, "a hole goes with the entries around it"


def test_where_nothing_may_be_removed_an_entry_an_hour_has_to_do(
    seen: tuple[RecoveryContext, StatusReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    recovery, report = seen
    monkeypatch.setattr(logs, "KEPT", 10_000)
    monkeypatch.setattr(logs, "_MOST", 3)
    for _ in range(4):
        assert status.record(recovery, report, None)
    assert not status.record(recovery, replace(report, taken_at=NOW + 60_000), report)
    assert status.record(recovery, replace(report, taken_at=NOW + 3_600_000), report)


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
