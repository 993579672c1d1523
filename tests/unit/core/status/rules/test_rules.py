"""Each kind of finding is made by its cause, and by nothing else: an application in good order has none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streams_recovery.core.checks.check import Severity
from streams_recovery.core.kafka_types import Consistency, TopicPartition
from streams_recovery.core.repository.encryption import EncryptionState
from streams_recovery.core.repository.mirror import SecondPlace
from streams_recovery.core.repository.ownership import Role
from streams_recovery.core.status.facts import LockState, PartName, finding, health, judge
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.report import Health, HistoryPoint, Part, SitesStatus, StatusFinding
from streams_recovery.core.status.rules import RULES
from tests.support.examples.observed import DAY, GIB, GROUP, HOUR, MINUTE, NOW, observed, point, summary
from tests.support.examples.status_causes import (
    BY_SCHEDULE,
    CAUSES,
    DEFAULTS,
    DOWN,
    EMPTY,
    FAILED_RUN,
    FENCE,
    LIMITS,
    LOSS_PROMISED,
    OF_LOSS,
    OLD,
    QUARANTINE,
    QUIESCED,
    STANDBY,
    WITHOUT_OBJECTIVES,
    archive,
    archived_state,
    check,
    deletion,
    drill,
    emptying,
    growing,
    hold,
    instances,
    lock,
    owned,
    restore,
    retention,
    transaction,
    uncommitted,
    unseen,
)


def found(limits: Limits = LIMITS, earlier: tuple[StatusFinding, ...] = (), **changes: Any) -> list[StatusFinding]:
    return list(judge(RULES, observed(**changes), limits, earlier))


def kinds(limits: Limits = LIMITS, **changes: Any) -> list[str]:
    return sorted(one.kind for one in found(limits, **changes))


def waiting(minutes: int) -> tuple[HistoryPoint, ...]:
    """A history of so long in which input comes and nobody reads it."""
    return tuple(point(NOW - ago * MINUTE, lag=10 + minutes - ago) for ago in range(minutes, -1, -1))


# A second place to which the archive is copied each five minutes, and was not for long.
EVERY_FIVE_MINUTES = replace(observed().schedules, mirror=300.0)
BEHIND = SecondPlace(place="s3://elsewhere", savepoints=3, entries=8, archived_at=NOW - 21 * MINUTE)
# What looks like a cause and is none.
SILENT: dict[str, tuple[Limits, dict[str, Any]]] = {
    "a part that did not answer once": (
        LIMITS,
        {"application": None, "parts": observed().parts | {"application": Part(looked_at=NOW - 5 * MINUTE, problem="busy")}},
    ),
    "an edited savepoint is newest": (LIMITS, {"newest": summary(consistency=Consistency.EDITED)}),
    "a savepoint at its limit": (LIMITS, {"newest_exact": summary(NOW - 2 * HOUR)}),
    "a clock that is behind": (LIMITS, {"newest_exact": summary(NOW + HOUR)}),
    "no schedule and no objective": (DEFAULTS, {"newest_exact": summary(NOW - 300 * DAY)}),
    "savepoints in two places": (LIMITS, {"repository": {"second_place": SecondPlace(place="s3://elsewhere", savepoints=3)}}),
    "a savepoint that is being copied to the second place": (
        LIMITS,
        {"repository": {"second_place": SecondPlace(place="s3://elsewhere", alone=("20261120T233000Z-0000000001",))}},
    ),
    "an archive that is being copied to the second place": (
        LIMITS,
        {"repository": {"second_place": replace(BEHIND, archived_at=NOW - 19 * MINUTE)}, "schedules": EVERY_FIVE_MINUTES},
    ),
    "an archive of which all is in the second place": (
        LIMITS,
        {"repository": {"second_place": replace(BEHIND, entries=0)}, "schedules": EVERY_FIVE_MINUTES},
    ),
    "a savepoint under way": (LIMITS, {"repository": {"last_run": replace(FAILED_RUN, over=False)}}),
    "a restore that destroyed nothing": (LIMITS, restore(destroyed=False)),
    "a restore within its deadline": (LIMITS, restore(running=True, began_at=NOW - 20 * MINUTE)),
    "a lock held for a while": (LIMITS, lock(since=NOW - HOUR)),
    "held still by a run that works": (
        LIMITS,
        {"repository": {"quiesce": QUIESCED, "lock": LockState(owner="x", purpose="y", since=NOW, unreadable="")}},
    ),
    "a young hold": (LIMITS, hold(since=NOW - HOUR)),
    "a hold of the run that works": (
        LIMITS,
        {"repository": hold()["repository"] | {"lock": LockState(owner="savepoint savepoint-1", purpose="y", since=NOW, unreadable="")}},
    ),
    "a young quarantine": (LIMITS, {"repository": {"quarantines": (replace(QUARANTINE, since=NOW - HOUR),)}}),
    "a deletion that has begun": (LIMITS, deletion(due=True)),
    "no deletion is announced": (LIMITS, deletion(deletes_from=None)),
    "a deletion that no schedule carries out": (LIMITS, deletion(scheduled=False)),
    "an announcement that cannot be read": (LIMITS, {"repository": {"deletion": None}}),
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
    "repartition topics that grow from little": (LIMITS, growing("repartition_bytes", GIB // 2, until=GIB // 2)),
    "repartition topics of which an older report says nothing": (
        LIMITS,
        {"history": tuple(replace(one, repartition_bytes=None) for one in observed().history)},
    ),
    "an archiver at work": (LOSS_PROMISED, archive()),
    "an archiver that said a minute ago that there was nothing to do, and no cluster that could tell": (
        LOSS_PROMISED,
        archive(said_at=NOW - 70_000, safe_at=NOW - 70_000) | {"cluster": None},
    ),
    "no archive, and none was asked for": (LIMITS, {"archiving": False}),
    "a cut of the last minute": (LIMITS, archived_state()),
    "a cut at its limit": (LIMITS, archived_state(state_at=NOW - 15 * MINUTE, safe_at=NOW)),
    "no cut yet, behind a young savepoint": (
        LIMITS,
        archived_state(state_at=None, safe_at=NOW) | {"newest_exact": summary(NOW - 15 * MINUTE)},
    ),
    "an old cut, and an archive that goes little further": (LIMITS, archived_state(state_at=NOW - 16 * MINUTE, safe_at=NOW - MINUTE)),
    "an old cut of an application at rest, all archived up to now": (
        LIMITS,
        archived_state(news=False, state_at=NOW - 19 * MINUTE, safe_at=NOW),
    ),
    "an old cut, and none is asked for any more": (LIMITS, archived_state(state_at=NOW - 19 * MINUTE) | {"archiving_state": False}),
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
    "replaced by its clone, and down": (LIMITS, DOWN | owned()),
    "a clone that was never cut over, and is down": (LIMITS, DOWN | owned(role=Role.STANDBY, clone=True, theirs=None)),
    "a cut-over under way": (LIMITS, DOWN | {"repository": owned(theirs=None)["repository"] | lock(since=NOW)["repository"]}),
    "live again behind its clone": (LIMITS, owned(role=Role.LIVE, theirs=Role.STANDBY)),
    "a live clone of one that is retired for it": (LIMITS, owned(role=Role.LIVE, clone=True, theirs=Role.RETIRED)),
    "down while a run works": (LIMITS, DOWN | lock(since=NOW)),
    "down between two runs": (LIMITS, DOWN | {"schedules": replace(observed().schedules, runs=3600.0), "history": waiting(60)}),
    "down between two runs, of which the last has processed something": (
        LIMITS,
        DOWN | {"schedules": replace(observed().schedules, runs=3600.0), "history": (*waiting(30 * 60)[:-20], *waiting(10))},
    ),
    "a standby with warnings only": (LIMITS, {"sites": SitesStatus(standbys=(STANDBY,))}),
    "another site that it belongs to": (LIMITS, {"sites": SitesStatus(belongs="dr", moving_to="dr")}),
    "an empty group while a run works": (LIMITS, {"cluster": {"group": EMPTY}} | lock(since=NOW)),
    "one instance of two is paused": (LIMITS, instances(("running", "PAUSED"), ("running", "RUNNING"))),
    "instances that are being started": (LIMITS, instances(("running", "CREATED"), ("running", None)) | {"cluster": {"group": EMPTY}}),
}


def test_an_application_in_good_order_has_no_finding() -> None:
    assert kinds() == []
    assert kinds(WITHOUT_OBJECTIVES) == []
    assert kinds(DEFAULTS) == []


@pytest.mark.parametrize("kind", CAUSES)
def test_each_cause_is_found_and_nothing_else(kind: str) -> None:
    assert kinds(**CAUSES[kind]) == [kind]


@pytest.mark.parametrize("kind", BY_SCHEDULE)
def test_without_an_objective_the_schedule_counts(kind: str) -> None:
    assert kinds(WITHOUT_OBJECTIVES, **BY_SCHEDULE[kind]) == [kind]


@pytest.mark.parametrize("kind", OF_LOSS)
def test_what_was_promised_of_the_loss_counts(kind: str) -> None:
    assert kinds(LOSS_PROMISED, **OF_LOSS[kind]) == [kind]


def test_with_an_archive_the_recovery_point_counts_and_a_minute_more_while_no_cluster_is_seen() -> None:
    kind = "loss-over-objective"
    assert kinds(LOSS_PROMISED, **archive(safe_at=NOW - 61_000)) == [kind]
    assert (
        kinds(LOSS_PROMISED, **archive(working=False, safe_at=NOW - 121_000) | {"cluster": None, "archiving": False})
        == [kind, "not-seen"][:1]
    )


def test_where_nothing_survives_the_loss_of_the_cluster_no_archive_helps() -> None:
    changes = archive() | {"newest_exact": summary(survives_cluster_loss=False)}
    assert kinds(LOSS_PROMISED, **changes) == ["loss-over-objective", "lost-with-cluster"]


def test_an_archive_that_was_asked_for_and_never_began_is_told() -> None:
    (one,) = found(archiving=True)
    assert (one.kind, one.remedies) == ("archive-stopped", ("streams-recovery archive orders",))


def test_a_drill_of_other_numbers_that_failed_is_told_as_one() -> None:
    (plain,), (numbers,) = (found(**drill(succeeded=False, reached=None, partitions=tried)) for tried in ("", "orders-in=24"))
    assert plain.text == "the last drill, d, failed before it began: a restore may fail in the same way"
    assert numbers.text == "the last drill, d, failed before it began with orders-in=24: a rescale, or a restore, may fail in the same way"


def test_an_archiver_at_the_site_that_was_left_is_no_archiver() -> None:
    (one,) = found(**archive(working=False, elsewhere="old-cluster"))
    assert one.kind == "archive-stopped"
    assert "5 s ago works on cluster old-cluster, and the newest exact savepoint is of another" in one.text


def test_old_state_is_told_by_its_cut_or_by_the_savepoint_without_one() -> None:
    again = "a restore would process the input since then again"
    (cut,), (none,) = found(**archived_state(state_at=NOW - 17 * MINUTE)), found(**archived_state(state_at=None))
    assert (cut.severity, cut.text) == (Severity.INFO, f"the newest exact cut of the state is 17 min old: {again}")
    assert none.text == f"there is no exact cut of the state behind the newest exact savepoint, which is 20 min old: {again}"
    assert cut.numbers == {"age_seconds": 1020.0, "limit_seconds": 900.0}


def test_of_old_state_nothing_is_told_where_the_archive_itself_is_the_trouble() -> None:
    old = NOW - 19 * MINUTE
    assert kinds(**archived_state(state_at=old, working=False)) == ["archive-stopped"]
    assert kinds(**archived_state(state_at=old, safe_at=None, left=("orders-in-3 was added",), left_count=1)) == ["archive-incomplete"]
    assert kinds(**archived_state(state_at=old) | {"newest_exact": None}) == ["no-savepoint"]


@pytest.mark.parametrize("case", SILENT)
def test_what_is_no_cause_stays_silent(case: str) -> None:
    limits, changes = SILENT[case]
    assert kinds(limits, **changes) == []


def test_there_is_a_cause_for_each_kind_of_each_rule() -> None:
    assert sorted(kind for rule in RULES for kind in rule.kinds) == sorted({**CAUSES, **BY_SCHEDULE, **OF_LOSS})


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


def test_a_key_of_the_second_place_that_cannot_be_used_is_a_warning() -> None:
    state = EncryptionState(keys=2, wrapped_by=("aws:arn",), problems=(), second="google:k", second_problem="it has not wrapped 1 of them")
    (one,) = found(repository={"encryption": state})
    assert (one.kind, one.severity, one.remedies) == ("keys-unavailable", Severity.WARNING, ("streams-recovery mirror orders",))
    assert "by google:k for the second place: it has not wrapped 1 of them" in one.text


def test_the_worst_comes_first() -> None:
    both = found(**CAUSES["guard-left"] | CAUSES["input-lost"])
    assert [one.severity for one in both] == [Severity.CRITICAL, Severity.WARNING]


def test_missing_topics_are_one_cause_however_many_there_are() -> None:
    names = tuple(f"orders-{number}-changelog" for number in range(17))
    several, (one,) = found(cluster={"missing": names}), found(cluster={"missing": names[:1]})
    assert [(each.cause, each.numbers) for each in several] == [("topic-missing", {"topics": 17})]
    assert (one.cause, one.numbers) == ("topic-missing", {"topics": 1})
    assert names[0] in one.text


def test_the_command_that_aborts_a_transaction_is_complete() -> None:
    (one,) = found(**CAUSES["transaction-hanging"])
    assert one.remedies == ("kafka-transactions.sh --bootstrap-server kafka:9092 abort --topic orders-in --partition 3 --start-offset 17",)


BROKERS_UNSEEN: dict[str, Any] = {
    "disks": {"disks": observed().disks.disks if observed().disks else (), "topic_bytes": {}, "brokers_seen": False}
}


@pytest.mark.parametrize("kind", ["changelog-large", "repartition-large", "disk-space-low"])
def test_what_is_known_of_the_brokers_disks_stays_while_they_cannot_be_seen(kind: str) -> None:
    earlier = tuple(found(**CAUSES[kind]))
    assert found(earlier=earlier, **BROKERS_UNSEEN) == list(earlier)
    assert found(earlier=earlier) == [], "it is over when they are seen again"


def test_a_finding_about_another_disk_does_not_stay_with_those_of_the_brokers() -> None:
    earlier = tuple(found(**emptying(300 * GIB)))
    assert [one.subject for one in earlier] == ["repository"]
    assert found(earlier=earlier, **BROKERS_UNSEEN) == []


def test_of_one_whose_id_is_not_seen_nothing_is_said() -> None:
    assert found(**transaction(transactional_id=None, state=None, age_seconds=None)) == []


def test_a_transaction_that_its_coordinator_knows_is_one_finding_and_is_aborted_on_no_single_partition() -> None:
    base = observed(**CAUSES["transaction-long"]).cluster
    assert base is not None
    parts = tuple(replace(base.transactions[0], tp=TopicPartition("orders-in", number), age_seconds=900.0 + number) for number in range(5))
    (one,) = found(cluster={"transactions": parts})
    assert (one.cause, one.numbers["partitions"], one.numbers["age_seconds"]) == ("transaction-long:tx", 5.0, 904.0)
    assert one.remedies == ("kafka-transactions.sh --bootstrap-server kafka:9092 describe --transactional-id tx",)


@pytest.mark.parametrize(
    ("changes", "severity"),
    [
        (DOWN, Severity.WARNING),
        (DOWN | {"history": waiting(10)}, Severity.CRITICAL),
        (DOWN | {"application": ()}, Severity.WARNING),
        (DOWN | instances(("unknown", None)), Severity.WARNING),
        (DOWN | instances(("running", "NOT_RUNNING")) | {"history": waiting(30)}, Severity.CRITICAL),
        (instances(("running", "PAUSED"), ("running", "PAUSED")), Severity.WARNING),
        (DOWN | {"schedules": replace(observed().schedules, runs=3600.0), "history": waiting(30 * 60)}, Severity.CRITICAL),
        (DOWN | owned(role=Role.LIVE, theirs=Role.STANDBY) | {"history": waiting(10)}, Severity.CRITICAL),
    ],
)
def test_an_application_that_processes_nothing_is_told_and_is_critical_where_input_waits(
    changes: dict[str, Any], severity: Severity
) -> None:
    (one,) = found(**changes)
    assert (one.kind, one.severity) == ("application-down", severity)
    assert (one.numbers["grown"] > 0) is (severity is Severity.CRITICAL)
    assert health([one], [NOW]) is not Health.GOOD


def test_a_hold_on_an_input_does_not_end_by_itself_and_is_a_warning_that_says_how_to_end_it() -> None:
    (internal,) = found(**hold(of_restore=True, topics=("orders-app-counts-changelog",)))
    (one,) = found(**hold(of_restore=True, topics=("orders-in", "orders-app-counts-changelog")))
    assert [found.severity for found in (internal, one)] == [Severity.INFO, Severity.WARNING]
    assert "orders-in grows until somebody sets retention.ms there by hand" in one.text


@pytest.mark.fault("F95")
@pytest.mark.parametrize(
    "changes",
    [
        instances(("running", None)) | {"cluster": {"group": EMPTY}},
        instances(("running", "CREATED"), ("running", None)) | {"cluster": {"group": EMPTY}},
        instances(("running", "REBALANCING")) | {"cluster": {"group": replace(GROUP, state="PreparingRebalance")}},
        instances(("running", "RUNNING")),
        {"application": None},
    ],
    ids=["in no known state", "created", "rebalancing for ever", "running", "not asked"],
)
def test_where_input_comes_and_nobody_commits_it_is_trouble_whatever_instances_say(changes: dict[str, Any]) -> None:
    (one,) = found(**changes | {"history": uncommitted(31)})
    assert (one.kind, one.severity, one.numbers) == (
        "application-stalled",
        Severity.CRITICAL,
        {"lag": 10.0, "grown": 31.0, "seconds": 1860.0},
    )
    assert health([one], [NOW]) is Health.TROUBLE
    assert kinds(**changes | {"history": uncommitted(29)}) == [], "a rebalance takes a while"


@pytest.mark.parametrize(
    "changes",
    [
        {"history": (*uncommitted(40)[:-1], point(NOW, lag=60, committed=1_001))},
        {"history": uncommitted(40, lag=10)},
        {"history": uncommitted(40, committed=None)},
        {"history": uncommitted(40), "used_before": False},
        {"history": uncommitted(40), "repository": {"lock": LockState(owner="x", purpose="y", since=NOW, unreadable="")}},
        {"history": (point(NOW - 40 * MINUTE, lag=99, committed=1_000), *uncommitted(10))},
        {"history": (*uncommitted(1_440, lag=0)[:-1], point(NOW, lag=3, committed=1_000))},
        {"history": (*uncommitted(1_440, lag=2)[:-20], *uncommitted(19))},
    ],
    ids=[
        *("a commit came", "no input came", "not known", "never used", "a run works on it", "the lag fell"),
        *("input after a quiet day came a second ago", "input after a quiet day came some minutes ago"),
    ],
)
def test_what_commits_or_need_not_is_not_stalled(changes: dict[str, Any]) -> None:
    assert "application-stalled" not in kinds(**changes)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        (owned(theirs=Role.STANDBY), "outputs-unowned"),
        (owned(theirs=Role.RETIRED), "outputs-unowned"),
        (owned(role=Role.STANDBY, clone=True, theirs=Role.RETIRED), "outputs-unowned"),
        (owned(role=Role.LIVE, problem="its bytes are not those of its seal"), "outputs-unowned"),
        (owned(role=Role.LIVE, clone=True, theirs=None), "outputs-owned-twice"),
    ],
)
def test_a_cut_over_that_was_not_finished_is_told_on_both_sides(changes: dict[str, Any], kind: str) -> None:
    (one,) = found(**changes)
    assert (one.kind, one.severity) == (kind, Severity.CRITICAL)


def test_the_clone_says_the_two_commands_that_end_it() -> None:
    (one,) = found(**owned(role=Role.STANDBY, clone=True, theirs=Role.RETIRED))
    assert one.remedies == (
        "streams-recovery cut-over orders --reason REASON",
        "streams-recovery roll-back orders --reason REASON",
    )


def test_what_is_told_of_other_sites_names_them_and_what_to_do() -> None:
    lacking = replace(STANDBY, lacks=("orders is not there", "a right is missing"))
    lost = replace(STANDBY, site="third", problem="no broker answers")
    fenced = replace(FENCE, site="b", problem=None)
    running = replace(FENCE, running=("one (pid 7)",), problem="the lock is held by x")
    told = found(sites=SitesStatus(belongs="home", fences=(fenced, running), standbys=(lacking, lost)))
    assert [(one.cause, one.severity) for one in told] == [
        ("runs-at-two-sites:primary", Severity.CRITICAL),
        ("site-fenced:b", Severity.WARNING),
        ("standby-not-ready:dr", Severity.WARNING),
        ("standby-not-ready:third", Severity.WARNING),
    ]
    assert told[0].text == (
        "orders belongs to the site home and runs at primary (one (pid 7)), so the same input may be processed twice; it is not stopped, "
        "because the lock is held by x"
    )
    assert told[1].text == f"the site b was left 1 day ago without a proof that nothing runs there, by {FENCE.run}"
    assert told[2].text.endswith("could not fail over to the site dr, which lacks 2: orders is not there; a right is missing")
    assert told[2].remedies == ("streams-recovery preflight orders --to dr",)
    assert told[3].text.endswith("the site third, which could not be looked at: no broker answers")


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


@pytest.mark.parametrize(
    ("seen", "schedule", "said"),
    [
        (BEHIND, 300.0, "the archive is 21 min behind in s3://elsewhere"),
        (replace(BEHIND, archived_at=NOW - 3 * HOUR), None, "the archive is 3 h behind in s3://elsewhere"),
        (replace(BEHIND, archived_at=None), 300.0, "the archive is not there in s3://elsewhere"),
    ],
)
def test_an_archive_that_is_in_one_place_for_too_long_is_told_of(seen: SecondPlace, schedule: float | None, said: str) -> None:
    schedules = replace(observed().schedules, mirror=schedule)
    (found,) = judge(RULES, observed(repository={"second_place": seen}, schedules=schedules), LIMITS)
    assert (found.cause, found.severity, found.numbers["entries"]) == ("one-place-only:archive", Severity.WARNING, 8)
    assert found.text.startswith(said)
    # Behind savepoints it has the time that these have.
    assert schedule is not None or not list(
        judge(RULES, observed(repository={"second_place": replace(seen, archived_at=NOW - HOUR)}), LIMITS)
    )
