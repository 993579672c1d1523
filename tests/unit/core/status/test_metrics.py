"""Metrics are made of a report alone, and what is not known is not sent."""

from __future__ import annotations

from dataclasses import replace

from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.restore.estimate import Estimate
from streams_recovery.core.status.finding import Severity
from streams_recovery.core.status.metrics import GAUGES, gauges, metric
from streams_recovery.core.status.recovery_point import ArchiveStatus
from streams_recovery.core.status.report import DiskStatus, Health, Objectives, RunKind, RunSummary, StatusReport
from streams_recovery.core.status.rule import finding
from tests.support.examples.observed import GIB, HISTORY, MINUTE, NOW, TOPICS, summary

EMPTY = StatusReport(
    name="orders",
    application_id="orders",
    taken_at=NOW,
    health=Health.UNKNOWN,
    parts={},
    objectives=Objectives(newest_age_seconds=None, recovery_seconds=None),
    findings=(),
    advice=(),
    newest=None,
    newest_exact=None,
    savepoint_count=0,
    savepoints=(),
    estimate=None,
    repository_bytes=None,
    topics=(),
    runs=(),
    history=(),
    next_savepoint_at=None,
)
DRILL = RunSummary(
    kind=RunKind.DRILL,
    run="one",
    restore_id=None,
    savepoint_id=None,
    began_at=NOW,
    ended_at=NOW,
    succeeded=True,
    outcome="succeeded",
    rpo_seconds=600.0,
    rto_seconds=90.0,
)
FULL = replace(
    EMPTY,
    health=Health.TROUBLE,
    objectives=Objectives(newest_age_seconds=7200.0, recovery_seconds=1800.0, loss_seconds=60.0),
    findings=(finding("a", Severity.CRITICAL, "a"), finding("b", Severity.WARNING, "b"), finding("c", Severity.WARNING, "c")),
    newest=summary(),
    newest_exact=summary(),
    savepoint_count=3,
    estimate=Estimate(seconds={"load": 40.0, "start": 2.0}, measured=1),
    repository_bytes=10,
    topics=TOPICS,
    runs=(DRILL, replace(DRILL, run="two", succeeded=False, rpo_seconds=700.0, rto_seconds=None)),
    history=HISTORY,
    archive=ArchiveStatus(working=True, said_at=NOW, safe_at=NOW - 9_000, waiting=12, files=3),
    disks=(DiskStatus(name="a", total_bytes=100, free_bytes=50), DiskStatus(name="b", total_bytes=100, free_bytes=20)),
)


def test_what_is_not_known_is_not_sent() -> None:
    assert gauges(EMPTY) == {
        "exact_savepoint": 0,
        "survives_cluster_loss": 0,
        "savepoints": 0,
        "health": 3,
        "findings_critical": 0,
        "findings_warning": 0,
        "findings_info": 0,
        "look_due_at_seconds": EMPTY.taken_at / 1000 + 900,
    }


def test_all_gauges_have_their_values() -> None:
    found = gauges(FULL)
    assert set(found) == set(GAUGES)
    assert (found["loss_seconds"], found["archive_working"], found["archive_waiting_records"]) == (9, 1, 12)
    assert gauges(replace(FULL, archive=None))["loss_seconds"] == found["newest_age_seconds"], "without an archive the savepoint counts"
    assert found["newest_age_seconds"] == 20 * MINUTE / 1000
    assert (found["findings_critical"], found["findings_warning"], found["health"]) == (1, 2, 2)
    assert (found["changelog_bytes"], found["repartition_bytes"], found["lag"]) == (2 * GIB, 1000, 10)
    assert found["disk_free_share"] == 0.2
    assert (found["drill_rpo_seconds"], found["drill_rto_seconds"]) == (700, 90), "the newest that got so far"
    assert found["recovery_estimate_seconds"] == 42


def test_a_topic_whose_size_is_unknown_is_no_topic_of_no_bytes() -> None:
    unknown = tuple(replace(topic, disk_bytes=None) for topic in TOPICS)
    assert not {"changelog_bytes", "repartition_bytes"} & set(gauges(replace(FULL, topics=unknown)))
    assert TopicRole.CHANGELOG in {topic.role for topic in unknown}


def test_an_application_with_dots_stays_one_part_of_the_name() -> None:
    assert metric("lag", "orders.eu") == "streams_recovery.lag.orders__eu"
    assert metric("heartbeat") == "streams_recovery.heartbeat"


def test_a_look_says_until_when_the_next_one_is_due() -> None:
    assert gauges(replace(EMPTY, taken_at=NOW, fresh_seconds=900.0))["look_due_at_seconds"] == NOW / 1000 + 900
    assert gauges(replace(EMPTY, taken_at=NOW, fresh_seconds=None))["look_due_at_seconds"] == 0, "by hand only"
