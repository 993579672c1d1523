"""Each kind of finding is made by its cause, and by nothing else: an application in good order has none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streams_recovery.core.kafka_types import Consistency, GroupDescription, TopicRole
from streams_recovery.core.status.facts import (
    CheckState,
    DrillState,
    HoldState,
    InputState,
    InstanceFacts,
    LockState,
    PartName,
    QuarantineState,
    QuiesceState,
    RestoreState,
    SavepointRun,
    TransactionState,
)
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.report import DiskStatus, Health, Part, TopicStatus
from streams_recovery.core.status.rule import finding, health, judge
from streams_recovery.core.status.rules import RULES
from tests.support.examples.observed import CLUSTER, DAY, DISKS, GIB, HOUR, MINUTE, NOW, observed, point, summary

LIMITS = Limits(newest_age=7200.0, recovery_time=1800.0, late_after=7200.0, changelog_bytes=100 * GIB, lag_records=1000)
WITHOUT_OBJECTIVES = replace(LIMITS, newest_age=None, recovery_time=None)


def found(limits: Limits = LIMITS, earlier: tuple[StatusFinding, ...] = (), **changes: Any) -> list[StatusFinding]:
    return list(judge(RULES, observed(**changes), limits, earlier))


def kinds(limits: Limits = LIMITS, **changes: Any) -> list[str]:
    return sorted(one.kind for one in found(limits, **changes))


def growing(name: str, daily: float, until: int = 100 * GIB) -> dict[str, Any]:
    return {"history": tuple(point(NOW - hour * HOUR, **{name: round(until - daily * hour / 24)}) for hour in range(24, -1, -1))}


def emptying(daily: float) -> dict[str, Any]:
    free = 500 * GIB
    return {
        "history": tuple(point(NOW - hour * HOUR, free_bytes={"repository": round(free + daily * hour / 24)}) for hour in range(24, -1, -1))
    }


def topic(name: str, role: TopicRole, size: int) -> dict[str, Any]:
    added = TopicStatus(name=name, role=role, partitions=1, records=1, disk_bytes=size, lag=None)
    return {"cluster": {"topics": (*CLUSTER.topics, added)}, "disks": {"topic_bytes": DISKS.topic_bytes | {name: size}}}


def retention(**changes: Any) -> dict[str, Any]:
    base = InputState(topic="orders-in", retention_seconds=86_400.0, needed_since=NOW - HOUR, lost=0, unread=0)
    return {"cluster": {"inputs": (replace(base, **changes),)}}


def transaction(**changes: Any) -> dict[str, Any]:
    base = TransactionState(topic="orders-in", partition=3, start_offset=17, transactional_id="tx", age_seconds=60.0)
    return {"cluster": {"transactions": (replace(base, **changes),)}}


def restore(**changes: Any) -> dict[str, Any]:
    base = RestoreState(restore_id="r", began_at=NOW - HOUR, phase="loaded", running=False, destroyed=True)
    return {"repository": {"restores": (replace(base, **changes),)}}


def hold(**changes: Any) -> dict[str, Any]:
    base = HoldState(run="savepoint-1", of_restore=False, since=NOW - DAY, topics=("a", "b", "c", "d"))
    return {"repository": {"holds": (replace(base, **changes),)}}


def check(**changes: Any) -> dict[str, Any]:
    return {"repository": {"check": replace(CheckState(check_id="c", at=NOW - DAY, causes=()), **changes)}}


def drill(**changes: Any) -> dict[str, Any]:
    base = DrillState(run="d", began_at=NOW - DAY, succeeded=True, outcome="succeeded", rpo_seconds=60.0, rto_seconds=60.0)
    return {"repository": {"drill": replace(base, **changes)}}


def lock(**changes: Any) -> dict[str, Any]:
    return {"repository": {"lock": replace(LockState(owner="savepoint run", purpose="savepoint of orders", since=NOW - DAY), **changes)}}


def unseen(name: str, problem: str = "no broker answers") -> dict[str, Any]:
    parts = observed().parts | {name: Part(looked_at=NOW - HOUR, problem=problem)}
    return {name: None, "parts": parts}


def instances(*states: tuple[str, str | None]) -> dict[str, Any]:
    return {
        "application": tuple(
            InstanceFacts(name=str(number), state=state, streams_state=streams) for number, (state, streams) in enumerate(states)
        )
    }


EMPTY = GroupDescription(group_id="orders", kind="classic", state="Empty", members=())
QUARANTINE = QuarantineState(restore_id="r", savepoint_id="s", since=NOW - 2 * DAY, records=5, begun=False)
QUIESCED = QuiesceState(run="run 3", mode="stop", since=NOW - HOUR, instances=("one",))
FAILED_RUN = SavepointRun(run="run 3", began_at=NOW - 5 * MINUTE, over=True, savepoint_id=None)
OLD = summary(NOW - 3 * HOUR)

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
    "savepoints-unreadable": {"repository": {"damaged": ("20261121T010000Z-0000000002",)}},
    "restore-unfinished": restore(),
    "restore-over-deadline": restore(running=True, destroyed=False),
    "lock-held-long": lock(),
    "lock-unreadable": lock(since=NOW, unreadable="orders/locks/000000000007.json"),
    "quiesce-left": {"repository": {"quiesce": QUIESCED}},
    "guard-left": hold(),
    "restore-hold-left": hold(of_restore=True),
    "quarantine-left": {"repository": {"quarantines": (QUARANTINE,)}},
    "check-failed": check(causes=("missing-file",)),
    "check-overdue": check(at=NOW - 9 * DAY),
    "drill-failed": drill(succeeded=False, outcome="failed after loaded"),
    "drill-overdue": drill(began_at=NOW - 9 * DAY),
    "rpo-over-objective": drill(rpo_seconds=7201.0),
    "rto-over-objective": drill(rto_seconds=1801.0),
    "topic-missing": {"cluster": {"missing": ("orders-totals-changelog",)}},
    "input-expires": retention(needed_since=NOW - 20 * HOUR),
    "input-lost": retention(lost=5),
    "input-lost-unread": retention(unread=5),
    "transaction-hanging": transaction(transactional_id=None, age_seconds=None),
    "transaction-long": transaction(age_seconds=901.0),
    "lag-high": {"cluster": {"topics": (replace(CLUSTER.topics[0], lag=1001),)}},
    "lag-grows": {"history": tuple(point(NOW - minute * MINUTE, lag=round(200_000 * (60 - minute) / 60)) for minute in range(60, -1, -5))},
    "changelog-large": topic("orders-x-changelog", TopicRole.CHANGELOG, 101 * GIB),
    "repartition-large": topic("orders-x-repartition", TopicRole.REPARTITION, 11 * GIB),
    "changelogs-grow": growing("changelog_bytes", 60 * GIB),
    "disk-full-soon": emptying(300 * GIB),
    "disk-space-low": {"disks": {"disks": (DiskStatus(name="broker 1 /data", total_bytes=100 * GIB, free_bytes=9 * GIB),)}},
    "repository-grows": growing("repository_bytes", 60 * GIB),
    "group-empty": {"cluster": {"group": EMPTY}},
    "group-members-unknown": instances(("gone", None), ("gone", None)),
    "instance-in-error": instances(("running", "ERROR"), ("running", "RUNNING")),
    "instances-gone": instances(("gone", None), ("running", "RUNNING")),
}
# Made only where no objective is configured.
BY_SCHEDULE = {"savepoint-late": {"newest_exact": OLD}}

# What looks like a cause and is none.
SILENT: dict[str, tuple[Limits, dict[str, Any]]] = {
    "an edited savepoint is newest": (LIMITS, {"newest": summary(consistency=Consistency.EDITED)}),
    "a savepoint at its limit": (LIMITS, {"newest_exact": summary(NOW - 2 * HOUR)}),
    "a clock that is behind": (LIMITS, {"newest_exact": summary(NOW + HOUR)}),
    "no schedule and no objective": (Limits(), {"newest_exact": summary(NOW - 300 * DAY)}),
    "a savepoint under way": (LIMITS, {"repository": {"last_run": replace(FAILED_RUN, over=False)}}),
    "a restore that destroyed nothing": (LIMITS, restore(destroyed=False)),
    "a restore within its deadline": (LIMITS, restore(running=True, began_at=NOW - 20 * MINUTE)),
    "a lock held for a while": (LIMITS, lock(since=NOW - HOUR)),
    "held still by a run that works": (LIMITS, {"repository": {"quiesce": QUIESCED, "lock": LockState(owner="x", purpose="y", since=NOW)}}),
    "a young hold": (LIMITS, hold(since=NOW - HOUR)),
    "a hold of the run that works": (
        LIMITS,
        {"repository": hold()["repository"] | {"lock": LockState(owner="savepoint savepoint-1", purpose="y", since=NOW)}},
    ),
    "a young quarantine": (LIMITS, {"repository": {"quarantines": (replace(QUARANTINE, since=NOW - HOUR),)}}),
    "a check that may still come": (LIMITS, check(at=NOW - round(7.5 * DAY))),
    "no check yet, just installed": (LIMITS, {"repository": {"check": None}, "known_since": NOW - DAY}),
    "no drill, and none scheduled": (LIMITS, {"repository": {"drill": None}, "schedules": replace(observed().schedules, drills=None)}),
    "slow drills without objectives": (WITHOUT_OBJECTIVES, drill(rpo_seconds=9e5, rto_seconds=9e5)),
    "retention with time left": (LIMITS, retention(needed_since=NOW - 17 * HOUR)),
    "an input that keeps everything": (LIMITS, retention(retention_seconds=None, needed_since=0)),
    "no savepoint to compare with": (LIMITS, retention(needed_since=None)),
    "a short transaction": (LIMITS, transaction()),
    "lag that shrinks": (LIMITS, {"history": tuple(point(NOW - minute * MINUTE, lag=minute * 10_000) for minute in range(60, -1, -5))}),
    "lag that jumped a minute ago": (LIMITS, {"history": (point(NOW - MINUTE, lag=0), point(NOW - 1000, lag=0), point(NOW, lag=10**7))}),
    "changelogs that grow from little": (LIMITS, growing("changelog_bytes", GIB // 2, until=GIB // 2)),
    "changelogs that shrink": (LIMITS, growing("changelog_bytes", -60 * GIB)),
    "a disk that empties": (LIMITS, emptying(-300 * GIB)),
    "a disk that fills slowly": (LIMITS, emptying(100 * GIB)),
    "a disk measured for an hour only": (
        LIMITS,
        {
            "history": tuple(
                point(NOW - minute * MINUTE, free_bytes={"repository": 500 * GIB + minute * GIB}) for minute in range(60, -1, -5)
            )
        },
    ),
    "all down, and no members": (LIMITS, instances(("gone", None), ("gone", None)) | {"cluster": {"group": EMPTY}}),
    "an empty group while a run works": (LIMITS, {"cluster": {"group": EMPTY}} | lock(since=NOW)),
    "instances that are paused": (LIMITS, instances(("running", "PAUSED"), ("running", "PAUSED")) | {"cluster": {"group": EMPTY}}),
}


def test_an_application_in_good_order_has_no_finding() -> None:
    assert kinds() == []
    assert kinds(WITHOUT_OBJECTIVES) == []
    assert kinds(Limits()) == []


@pytest.mark.parametrize("kind", CAUSES)
def test_each_cause_is_found_and_nothing_else(kind: str) -> None:
    assert kinds(**CAUSES[kind]) == [kind]


@pytest.mark.parametrize("kind", BY_SCHEDULE)
def test_without_an_objective_the_schedule_counts(kind: str) -> None:
    assert kinds(WITHOUT_OBJECTIVES, **BY_SCHEDULE[kind]) == [kind]


@pytest.mark.parametrize("case", SILENT)
def test_what_is_no_cause_stays_silent(case: str) -> None:
    limits, changes = SILENT[case]
    assert kinds(limits, **changes) == []


def test_there_is_a_cause_for_each_kind_of_each_rule() -> None:
    assert sorted(kind for rule in RULES for kind in rule.kinds) == sorted({**CAUSES, **BY_SCHEDULE})


@pytest.mark.parametrize("kind", CAUSES)
def test_a_finding_has_its_page_and_says_whole_commands(kind: str) -> None:
    (one,) = found(replace(LIMITS, docs="https://docs.example.com/recovery/"), **CAUSES[kind])
    assert one.runbook == f"https://docs.example.com/recovery/alerts.md#{kind}"
    assert one.text
    assert all("<" not in remedy and "{" not in remedy for remedy in one.remedies)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.parts], ids=lambda rule: rule.kinds[0])
def test_while_a_part_is_not_seen_its_findings_stay(rule: Any) -> None:
    earlier = tuple(finding(kind, Severity.WARNING, "as it was") for kind in rule.kinds)
    for part in rule.parts:
        assert {one.kind for one in found(earlier=earlier, **unseen(part.value))} >= {*rule.kinds}
    assert not {one.kind for one in found(earlier=earlier)} & {*rule.kinds}


def test_without_a_repository_nobody_says_that_there_is_no_savepoint() -> None:
    assert kinds(newest=None, newest_exact=None, **unseen("repository")) == ["not-seen"]


def test_the_age_counts_on_while_the_repository_is_not_seen() -> None:
    assert kinds(newest_exact=OLD, **unseen("repository")) == ["not-seen", "savepoint-too-old"]


def test_the_first_savepoint_that_does_not_survive_is_no_broken_promise() -> None:
    (one,) = found(promised=False, newest_exact=summary(survives_cluster_loss=False))
    assert (one.kind, one.severity) == ("lost-with-cluster", Severity.INFO)


def test_the_worst_comes_first() -> None:
    both = found(**CAUSES["guard-left"] | CAUSES["input-lost"])
    assert [one.severity for one in both] == [Severity.CRITICAL, Severity.WARNING]


def test_the_command_that_aborts_a_transaction_is_complete() -> None:
    (one,) = found(**CAUSES["transaction-hanging"])
    assert one.remedies == ("kafka-transactions.sh --bootstrap-server kafka:9092 abort --topic orders-in --partition 3 --start-offset 17",)


def test_health_is_the_worst_finding_and_unknown_before_the_first_look() -> None:
    def one(severity: Severity) -> StatusFinding:
        return finding("x", severity, "x")

    assert health([], [NOW]) is Health.GOOD
    assert health([one(Severity.INFO)], [NOW]) is Health.GOOD
    assert health([one(Severity.WARNING)], [NOW, None]) is Health.ATTENTION
    assert health([one(Severity.WARNING), one(Severity.CRITICAL)], [NOW]) is Health.TROUBLE
    assert health([], [None, None]) is Health.UNKNOWN


def test_every_part_has_a_name_that_reports_use() -> None:
    assert {name.value for name in PartName} == set(observed().parts)
