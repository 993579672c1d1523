"""What causes each kind of finding of the monitor, for an application that is in good order else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from streams_recovery.config.monitor import Monitor
from streams_recovery.core.kafka_types import Consistency, GroupDescription, TopicPartition, TopicRole
from streams_recovery.core.remedies.transactions import OpenTransaction
from streams_recovery.core.repository.encryption import EncryptionState
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.repository.mirror import SecondPlace
from streams_recovery.core.repository.ownership import Role
from streams_recovery.core.repository.retention import Apply, DeletionOutlook
from streams_recovery.core.repository.seal import ForgedRecord
from streams_recovery.core.status.facts import (
    CheckState,
    HoldState,
    InputState,
    InstanceFacts,
    LockState,
    OwnershipState,
    QuarantineState,
    QuiesceState,
    RestoreState,
    SavepointRun,
)
from streams_recovery.core.status.report import (
    ArchiveStatus,
    DiskStatus,
    FencedSite,
    HistoryPoint,
    Part,
    SitesStatus,
    StandbySite,
    TopicStatus,
    unusable,
)
from tests.support.examples.observed import CLUSTER, DAY, DISKS, DRILL, GIB, HOUR, MINUTE, NOW, observed, point, summary

DEFAULTS = Monitor().limits_for(None)
LIMITS = replace(DEFAULTS, newest_age=7200.0, recovery_time=1800.0, late_after=7200.0, changelog_bytes=100 * GIB, lag_records=1000)
WITHOUT_OBJECTIVES = replace(LIMITS, newest_age=None, recovery_time=None)
LOSS_PROMISED = replace(LIMITS, loss=60.0)
ARCHIVE = ArchiveStatus(working=True, said_at=NOW - 5_000, safe_at=NOW - 9_000, waiting=12, files=7)


def growing(name: str, daily: float, until: int = 100 * GIB) -> dict[str, Any]:
    return {"history": tuple(point(NOW - hour * HOUR, **{name: round(until - daily * hour / 24)}) for hour in range(24, -1, -1))}


def uncommitted(minutes: int, **changes: Any) -> tuple[HistoryPoint, ...]:
    """A history of so long in which input comes and nobody commits."""
    return tuple(point(NOW - ago * MINUTE, **{"lag": 10 + minutes - ago, "committed": 1_000, **changes}) for ago in range(minutes, -1, -1))


def emptying(daily: float) -> dict[str, Any]:
    free = 500 * GIB
    return {
        "history": tuple(point(NOW - hour * HOUR, free_bytes={"repository": round(free + daily * hour / 24)}) for hour in range(24, -1, -1))
    }


def topic(name: str, role: TopicRole, size: int) -> dict[str, Any]:
    added = TopicStatus(name=name, role=role, partitions=1, records=1, disk_bytes=size, lag=None)
    return {"cluster": {"topics": (*CLUSTER.topics, added)}, "disks": {"topic_bytes": DISKS.topic_bytes | {name: size}}}


def retention(**changes: Any) -> dict[str, Any]:
    base = InputState(topic="orders-in", retention_seconds=86_400.0, needed_since=NOW - HOUR, lost=0, unread=0, since_savepoint=0)
    return {"cluster": {"inputs": (replace(base, **changes),)}}


def transaction(**changes: Any) -> dict[str, Any]:
    base = OpenTransaction(
        tp=TopicPartition("orders-in", 3),
        producer_id=1,
        producer_epoch=0,
        start_offset=17,
        transactional_id="tx",
        state="Ongoing",
        hanging=False,
        age_seconds=60.0,
    )
    return {"cluster": {"transactions": (replace(base, **changes),)}}


def restore(**changes: Any) -> dict[str, Any]:
    base = RestoreState(restore_id="r", began_at=NOW - HOUR, phase="loaded", running=False, destroyed=True, problem="")
    return {"repository": {"restores": (replace(base, **changes),)}}


def hold(**changes: Any) -> dict[str, Any]:
    base = HoldState(run="savepoint-1", of_restore=False, since=NOW - DAY, topics=("a", "b", "c", "d"))
    return {"repository": {"holds": (replace(base, **changes),)}}


def check(**changes: Any) -> dict[str, Any]:
    return {"repository": {"check": replace(CheckState(check_id="c", at=NOW - DAY, causes=(), savepoints=()), **changes)}}


def archive(**changes: Any) -> dict[str, Any]:
    """An archiver at work that is some seconds behind."""
    return {"archiving": True, "repository": {"archive": replace(ARCHIVE, **changes)}}


def archived_state(*, news: bool = True, **changes: Any) -> dict[str, Any]:
    """An archiver at work; there is ``news`` while it has input that the newest cut, some seconds old, has not read."""
    status = replace(ARCHIVE, **{"state_at": NOW - 40_000} | changes)
    return {"archiving": True, "archiving_state": True, "repository": {"archive": status, "archive_news": news}}


def deletion(**changes: Any) -> dict[str, Any]:
    base = DeletionOutlook(apply=Apply.AFTER_DAYS, scheduled=True, after_days=14, deletes_from=NOW + MINUTE, due=False)
    return {"repository": {"deletion": replace(base, **changes)}}


def drill(**changes: Any) -> dict[str, Any]:
    return {
        "repository": {"drill": replace(DRILL, **{"run": "d", "began_at": NOW - DAY, "rpo_seconds": 60.0, "rto_seconds": 60.0} | changes)}
    }


def lock(**changes: Any) -> dict[str, Any]:
    return {
        "repository": {
            "lock": replace(LockState(owner="savepoint run", purpose="savepoint of orders", since=NOW - DAY, unreadable=""), **changes)
        }
    }


def unseen(name: str, problem: str = "no broker answers") -> dict[str, Any]:
    parts = observed().parts | {name: Part(looked_at=NOW - HOUR, problem=problem)}
    return {name: None, "parts": parts}


def instances(*states: tuple[str, str | None]) -> dict[str, Any]:
    return {
        "application": tuple(
            InstanceFacts(name=str(number), state=state, streams_state=streams) for number, (state, streams) in enumerate(states)
        )
    }


def owned(**changes: Any) -> dict[str, Any]:
    """Retired for a clone, as it is in good order."""
    base = OwnershipState(
        role=Role.RETIRED,
        clone=False,
        other="orders-v2",
        theirs=Role.LIVE,
        theirs_towards="orders",
        run="cut-over 1",
        since=NOW - HOUR,
        problem="",
    )
    return {"repository": {"ownership": replace(base, **changes)}}


DOWN: dict[str, Any] = instances(("gone", None), ("gone", None)) | {
    "cluster": {"group": GroupDescription(group_id="orders", kind="classic", state="Empty", members=())}
}
EMPTY = GroupDescription(group_id="orders", kind="classic", state="Empty", members=())
QUARANTINE = QuarantineState(restore_id="r", savepoint_id="s", since=NOW - 2 * DAY, records=5, begun=False)
QUIESCED = QuiesceState(run="run 3", mode="stop", since=NOW - HOUR, instances=("one",))
FAILED_RUN = SavepointRun(run="run 3", began_at=NOW - 5 * MINUTE, over=True, savepoint_id=None)
OLD = summary(NOW - 3 * HOUR)
STANDBY = StandbySite(site="dr", looked_at=NOW - HOUR, lacks=(), warnings=("one broker is up",), problem=None)
FENCE = FencedSite(site="primary", since=NOW - DAY, run="20261121T100000Z-aaaaaaaaaa", running=(), problem="no broker answers")

# What causes each kind of finding, and nothing else.
CAUSES: dict[str, dict[str, Any]] = {
    "not-seen": unseen("application", "the program does not answer"),
    "no-savepoint": {"newest_exact": None},
    "savepoint-too-old": {"newest_exact": OLD},
    "newest-not-exact": {"newest": summary(consistency=Consistency.AHEAD)},
    "savepoint-failed": {"repository": {"last_run": FAILED_RUN}},
    "lost-with-cluster": {
        "newest_exact": summary(survives_cluster_loss=False),
        "repository": {"lost_with_cluster": ("the records of orders-in are not archived",)},
    },
    "archive-stopped": archive(working=False, said_at=NOW - HOUR),
    "archive-behind": archive(safe_at=NOW - 11 * MINUTE),
    "archive-incomplete": archive(safe_at=None, left=("orders-in-3 was added since the savepoint",), left_count=1),
    "archive-lost-input": archive(lost=5),
    "archive-unreadable": {"archiving": True, "repository": {"archive": unusable("entry 7 is torn")}},
    "archive-state-old": archived_state(state_at=NOW - 16 * MINUTE),
    "savepoints-unreadable": {"repository": {"damaged": ("20261121T010000Z-0000000002",)}},
    "ids-ahead": {"repository": {"ahead": ("99991231T235959Z-0123456789",)}},
    "restore-unfinished": restore(),
    "restore-over-deadline": restore(running=True, destroyed=False),
    "lock-held-long": lock(),
    "lock-unreadable": lock(since=NOW, unreadable="orders/locks/000000000007.json"),
    "quiesce-left": {"repository": {"quiesce": QUIESCED}},
    "guard-left": hold(),
    "restore-hold-left": hold(of_restore=True),
    "quarantine-left": {"repository": {"quarantines": (QUARANTINE,)}},
    "deletion-announced": deletion(),
    "pin-released": {"repository": {"leaving": {"20261121T010000Z-0000000002": NOW + DAY}}},
    "keys-unavailable": {"repository": {"encryption": EncryptionState(keys=1, wrapped_by=("aws:arn",), problems=("it is disabled",))}},
    "one-place-only": {"repository": {"second_place": SecondPlace(place="s3://elsewhere", alone=("20261101T000000Z-0000000001",))}},
    "check-failed": check(causes=("missing-file",)),
    "check-overdue": check(at=NOW - 9 * DAY),
    "drill-failed": drill(succeeded=False, reached=Phase.LOADED),
    "drill-overdue": drill(began_at=NOW - 9 * DAY),
    "rpo-over-objective": drill(rpo_seconds=7201.0),
    "rto-over-objective": drill(rto_seconds=1801.0),
    "restore-refused": {"cluster": {"refused": ("input orders-in has 5 partitions, 4 at the savepoint",)}},
    "topics-unattributed": {"cluster": {"unattributed": ("orders-v1-totals-changelog",)}},
    "topic-missing": {"cluster": {"missing": ("orders-totals-changelog",)}},
    "not-sealed": {"repository": {"sealed": False}},
    "records-forged": {
        "repository": {"forged": (ForgedRecord(key="orders/pins/000000000001.json", why="it has no seal"),), "forged_count": 1}
    },
    "input-expires": retention(needed_since=NOW - 20 * HOUR),
    "input-lost": retention(lost=5),
    "input-lost-unread": retention(unread=5),
    "transaction-hanging": transaction(state="CompleteAbort", hanging=True, age_seconds=None),
    "transaction-long": transaction(age_seconds=901.0),
    "lag-high": {"cluster": {"topics": (replace(CLUSTER.topics[0], lag=1001),)}},
    "lag-grows": {"history": tuple(point(NOW - minute * MINUTE, lag=round(200_000 * (60 - minute) / 60)) for minute in range(60, -1, -5))},
    "changelog-large": topic("orders-x-changelog", TopicRole.CHANGELOG, 101 * GIB),
    "repartition-large": topic("orders-x-repartition", TopicRole.REPARTITION, 11 * GIB),
    "changelogs-grow": growing("changelog_bytes", 60 * GIB),
    "repartition-grows": growing("repartition_bytes", 60 * GIB),
    "disk-full-soon": emptying(300 * GIB),
    "disk-space-low": {"disks": {"disks": (DiskStatus(name="broker 1 /data", total_bytes=100 * GIB, free_bytes=9 * GIB),)}},
    "repository-grows": growing("repository_bytes", 60 * GIB),
    "group-empty": {"cluster": {"group": EMPTY}},
    "group-members-unknown": instances(("gone", None), ("gone", None)),
    "instance-in-error": instances(("running", "ERROR"), ("running", "RUNNING")),
    "outputs-unowned": DOWN | owned(theirs=None),
    "outputs-owned-twice": owned(role=Role.LIVE),
    "retired-runs": owned(),
    "application-down": DOWN,
    "application-stalled": instances(("running", "CREATED"), ("running", None)) | {"cluster": {"group": EMPTY}, "history": uncommitted(40)},
    "standby-not-ready": {"sites": SitesStatus(standbys=(replace(STANDBY, lacks=("orders is not there",)),))},
    "site-fenced": {"sites": SitesStatus(belongs="dr", fences=(FENCE,))},
    "runs-at-two-sites": {
        "sites": SitesStatus(belongs="dr", fences=(replace(FENCE, running=("one (pid 7)",), problem="the lock is held"),))
    },
    "instances-gone": instances(("gone", None), ("running", "RUNNING")),
}
# Made only where it was promised how much input a lost cluster may cost.
OF_LOSS: dict[str, dict[str, Any]] = {
    "loss-over-objective": {},
    "drill-loss-over-objective": archive() | {"repository": archive()["repository"] | drill(loss_seconds=61.0)["repository"]},
}
# Made only where no objective is configured.
BY_SCHEDULE = {"savepoint-late": {"newest_exact": OLD}}
