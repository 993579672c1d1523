"""Metrics are made of a report alone, and what is not known is not sent."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from streams_recovery.core import codec
from streams_recovery.core.checks.check import Severity
from streams_recovery.core.errors import Damaged, Forged
from streams_recovery.core.kafka_types import Consistency, Profile, TopicRole
from streams_recovery.core.repository.mirror import SecondPlace
from streams_recovery.core.repository.publication import Publication, SavepointFacts
from streams_recovery.core.repository.seal import MOST_FORGED, SEALED, ForgedRecord, forged_records
from streams_recovery.core.restore.estimate import Estimate
from streams_recovery.core.status.facts import finding
from streams_recovery.core.status.info import (
    GAUGES,
    ApplicationInfo,
    InfoSource,
    PresentFacts,
    gauges,
    info_lines,
    info_of_report,
    info_of_repository,
    metric,
    news_lines,
)
from streams_recovery.core.status.report import (
    ArchiveStatus,
    DiskStatus,
    FencedSite,
    Health,
    Objectives,
    Part,
    RunKind,
    RunSummary,
    SavepointSummary,
    SitesStatus,
    StandbySite,
    StatusFinding,
    StatusReport,
)
from streams_recovery.core.words import new_id
from tests.support.examples.observed import GIB, HISTORY, MINUTE, NOW, TOPICS, summary

HOUR = 3_600_000
EXACT = Publication(
    savepoint_id="20261121T000000Z-0000000000",
    application_id="shop",
    manifest="shop/savepoints/x/manifest.json.zst",
    bytes=1,
    sha256="0" * 64,
    captured_at=NOW - HOUR,
    consistency=Consistency.EXACT,
    profile=Profile.FULL,
    parent_id=None,
    replaces=None,
    run_id="run",
    requested_by="somebody",
    records=1_000,
    files=3,
    tables={},
    survives_cluster_loss=True,
    lost_with_cluster=(),
)
AHEAD = replace(EXACT, savepoint_id="20261121T003000Z-0000000001", captured_at=NOW - HOUR // 2, consistency=Consistency.AHEAD)
HOME = SitesStatus()
TORN = Damaged("torn", next_step="remove it")
PRESENT = PresentFacts(now=NOW, objective=None, loss=None, sealed=True, sites=HOME, archive=None)
ARCHIVE = ArchiveStatus(working=True, said_at=NOW - 5_000, safe_at=NOW - 9_000, waiting=12, files=7)


def of(*found: Publication, damaged: bool = False, objective: float | None = 7_200.0) -> ApplicationInfo:
    known: dict[str, Publication | Damaged] = {one.savepoint_id: one for one in found}
    return info_of_repository("shop", "shop", known | ({"torn": TORN} if damaged else {}), replace(PRESENT, objective=objective), forged={})


def report() -> StatusReport:
    summary = SavepointSummary(
        **codec.fields_of(SavepointFacts, replace(EXACT, survives_cluster_loss=False)),
        new_bytes=10,
        held_seconds=1.0,
        seconds=2.0,
        pinned=False,
        expires=False,
    )
    late = StatusFinding(kind="late", severity=Severity.WARNING, subject="", text="It is late.", remedies=(), runbook="", numbers={})
    fields = {
        "name": "shop",
        "application_id": "shop",
        "taken_at": NOW - 60_000,
        "monitored_at": NOW - 600_000,
        "health": Health.ATTENTION,
        "savepoint_way": "The application is paused for it",
        "parts": {"cluster": Part(looked_at=None, problem="no broker answers"), "repository": Part(looked_at=NOW, problem=None)},
        "objectives": Objectives(newest_age_seconds=1_800.0, recovery_seconds=None),
        "findings": (late,),
        "newest": summary,
        "newest_exact": summary,
        "savepoint_count": 12,
        "estimate": Estimate(seconds={"load": 61.0}, measured=0),
        "repository_bytes": 38_000_000_000,
        "forged_count": 0,
    }
    # Fields that the report gets besides have their neutral values.
    neutral = {name: fields.get(name, () if "tuple" in str(kind) else None) for name, kind in StatusReport.__annotations__.items()}
    return StatusReport(**(neutral | fields))


def test_a_first_look_tells_all_and_the_next_ones_what_has_changed() -> None:
    late, full = finding("late", Severity.WARNING, "it is late"), finding("disk-full", Severity.CRITICAL, "it is full", subject="broker 1")
    first = replace(EMPTY, health=Health.ATTENTION, findings=(late,))
    second = replace(EMPTY, health=Health.TROUBLE, findings=(late, full))
    assert list(news_lines(None, first)) == ["status: attention", "warning, late: it is late"]
    assert list(news_lines(first, first)) == []
    assert list(news_lines(first, second)) == ["status: trouble", "critical, disk-full:broker 1: it is full"]
    assert list(news_lines(second, first)) == ["status: attention", "over, disk-full:broker 1: it is full"]
    worse = replace(second, findings=(finding("late", Severity.CRITICAL, "it is later"), full))
    assert list(news_lines(second, worse)) == ["critical, late: it is later"], "also where the health is no other"


@pytest.mark.parametrize(
    ("found", "health", "met"),
    [
        (of(EXACT), Health.UNKNOWN, True),
        (of(EXACT, AHEAD), Health.UNKNOWN, True),
        (of(AHEAD), Health.TROUBLE, False),
        (of(replace(EXACT, profile=Profile.MINIMAL)), Health.UNKNOWN, True),
        (of(replace(EXACT, captured_at=NOW + HOUR)), Health.TROUBLE, False),
        (of(), Health.UNKNOWN, False),
        (of(EXACT, objective=600.0), Health.ATTENTION, False),
        (of(EXACT, damaged=True), Health.ATTENTION, True),
        (of(EXACT, objective=None), Health.UNKNOWN, None),
    ],
)
def test_without_a_monitor_the_savepoints_tell_the_health(found: ApplicationInfo, health: Health, met: bool | None) -> None:
    assert (found.health, found.objective_met, found.source) == (health, met, InfoSource.REPOSITORY)


def test_the_newest_exact_one_counts_for_the_objective() -> None:
    found = of(EXACT, AHEAD)
    assert (found.newest.savepoint_id, found.newest_exact.savepoint_id) == (AHEAD.savepoint_id, EXACT.savepoint_id)
    assert found.age_seconds == 3600.0


def test_a_report_is_judged_by_the_time_of_now() -> None:
    found = info_of_report(report(), replace(PRESENT, objective=1_800.0))
    assert (found.source, found.looked_at, found.health) == (InfoSource.MONITOR, NOW - 600_000, Health.ATTENTION)
    assert (found.age_seconds, found.objective_met) == (3600.0, False)
    assert found.problems == {"cluster": "no broker answers"}


def test_what_a_run_has_made_anew_is_not_said_to_be_seen_by_the_monitor() -> None:
    found = info_of_report(replace(report(), monitored_at=None, health=Health.UNKNOWN), replace(PRESENT, objective=7_200.0))
    assert (found.source, found.looked_at, found.objective_met) == (InfoSource.REPOSITORY, NOW - 60_000, True)
    text = "\n".join(info_lines(found, NOW))
    assert "status: not looked at yet" in text
    assert "streams_monitor has not looked yet" in text
    assert "a savepoint now: not looked at yet" in "\n".join(info_lines(replace(found, savepoint_way=None), NOW))


def test_every_fact_has_a_line() -> None:
    lines = list(info_lines(info_of_report(report(), replace(PRESENT, objective=1_800.0, sealed=False)), NOW))
    assert lines[0] == "application: shop (id shop)"
    text = "\n".join(lines)
    for fact in (
        "status: attention",
        "10 min ago, by the monitor",
        "savepoints: 12, 38.0 GB in the repository",
        "1 h ago, exact, full, 1,000 records in 3 files; survives the loss of the cluster: inputs and state: no",
        "objective: MISSED: the newest exact savepoint is 1 h old, and 30 min is the limit",
        "a restore takes about: 1 min 1 s",
        "a savepoint now: The application is paused for it",
        "seals: not sealed",
        "cluster was not looked at: no broker answers",
        "warning: late: It is late.",
    ):
        assert fact in text, text


def test_text_says_what_is_not_known() -> None:
    text = "\n".join(info_lines(of(damaged=True, objective=None), NOW))
    assert "streams_monitor has not looked yet" in text
    assert "newest: there is none" in text
    assert "objective: none" in text
    assert "damaged: torn" in text


MANIFEST, FORGED_ID = "shop/savepoints/20261121T020000Z-0000000007/manifest.json.zst", "20261121T020000Z-0000000007"
FORGERIES = {"shop/pins/000000000001.json": "it has no seal", MANIFEST: "it has no seal"}


@pytest.mark.parametrize("known", [EXACT, None], ids=["beside a good savepoint", "all there is"])
def test_a_forged_savepoint_is_named_by_its_key_and_is_none(known: Publication | None) -> None:
    found: dict[str, Publication | Damaged] = {} if known is None else {known.savepoint_id: known}
    found[FORGED_ID] = Forged("forged", next_step="remove it", key=MANIFEST, why="it has no seal")
    info = info_of_repository("shop", "shop", found, PRESENT, forged=FORGERIES)
    assert (info.savepoints, info.damaged) == (0 if known is None else 1, ())
    assert info.health is (Health.TROUBLE if known is None else Health.ATTENTION)
    text = "\n".join(info_lines(info, NOW))
    assert f"seals: {SEALED}" in text
    assert f"forged, not used: {MANIFEST}: it has no seal" in text
    assert "forged, not used: shop/pins/000000000001.json: it has no seal" in text


def test_the_status_says_which_records_are_forged_and_that_there_are_more() -> None:
    named = (ForgedRecord(key=MANIFEST, why="it has no seal"),)
    info = info_of_report(replace(report(), forged=named, forged_count=4), PRESENT)
    lines = [line.strip() for line in info_lines(info, NOW) if "forged" in line]
    assert lines == [f"forged, not used: {MANIFEST}: it has no seal", "forged, not used: 3 more: streams-recovery verify shop names them"]


def test_of_many_forged_records_the_savepoints_are_named_first() -> None:
    many = {f"shop/alerts/{number:012}.json": "it has no seal" for number in range(MOST_FORGED)}
    named = forged_records(many | FORGERIES | {MANIFEST.replace("T02", "T01"): "it has no seal"})
    assert len(named) == MOST_FORGED
    assert [one.key for one in named[:3]] == [MANIFEST, MANIFEST.replace("T02", "T01"), "shop/alerts/000000000000.json"]
    assert [one.savepoint_id for one in named[:3]] == [FORGED_ID, FORGED_ID.replace("T02", "T01"), None]


def test_it_says_where_the_application_belongs_and_what_is_wrong_with_its_other_sites() -> None:
    def told(sites: SitesStatus) -> list[str]:
        found = info_of_report(report(), replace(PRESENT, sites=sites))
        return [line.strip().removeprefix("site: ") for line in info_lines(found, NOW) if line.strip().startswith("site:")]

    fence = FencedSite(site="primary", since=NOW, run="r", running=(), problem=None)
    good = StandbySite(site="c", looked_at=NOW, lacks=(), warnings=("one broker",), problem=None)
    assert told(HOME) == []
    assert told(SitesStatus(belongs="dr")) == ["dr"]
    assert told(SitesStatus(belongs="dr", moving_to="dr", fences=(fence,))) == ["dr, a failover moves it to dr; primary is fenced"]
    lacking = replace(good, site="d", lacks=("orders is not there",))
    lost = replace(good, site="e", problem="no broker answers")
    assert told(SitesStatus(standbys=(good, lacking, lost))) == ["primary; d is not ready for a failover; e is not ready for a failover"]


def of_the_loss(archive: ArchiveStatus | None, loss: float | None = None, *, survives: bool = True) -> list[str]:
    present, exact = replace(PRESENT, archive=archive, loss=loss), replace(EXACT, survives_cluster_loss=survives)
    info = info_of_repository("shop", "shop", {exact.savepoint_id: exact}, present, forged={})
    return [line.strip() for line in info_lines(info, NOW) if line.strip().startswith(("recovery point:", "archive:"))]


def test_it_says_what_the_loss_of_the_cluster_would_cost_and_whether_that_was_promised() -> None:
    [point] = of_the_loss(None, 60.0)
    assert point.endswith("1 h ago: up to then input would be there if the cluster were lost now; MISSED, 1 min is the limit")
    point, archive = of_the_loss(ARCHIVE, 60.0)
    assert point.endswith("9 s ago: up to then input would be there if the cluster were lost now; met, 1 min is the limit")
    assert archive.startswith("archive: an archiver is at work, last heard of ")
    assert archive.endswith("5 s ago, 12 records waited then, 7 files")
    _, archive = of_the_loss(replace(ARCHIVE, state_at=NOW - 40_000))
    assert re.search("7 files; its newest exact cut of the state is of .* UTC, 40 s ago$", archive)
    _, archive = of_the_loss(replace(ARCHIVE, state_at=NOW - 40_000, looks=(NOW - 160_000, NOW - 100_000, NOW - 40_000)))
    assert re.search("40 s ago, and those of 3 moments since .* UTC, 2 min 40 s ago are kept$", archive), archive
    assert of_the_loss(ARCHIVE, survives=False)[0] == "recovery point: none: what the cluster has of the input would be lost with it"


def test_an_archive_that_cannot_be_used_or_does_not_go_on_is_said() -> None:
    assert of_the_loss(replace(ARCHIVE, problem="entry 7 is torn"))[1] == "archive: cannot be used: entry 7 is torn"
    _, archive = of_the_loss(replace(ARCHIVE, working=False, said_at=None, waiting=0, left=("orders-3 was added",), left_count=2))
    assert archive == "archive: NO ARCHIVER IS AT WORK, 7 files; 2 partitions do not go on: orders-3 was added"


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
    second_place=SecondPlace(place="s3://b", savepoints=3, alone=(new_id(NOW - HOUR, "one"),), entries=7, archived_at=NOW - 90_000),
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
    places = ("one_place_savepoints", "one_place_age_seconds", "second_place_archive_age_seconds")
    assert [found[name] for name in places] == [1, 3_600, 90]
    both = gauges(replace(FULL, second_place=SecondPlace(place="s3://b", savepoints=3, archived_at=NOW - 90_000)))
    assert [both.get(name) for name in places] == [0, 0, None], "all that is archived is there too"
    assert not {*places} & {*gauges(replace(FULL, second_place=SecondPlace(place="s3://b", problem="no answer")))}
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
