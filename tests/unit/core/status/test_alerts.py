"""Each cause is told once when it is found and once when it is over, whatever happens in between and whoever dies."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.checks.check import Severity
from streams_recovery.core.status.alerts import CLAIM_SECONDS, Alert, AlertsEntry, News, believed, claimed, delivered, folded, released
from streams_recovery.core.status.facts import finding
from streams_recovery.core.status.limits import MOST_SILENT, AlertPolicy
from streams_recovery.core.status.report import StatusFinding

NOW = 1_795_219_200_000
MINUTE = 60_000
POLICY = AlertPolicy(severity=Severity.WARNING, reminder=None, over_after=0)


def found(kind: str, severity: Severity = Severity.WARNING) -> StatusFinding:
    return finding(kind, severity, f"{kind} is there")


def look(
    before: tuple[Alert, ...], kinds: list[str], at: int, *, policy: AlertPolicy = POLICY, source: str = "monitor", delivers: bool = True
) -> tuple[tuple[Alert, ...], list[tuple[str, str]]]:
    """One run of the monitor that finds these kinds: the alerts after it, and what it told."""
    mine = claimed(folded(before, [found(kind) for kind in kinds], source=source, now=at, policy=policy), f"run {at}", now=at)
    telling = [(alert.cause, str(alert.news)) for alert in mine if alert.claimed_by == f"run {at}"]
    return (delivered(mine, f"run {at}", now=at), telling) if delivers else (released(mine, f"run {at}"), [])


def test_a_cause_is_told_once_and_again_when_it_is_over() -> None:
    alerts, said = look((), ["lag-high"], NOW)
    assert said == [("lag-high", "raised")]
    alerts, said = look(alerts, ["lag-high"], NOW + MINUTE)
    assert said == []
    alerts, said = look(alerts, [], NOW + 2 * MINUTE)
    assert (said, alerts) == ([("lag-high", "over")], ())


def test_what_could_not_be_told_is_told_by_the_next_run() -> None:
    alerts, _ = look((), ["lag-high"], NOW, delivers=False)
    assert look(alerts, ["lag-high"], NOW + MINUTE)[1] == [("lag-high", "raised")]
    assert look(alerts, [], NOW + MINUTE) == ((), [])  # nobody has heard of it


def test_two_runs_at_once_do_not_tell_twice() -> None:
    first = claimed(folded((), [found("lag-high")], source="monitor", now=NOW, policy=POLICY), "one", now=NOW)
    second = claimed(folded(first, [found("lag-high")], source="monitor", now=NOW + 1, policy=POLICY), "two", now=NOW + 1)
    assert [alert.claimed_by for alert in second] == ["one"]
    assert delivered(second, "two", now=NOW + 2) == second


@pytest.mark.parametrize("kinds", [["lag-high"], []])
def test_what_a_dead_run_was_telling_is_told_by_a_later_one(kinds: list[str]) -> None:
    alerts = claimed(folded((), [found("lag-high")], source="monitor", now=NOW, policy=POLICY), "dead", now=NOW)
    early, said = look(alerts, kinds, NOW + MINUTE)
    assert (said, len(early)) == ([], 1)
    _, said = look(early, kinds, NOW + round(CLAIM_SECONDS * 1000) + MINUTE)
    assert said == [("lag-high", "raised" if kinds else "over")]


def test_a_pause_shorter_than_the_limit_is_no_end() -> None:
    policy = AlertPolicy(severity=Severity.WARNING, reminder=None, over_after=600)
    alerts, _ = look((), ["lag-high"], NOW, policy=policy)
    alerts, said = look(alerts, [], NOW + 5 * MINUTE, policy=policy)
    assert said == []
    alerts, said = look(alerts, ["lag-high"], NOW + 6 * MINUTE, policy=policy)
    assert said == []
    assert look(alerts, [], NOW + 16 * MINUTE, policy=policy)[1] == [("lag-high", "over")]


def test_reminders_are_sent_as_often_as_configured() -> None:
    policy = AlertPolicy(severity=Severity.WARNING, reminder=3600, over_after=0)
    alerts, said = look((), ["lag-high"], NOW, policy=policy)
    heard = []
    for minute in range(5, 185, 5):
        alerts, said = look(alerts, ["lag-high"], NOW + minute * MINUTE, policy=policy)
        heard += [(minute, news) for _, news in said]
    assert heard == [(60, "reminder"), (120, "reminder"), (180, "reminder")]


def test_without_reminders_people_hear_again_of_what_lasts_for_long() -> None:
    alerts, _ = look((), ["lag-high"], NOW)
    week = NOW + round(MOST_SILENT * 1000)
    alerts, said = look(alerts, ["lag-high"], week - 1)
    assert said == []
    assert look(alerts, ["lag-high"], week)[1] == [("lag-high", "reminder")]


def test_one_that_a_dead_run_may_have_told_is_told_when_it_comes_back() -> None:
    alerts = claimed(folded((), [found("x")], source="monitor", now=NOW, policy=POLICY), "dead", now=NOW)
    after = NOW + round(CLAIM_SECONDS * 1000)
    alerts = folded(alerts, [], source="monitor", now=after, policy=POLICY)
    assert look(alerts, ["x"], after + MINUTE)[1] == [("x", "raised")]


ALERTS = st.builds(
    Alert,
    source=st.just("monitor"),
    finding=st.just(found("x")),
    raised_at=st.integers(-(1 << 63), (1 << 63) - 1) | st.just(NOW),
    seen_at=st.integers(-(1 << 63), (1 << 63) - 1) | st.just(NOW),
    news=st.none() | st.sampled_from(News),
    claimed_by=st.none() | st.sampled_from(["?", "honest"]),
    claimed_at=st.none() | st.just(NOW) | st.integers(-(1 << 63), (1 << 63) - 1),
    delivered_at=st.none() | st.just(NOW) | st.integers(-(1 << 63), (1 << 63) - 1),
    delivered_severity=st.none() | st.sampled_from(Severity),
)


@pytest.mark.fault("F63")
@settings(deadline=None)
@given(forged=ALERTS, run=st.sampled_from(["?", "honest"]), earlier=st.booleans())
def test_whatever_one_entry_says_a_new_failure_is_told_within_minutes(forged: Alert, run: str, earlier: bool) -> None:
    others, _ = look((), ["y"], NOW - MINUTE)
    before = AlertsEntry(at=NOW, run="honest", alerts=others) if earlier else None
    heard = []
    alerts = believed(AlertsEntry(at=NOW, run=run, alerts=(*others, forged)), before, now=NOW)
    for minute in range(0, 25, 5):
        alerts, said = look(alerts, ["x", "y"], NOW + minute * MINUTE)
        heard += said
    assert ("x", "raised") in heard or ("x", "reminder") in heard


@settings(deadline=None)
@given(looks=st.lists(st.tuples(st.sets(st.sampled_from("abc")), st.sampled_from(["tells", "cannot", "dies"])), max_size=20))
def test_what_honest_runs_write_is_believed(looks: list[tuple[set[str], str]]) -> None:
    entries = [AlertsEntry(at=NOW, run="none", alerts=())]
    for number, (kinds, ends) in enumerate(looks):
        now, run = NOW + number * 5 * MINUTE, f"run {number}"
        alerts = believed(entries[-1], entries[-2] if len(entries) > 1 else None, now=now)
        assert alerts == entries[-1].alerts
        mine = claimed(folded(alerts, [found(kind) for kind in kinds], source="m", now=now, policy=POLICY), run, now=now)
        entries.append(AlertsEntry(at=now, run=run, alerts=mine))
        if ends != "dies":
            told = delivered(mine, run, now=now) if ends == "tells" else released(mine, run)
            entries.append(AlertsEntry(at=now, run=run, alerts=told))


def test_one_that_gets_worse_is_told_again_and_one_that_gets_better_is_not() -> None:
    def step(before: tuple[Alert, ...], severity: Severity, at: int) -> tuple[tuple[Alert, ...], list[News]]:
        mine = claimed(folded(before, [found("x", severity)], source="m", now=at, policy=POLICY), str(at), now=at)
        return delivered(mine, str(at), now=at), [one.news for one in mine if one.claimed_by == str(at) and one.news]

    alerts, said = step((), Severity.WARNING, 0)
    alerts, said = step(alerts, Severity.CRITICAL, 1)
    assert said == [News.RAISED]
    alerts, said = step(alerts, Severity.WARNING, 2)
    assert said == []


def test_findings_that_are_less_severe_are_no_alerts() -> None:
    assert folded((), [found("x", Severity.INFO)], source="m", now=0, policy=POLICY) == ()


def test_one_source_does_not_end_what_another_has_found() -> None:
    alerts, _ = look((), ["run-failed"], NOW, source="dag streams_backup_orders")
    alerts, said = look(alerts, [], NOW + MINUTE, source="monitor")
    assert (len(alerts), said) == (1, [])
    assert look(alerts, [], NOW + MINUTE, source="dag streams_backup_orders")[1] == [("run-failed", "over")]


def test_an_entry_can_be_stored() -> None:
    alerts, _ = look((), ["lag-high"], NOW)
    entry = AlertsEntry(at=NOW, run="one", alerts=alerts)
    assert codec.loads(AlertsEntry, codec.dumps(entry), where="here") == entry


looks = st.lists(st.tuples(st.sets(st.sampled_from("abc")), st.booleans()), max_size=30)


@settings(deadline=None)
@given(looks=looks, over_after=st.sampled_from([0, 60, 150]))
def test_people_hear_each_beginning_and_each_end_once_in_turn(looks: list[tuple[set[str], bool]], over_after: int) -> None:
    """Whatever is found, and whether or not a run can tell: for each cause the news are raised, over, raised, over ..."""
    policy = AlertPolicy(severity=Severity.WARNING, reminder=None, over_after=over_after)
    alerts: tuple[Alert, ...] = ()
    heard: dict[str, list[str]] = {}
    for number, (kinds, delivers) in enumerate(looks):
        alerts, said = look(alerts, sorted(kinds), NOW + number * MINUTE, policy=policy, delivers=delivers)
        for cause, news in said:
            heard.setdefault(cause, []).append(news)
        # All that is found is open, and everything open was found within the limit or is to be told.
        assert {*kinds} <= {alert.cause for alert in alerts}
    for news in heard.values():
        assert news == (["raised", "over"] * len(news))[: len(news)]
    end = NOW + len(looks) * MINUTE + (over_after + 1) * 1000
    alerts, said = look(alerts, [], end, policy=policy)
    assert alerts == ()
    for cause, news in said:
        heard.setdefault(cause, []).append(news)
    assert all(news[-1] == "over" and len(news) % 2 == 0 for news in heard.values())


@settings(deadline=None)
@given(schedule=st.lists(st.tuples(st.sampled_from(["fold", "tell", "die"]), st.booleans(), st.sampled_from(["one", "two"])), max_size=40))
def test_runs_at_once_never_tell_the_same_news_twice_while_both_live(schedule: list[tuple[str, bool, str]]) -> None:
    """Steps of two runs in any order: what one has claimed the other leaves alone."""
    alerts: tuple[Alert, ...] = ()
    open_claims: dict[str, str] = {}
    for number, (step, there, run) in enumerate(schedule):
        now = NOW + number
        if step == "fold":
            alerts = claimed(folded(alerts, [found("x")] if there else [], source="m", now=now, policy=POLICY), run, now=now)
            for alert in alerts:
                if alert.news is not None and alert.claimed_by is not None:
                    assert open_claims.setdefault(alert.cause, alert.claimed_by) == alert.claimed_by
        elif step == "tell":
            alerts = delivered(alerts, run, now=now)
            open_claims = {cause: by for cause, by in open_claims.items() if by != run}
