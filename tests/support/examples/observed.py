"""An application in good order as the monitor sees it, to be changed in one place by a test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from streams_recovery.core.kafka_types import Consistency, GroupDescription, GroupMember, Profile, TopicRole
from streams_recovery.core.remedies.remedy import KafkaTools
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.repository.retention import Apply, DeletionOutlook
from streams_recovery.core.sandbox.drill import DrillEntry
from streams_recovery.core.status.facts import (
    CheckState,
    ClusterFacts,
    DiskFacts,
    InputState,
    InstanceFacts,
    ObservedApplication,
    RepositoryFacts,
    SavepointRun,
    Schedules,
)
from streams_recovery.core.status.report import DiskStatus, HistoryPoint, Part, SavepointSummary, SitesStatus, TopicStatus

NOW = 1_795_219_200_000
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
GIB = 1 << 30
MEMBER = GroupMember(member_id="m", client_id="orders-1", host="/10.0.0.7", group_instance_id=None)
GROUP = GroupDescription(group_id="orders", kind="classic", state="Stable", members=(MEMBER,))


def summary(at: int = NOW - 20 * MINUTE, **changes: Any) -> SavepointSummary:
    """A savepoint that is what it should be."""
    return replace(
        SavepointSummary(
            savepoint_id="20261121T010000Z-0000000002",
            application_id="orders",
            replaces=None,
            captured_at=at,
            consistency=Consistency.EXACT,
            profile=Profile.FULL,
            parent_id=None,
            records=1000,
            files=3,
            new_bytes=5000,
            held_seconds=0.4,
            seconds=30.0,
            requested_by="airflow",
            run_id="run 2",
            pinned=False,
            expires=False,
            survives_cluster_loss=True,
        ),
        **changes,
    )


DRILL = DrillEntry(
    run="drill 1",
    requested_by="airflow",
    began_at=NOW - 2 * DAY,
    restore_id="20261119T000000Z-0000000003",
    savepoint_id="20261119T000000Z-0000000001",
    plan_hash="d" * 64,
    captured_at=NOW - 2 * DAY - 10 * MINUTE,
    reached=Phase.CLOSED,
    rows=100,
    keys_compared=0,
    rpo_seconds=600.0,
    rto_seconds=120.0,
    succeeded=True,
    left=(),
)
REPOSITORY = RepositoryFacts(
    newest=summary(),
    newest_exact=summary(),
    damaged=(),
    lost_with_cluster=(),
    last_run=SavepointRun(run="run 2", began_at=NOW - 21 * MINUTE, over=True, savepoint_id="20261121T010000Z-0000000002"),
    lock=None,
    restores=(),
    check=CheckState(check_id="20261121T000000Z-0000000009", at=NOW - DAY, causes=(), savepoints=()),
    drill=DRILL,
    quarantines=(),
    holds=(),
    quiesce=None,
    deletion=DeletionOutlook(apply=Apply.AFTER_DAYS, scheduled=True, after_days=14, deletes_from=NOW - DAY, due=True),
    leaving={},
    ahead=(),
    ownership=None,
    sealed=True,
    forged=(),
    forged_count=0,
    archive=None,
    archive_news=False,
    second_place=None,
    encryption=None,
)
TOPICS = (
    TopicStatus(name="orders-in", role=TopicRole.INPUT, partitions=2, records=1000, disk_bytes=GIB, lag=10),
    TopicStatus(name="orders-totals-changelog", role=TopicRole.CHANGELOG, partitions=2, records=100, disk_bytes=2 * GIB, lag=None),
    TopicStatus(name="orders-by-key-repartition", role=TopicRole.REPARTITION, partitions=2, records=5, disk_bytes=1000, lag=None),
)
CLUSTER = ClusterFacts(
    tools=KafkaTools("kafka:9092", secured=False),
    group=GROUP,
    topics=TOPICS,
    missing=(),
    inputs=(
        InputState(topic="orders-in", retention_seconds=7 * 86_400.0, needed_since=NOW - 20 * MINUTE, lost=0, unread=0, since_savepoint=0),
    ),
    transactions=(),
    unattributed=(),
    refused=(),
    all_archived=False,
    committed=1_000,
)
DISKS = DiskFacts(
    disks=(DiskStatus(name="repository", total_bytes=1000 * GIB, free_bytes=500 * GIB),),
    topic_bytes={topic.name: topic.disk_bytes or 0 for topic in TOPICS},
    brokers_seen=True,
)
INSTANCES = (
    InstanceFacts(name="one", state="running", streams_state="RUNNING"),
    InstanceFacts(name="two", state="running", streams_state="RUNNING"),
)


def point(at: int, **changes: Any) -> HistoryPoint:
    """One point of a history in which nothing changes."""
    return replace(
        HistoryPoint(
            at=at,
            changelog_bytes=2 * GIB,
            state_bytes=GIB,
            repository_bytes=10 * GIB,
            lag=10,
            newest_age_seconds=1200.0,
            free_bytes={"repository": 500 * GIB},
            repartition_bytes=1000,
        ),
        **changes,
    )


HISTORY = tuple(point(NOW - hour * HOUR) for hour in range(24, -1, -1))


def observed(**changes: Any) -> ObservedApplication:
    """The application in good order, with these changes. ``repository``, ``cluster`` and ``disks`` may be mappings of changes to theirs."""
    healthy = ObservedApplication(
        name="orders",
        application_id="orders",
        now=NOW,
        promised=True,
        known_since=NOW - 30 * DAY,
        used_before=True,
        schedules=Schedules(savepoints=3600.0, checks=7 * 86_400.0, drills=7 * 86_400.0, runs=None),
        parts={name: Part(looked_at=NOW, problem=None) for name in ("repository", "cluster", "disks", "application")},
        newest=REPOSITORY.newest,
        newest_exact=REPOSITORY.newest_exact,
        repository=REPOSITORY,
        cluster=CLUSTER,
        disks=DISKS,
        application=INSTANCES,
        history=HISTORY,
        sites=SitesStatus(),
        archiving=False,
        archiving_state=False,
    )
    parts = {
        name: replace(getattr(healthy, name), **value) for name, value in changes.items() if isinstance(value, dict) and name != "parts"
    }
    return replace(healthy, **changes | parts)
