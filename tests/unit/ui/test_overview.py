"""One application in a few lines, in each state it can be in.

Numbers, lengths of time and moments as the page says them.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.repository.seal import NOT_SEALED, SEALED, ForgedRecord
from streams_recovery.core.repository.sites import PRIMARY, Fence, SiteEntry
from streams_recovery.core.status.report import ArchiveStatus, Health, Part, RunKind
from streams_recovery.operations.status.read import StoredStatus
from streams_recovery.ui.overview import (
    TITLES,
    Overview,
    ShownState,
    age,
    broken,
    growth,
    iso,
    moment,
    number,
    overview,
    runbook,
    seconds,
    sites,
    size,
)
from streams_recovery.ui.statuses import KnownStatus, without_paths
from tests.support.examples.statuses import HOUR, NOW, OLD, report
from tests.support.project import PROJECT

SOON = NOW + 60_000


def shown(known: KnownStatus, now: int = SOON) -> Overview:
    return overview("orders", known, now)


def stored(**changed: object) -> KnownStatus:
    return KnownStatus(StoredStatus("key", replace(report(), **changed)), asked=True)  # type: ignore[arg-type]


def text(row: Overview) -> str:
    return " · ".join(map(str, (*row.headline, *row.facts)))


def test_a_healthy_application_says_to_when_how_long_and_what_it_survives() -> None:
    row = shown(stored())
    assert (row.state, row.old, row.problem) == (ShownState.GOOD, False, None)
    assert "can be brought back to <time" in text(row)
    assert "(1 min ago) · would take about 3 min 12 s · survives cluster loss" in text(row)
    assert "48 savepoints since" in text(row)
    assert "38.2 GB (+1.2 GB/day)" in text(row)
    assert "last drill 6 h 1 min ago, state equal (RPO 30 min, RTO 4 min 22 s)" in text(row)
    assert "no check yet" in text(row)
    assert ">not sealed</span>" in text(row)


def test_what_the_loss_of_the_cluster_would_cost_is_said_as_it_was_at_the_look() -> None:
    taken = report().taken_at
    archive = ArchiveStatus(working=True, said_at=taken, safe_at=taken - 9_000, waiting=0, files=3)
    row = stored(archive=archive)
    assert re.search("survives cluster loss with input up to <time .*</time> \\(9 s before the look\\)", text(shown(row, SOON)))
    with_state = replace(archive, state_at=taken - 40_000)
    assert re.search("before the look\\) and state of <time ", text(shown(stored(archive=with_state), SOON)))
    assert "before the look), objective 5 s" in text(
        shown(stored(archive=archive, objectives=replace(report().objectives, loss_seconds=5.0)))
    )


def test_whether_it_is_sealed_is_said_by_who_reads_and_not_by_what_is_stored() -> None:
    assert f'<span title="{SEALED}">sealed</span>' in text(shown(replace(stored(), sealed=True)))
    assert f'<span title="{NOT_SEALED}">not sealed</span>' in text(shown(stored()))


def test_where_all_exact_savepoints_are_forged_that_is_said() -> None:
    forged = (ForgedRecord(key=f"orders-app/savepoints/{report().savepoints[0].savepoint_id}/manifest.json.zst", why="it has no seal"),)
    row = shown(replace(stored(newest_exact=None, health=Health.TROUBLE, forged=forged, forged_count=1), sealed=True))
    assert "no exact savepoint, and 1 savepoint is forged" in text(row)


def test_the_last_check_is_said_with_its_result() -> None:
    drill = report().runs[-1]
    good = replace(drill, kind=RunKind.CHECK, began_at=NOW, outcome="structure: 4 files")
    assert "last check 1 min ago, good" in text(shown(stored(runs=(good,))))
    bad = replace(good, succeeded=False, outcome="missing-file")
    assert "last check 1 min ago, not good: missing-file" in text(shown(stored(runs=(drill, bad))))


def test_an_objective_that_is_missed_is_said() -> None:
    assert "(2 h ago), objective 1 h" in text(shown(stored(taken_at=NOW + 2 * HOUR), NOW + 2 * HOUR))


def test_without_an_exact_savepoint_nothing_can_be_brought_back() -> None:
    row = shown(stored(newest_exact=None, health=Health.TROUBLE, findings=(OLD,)))
    assert "<strong>cannot be brought back</strong>" in text(row)
    assert row.state is ShownState.TROUBLE
    assert row.findings == (OLD,)


def test_what_nobody_has_looked_at_is_claimed_of_nobody() -> None:
    unseen = dict.fromkeys(report().parts, Part(looked_at=None, problem=None))
    row = shown(stored(monitored_at=None, newest_exact=None, newest=None, health=Health.UNKNOWN, parts=unseen))
    assert (row.state, [str(one) for one in row.headline]) == (ShownState.UNKNOWN, ["not looked at yet"])
    assert [str(one) for one in shown(KnownStatus(asked=True)).headline] == ["not looked at yet"]


def test_before_the_monitor_has_looked_the_page_says_what_the_repository_says() -> None:
    row = shown(stored(monitored_at=None, health=Health.UNKNOWN), NOW + 48 * HOUR)
    assert (row.state, row.old, row.problem) == (ShownState.UNKNOWN, False, None)
    assert "can be brought back to <time" in text(row)
    assert "not looked at yet" in str(row.next_step)


def test_a_run_makes_no_old_look_new() -> None:
    row = shown(stored(taken_at=NOW + 60 * 60_000), NOW + 61 * 60_000)
    assert (row.state, row.old) == (ShownState.ATTENTION, True)
    assert "streams_monitor does not run" in str(row.problem)


def test_a_target_that_does_not_exist_yet_is_no_trouble() -> None:
    row = shown(stored(newest_exact=None, newest=None, savepoints=(), savepoint_count=0, health=Health.UNUSED))
    assert (row.state, row.word, row.state.calm, row.facts) == (ShownState.UNUSED, "not in use", True, ())
    assert "can begin" in text(row)
    assert "cannot be brought back" not in text(row)


def test_an_old_status_is_greyed_and_says_what_to_do() -> None:
    row = shown(stored(), NOW + 17 * 60_000)
    assert (row.state, row.old) == (ShownState.ATTENTION, True)
    assert row.problem == "The status is 16 min old: streams_monitor does not run."
    assert row.next_step is not None


def test_how_old_a_status_may_be_follows_its_schedule() -> None:
    hourly, by_hand = stored(fresh_seconds=7_200.0), stored(fresh_seconds=None)
    assert [shown(hourly, NOW + minutes * 60_000).state for minutes in (120, 122)] == [ShownState.GOOD, ShownState.ATTENTION]
    assert shown(by_hand, NOW + 300 * HOUR).problem is None


def test_a_repository_that_does_not_answer_leaves_the_last_known_facts() -> None:
    row = shown(replace(stored(), problem="The repository does not answer."))
    assert (row.state, row.old, row.problem) == (ShownState.UNREADABLE, True, "The repository does not answer.")
    assert "can be brought back to" in text(row)


def test_nothing_read_nothing_stored_and_nothing_readable_are_three_things() -> None:
    states = [shown(known).state for known in (KnownStatus(), KnownStatus(asked=True), KnownStatus(problem="No.", asked=True))]
    assert states == [ShownState.LOADING, ShownState.UNKNOWN, ShownState.UNREADABLE]


def test_a_broken_configuration_has_the_lines_of_the_loader_without_the_directory() -> None:
    error = ConfigInvalid("/srv/airflow/include/configs/clicks.yaml:4: unknown key consistancy", next_step="correct /srv/airflow/x.yaml")
    row = broken("clicks", error)
    assert (row.problem, row.next_step) == ("…/clicks.yaml:4: unknown key consistancy", "correct …/x.yaml")


def test_trouble_comes_first() -> None:
    rows = [
        shown(stored()),
        shown(KnownStatus(asked=True)),
        shown(stored(health=Health.TROUBLE)),
        shown(stored(health=Health.UNUSED)),
        broken("clicks", ConfigInvalid("a", next_step="b")),
    ]
    states = [row.state for row in sorted(rows, key=lambda row: row.order)]
    assert states == [ShownState.BROKEN, ShownState.TROUBLE, ShownState.UNKNOWN, ShownState.GOOD, ShownState.UNUSED]


def test_growth_needs_a_day_of_measurements() -> None:
    assert growth(report()) == 1_200_000_000
    assert growth(replace(report(), history=report().history[-10:])) is None


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            "open /srv/airflow/a.yaml: 's3://bucket/key/x' and orders/status/1.json",
            "open …/a.yaml: 's3://bucket/key/x' and orders/status/1.json",
        ),
        ("('/opt/configs/orders.yaml')", "('…/orders.yaml')"),
        ("in file:///opt/state/orders, which", "in …/orders, which"),
        ("in file:/opt/state/orders, which", "in …/orders, which"),
        ("in file://broker-1/opt/state/orders, which", "in …/orders, which"),
        ("kafka-1:/srv/kafka/logs and state:/var/lib/orders", "kafka-1:…/logs and state:…/orders"),
        ("see https://docs.example.com/recovery/alerts.md, 10:30:00/5", "see https://docs.example.com/recovery/alerts.md, 10:30:00/5"),
        ("and s3a://bucket/orders/x", "and s3a://bucket/orders/x"),
        # What is advised against is the place: a name alone would say nothing.
        ("The local state is in /tmp/streams/1, which", "The local state is in /tmp/…/1, which"),
        ("is in /var/tmp/state, which", "is in /var/tmp/state, which"),
        ("is in /dev/shm/a/b and /tmpfs/a/b", "is in /dev/shm/…/b and …/b"),
    ],
)
def test_directories_of_the_server_are_cut_where_it_shows(text: str, left: str) -> None:
    assert without_paths(text) == left


MOVED = SiteEntry(
    site="dr",
    cluster_id="c",
    arrived=True,
    before=PRIMARY,
    run="20261121T012345Z-0123456789",
    at=NOW,
    requested_by="me",
    reason="<b>fire</b>",
    fences=(Fence(site=PRIMARY, cluster_id="", since=NOW - HOUR, run="r"),),
)


def test_where_an_application_of_several_sites_is_who_moved_it_and_what_is_fenced() -> None:
    assert sites((), None, SOON) is None, "one that has a single site is nowhere else"
    never = sites(("dr", "third"), None, SOON)
    assert never is not None
    assert (str(never.place), never.fences) == (
        "Belongs to the site <strong>primary</strong>, and was never moved. Other sites: dr, third.",
        (),
    )
    moved = sites(("dr",), MOVED, SOON)
    assert moved is not None
    assert str(moved.place).startswith("Belongs to the site <strong>dr</strong> since <time")
    assert f"(1 min ago), moved from primary by the run <code>{MOVED.run}</code>: &lt;b&gt;fire&lt;/b&gt;." in str(moved.place)
    (fence,) = moved.fences
    assert "The site <strong>primary</strong> was left at <time" in str(fence)
    assert "What is left there is stopped once it answers." in str(fence)
    under_way = sites(("dr",), replace(MOVED, arrived=False, reason=""), SOON)
    assert under_way is not None
    assert str(under_way.place).startswith("Is on its way to the site <strong>dr</strong> since")
    assert str(under_way.place).endswith("</code>.")


def test_the_list_says_of_one_that_is_away_where_it_is() -> None:
    assert "site" not in text(shown(stored()))
    assert "at the site <strong>dr</strong>" in text(shown(replace(stored(), site=MOVED)))
    assert "on its way to the site <strong>dr</strong>" in text(shown(replace(stored(), site=replace(MOVED, arrived=False))))
    home = replace(MOVED, site=PRIMARY, before="dr")
    assert "at the site" not in text(shown(replace(stored(), site=home)))
    assert "on its way to the site <strong>primary</strong>" in text(shown(replace(stored(), site=replace(home, arrived=False))))


def test_what_somebody_has_written_into_the_log_of_sites_cannot_break_or_flood_the_page() -> None:
    fence = Fence(site="x\u202e<i>", cluster_id="", since=-1, run="r")
    written = sites(("dr",), replace(MOVED, site="<b>" * 1_000, at=10**20, reason="a\nb" * 1_000, fences=(fence,)), SOON)
    assert written is not None
    assert "since an unknown time," in str(written.place)
    assert "<b>" not in str(written.place)
    assert "a\\nba" in str(written.place)
    assert len(str(written.place)) < 8_000
    assert str(written.fences[0]).startswith("The site <strong>x\\u202e&lt;i&gt;</strong> was left at an unknown time ")


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (None, "unknown"),
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (99_600, "100 kB"),
        (999_600, "1.0 MB"),
        (38_200_000_000, "38.2 GB"),
    ],
)
def test_sizes(count: float | None, said: str) -> None:
    assert size(count) == said


@pytest.mark.parametrize(
    ("count", "said"), [(None, "unknown"), (7, "7"), (91_000, "91,000"), (1_500_000, "1,500,000"), (2_400_000_000, "2,400,000,000")]
)
def test_counts(count: float | None, said: str) -> None:
    assert number(count) == said


@pytest.mark.parametrize(
    ("length", "said"),
    [
        (None, "unknown"),
        (0.4, "0.4 s"),
        (1, "1 s"),
        (59.6, "1 min"),
        (192.5, "3 min 12 s"),
        (3_599, "1 h"),
        (11_520, "3 h 12 min"),
        (90_000, "1 day 1 h"),
        (12 * 86_400, "12 days"),
    ],
)
def test_lengths_of_time(length: float | None, said: str) -> None:
    assert seconds(length) == said


def test_ages_look_both_ways() -> None:
    assert [age(at, 100_000) for at in (None, 40_000, 160_000)] == ["never", "1 min ago", "in 1 min"]


def test_a_moment_is_readable_without_the_script_and_for_it() -> None:
    assert iso(1_795_440_000_000) == "2026-11-23T13:20:00Z"
    assert moment(1_795_440_000_000) == '<time datetime="2026-11-23T13:20:00Z" data-at="1795440000000">2026-11-23 13:20:00 UTC</time>'


def test_a_runbook_is_a_link_or_says_where_to_look() -> None:
    where = "https://docs.example.com/alerts.md#no-savepoint"
    assert runbook(where) == f'<a href="{where}" target="_blank" rel="noopener noreferrer">{where}</a>'
    assert str(runbook("docs/alerts.md#no-savepoint")) == (
        "section <code>no-savepoint</code> of <em>Alerts</em> in the documentation (<code>docs/alerts.md</code>)"
    )
    assert str(runbook("docs/runbooks/README.md")) == "<em>README</em> in the documentation (<code>docs/runbooks/README.md</code>)"
    assert "<b>" not in runbook("docs/<b>.md#<b>")
    assert "\x1b" not in runbook("https://docs.example.com/\x1b[2J")


def test_pages_have_the_titles_that_are_said() -> None:
    for name, title in TITLES.items():
        assert (PROJECT / "docs" / f"{name}.md").read_text().startswith(f"# {title}\n")
