"""History stays small however long it lasts, and keeps its shape.

What of an input is still needed, and what of that is gone, by offsets alone. An application that is only a target is not in use, and nothing that existed is
ever taken for one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_recovery.core.kafka_types import CommittedOffset, GroupDescription, TopicPartition, TopicRole
from streams_recovery.core.lag import Lag
from streams_recovery.core.repository.manifest import PartitionImage, TopicImage
from streams_recovery.core.status.facts import InputState, InstanceFacts, LockState, ObservedApplication
from streams_recovery.core.status.look import (
    MOST,
    TIERS,
    InputLogs,
    first_unsaved,
    group_lag,
    input_state,
    retention_seconds,
    seen_in_use,
    thinned,
    unused,
)
from streams_recovery.core.status.report import HistoryPoint
from tests.support.examples.observed import CLUSTER, NOW, observed, summary
from tests.support.examples.status_causes import EMPTY, FAILED_RUN, QUARANTINE, QUIESCED, hold, restore


def point(at: int) -> HistoryPoint:
    return HistoryPoint(at=at, changelog_bytes=at, state_bytes=None, repository_bytes=None, lag=None, newest_age_seconds=None)


moments = st.lists(st.integers(min_value=NOW - 2 * TIERS[-1][0], max_value=NOW), max_size=300)


@settings(deadline=None)
@given(moments=moments)
def test_it_is_a_selection_in_order_and_has_the_newest(moments: list[int]) -> None:
    points = [point(at) for at in moments]
    kept = thinned(points, now=NOW)
    assert list(kept) == sorted({one.at: one for one in kept}.values(), key=lambda one: one.at)
    assert {one.at for one in kept} <= {*moments}
    assert not moments or kept[-1].at == max(moments)
    assert thinned(kept, now=NOW) == kept


def test_a_look_every_five_minutes_for_two_years_stays_bounded_and_keeps_each_day() -> None:
    kept: tuple[HistoryPoint, ...] = ()
    day = 86_400_000
    begin = NOW - 400 * day
    # Every six hours for most of the time: what matters is the bound, and that thinning again and again loses no tier.
    for at in [*range(begin, NOW - 2 * day, 6 * 3_600_000), *range(NOW - 2 * day, NOW + 1, 300_000)]:
        kept = thinned((*kept, point(at)), now=at)
        assert len(kept) <= MOST
    days = {one.at // day for one in kept}
    assert len(days) >= 366
    newest = [one for one in kept if NOW - one.at <= TIERS[0][0]]
    assert len(newest) >= TIERS[0][0] // TIERS[0][1]


def test_points_of_a_time_that_has_not_come_go() -> None:
    assert thinned([point(NOW), point(NOW + 1)], now=NOW) == (point(NOW),)


def test_any_number_of_points_is_brought_below_the_bound() -> None:
    assert len(thinned([point(NOW - number * 60_000) for number in range(60_000)], now=NOW)) <= MOST


WEEK = {"cleanup.policy": "delete", "retention.ms": "604800000"}


def image(*, archived: bool, committed: int | None = 40, end: int = 50) -> TopicImage:
    known = None if committed is None else CommittedOffset(offset=committed, metadata="", leader_epoch=None)
    part = PartitionImage(partition=0, log_start=0, last_stable=end, end=end, leader_epoch=None, committed=known, ranges=(), gaps=())  # type: ignore[arg-type]
    return TopicImage(
        name="in",
        role=TopicRole.INPUT,
        topic_id="x",
        replication_factor=1,
        config={},
        in_force={},
        store=None,
        archived=archived,
        full_since=0,
        partitions=(part,),
    )


def state(start: int, end: int, *, committed: int | None = 50, topic: TopicImage | None = None, first: int | None = None) -> InputState:
    times = {} if first is None else {0: first}
    logs = InputLogs(lags={0: Lag(committed=committed, start=start, stable=end, end=end)}, first_times=times)
    return input_state("in", logs, WEEK, topic, NOW)


def test_archived_input_is_needed_from_its_end_on_and_other_input_from_where_it_was_read() -> None:
    assert (state(0, 50, topic=image(archived=True)).needed_since, state(0, 50, topic=image(archived=False)).needed_since) == (None, NOW)
    assert state(0, 51, topic=image(archived=True)).needed_since == NOW


@pytest.mark.parametrize(("start", "archived", "lost"), [(40, False, 0), (45, False, 5), (45, True, 0), (50, True, 0), (53, True, 3)])
def test_what_is_needed_and_gone_is_lost(start: int, archived: bool, lost: int) -> None:
    assert state(start, 60, topic=image(archived=archived)).lost == lost


def test_input_is_needed_since_its_first_record_that_is_still_to_be_read() -> None:
    old = NOW - 1
    assert state(0, 60, topic=image(archived=False), first=old).needed_since == old
    assert state(0, 60, topic=image(archived=True), first=old).needed_since == old, "retention goes by the record, not by the savepoint"
    assert state(0, 60, topic=image(archived=True)).needed_since == NOW, "when it could not be read"
    assert state(0, 60, first=old).needed_since == old
    assert state(0, 60, committed=None, first=old).needed_since is None


@pytest.mark.parametrize(
    ("start", "read", "committed", "first"),
    [(0, 40, 50, {0: 40}), (0, 40, 30, {0: 30}), (45, 40, 50, {0: 45}), (0, 60, 60, {}), (0, None, 50, {0: 50}), (0, None, None, {})],
)
def test_the_first_record_is_behind_the_savepoint_or_the_application_whoever_is_behind_the_other(
    start: int, read: int | None, committed: int | None, first: dict[int, int]
) -> None:
    logs = InputLogs(lags={0: Lag(committed=committed, start=start, stable=60, end=60)})
    assert first_unsaved(logs, image(archived=False, committed=read)) == first
    assert first_unsaved(logs, image(archived=True, committed=read)) == {0: max(start, 50)}, "whoever has read how far"
    assert first_unsaved(logs, image(archived=True, committed=read, end=60)) == {}


def test_an_idle_input_that_expires_whole_loses_nothing() -> None:
    found = state(50, 50, topic=image(archived=False, committed=50))
    assert (found.lost, found.unread, found.needed_since) == (0, 0, None)


def test_what_expired_before_it_was_read_is_unread() -> None:
    assert state(55, 60, committed=50).unread == 5
    assert state(50, 60, committed=50).unread == 0
    assert state(55, 60, committed=None).unread == 0


def test_without_a_savepoint_of_this_very_topic_nothing_is_needed() -> None:
    found = state(45, 60)
    assert (found.lost, found.needed_since, found.since_savepoint) == (0, None, 0)


def test_what_came_since_a_savepoint_has_read_is_caught_up_on() -> None:
    assert state(0, 60, topic=image(archived=True)).since_savepoint == 20
    assert state(0, 60, topic=image(archived=True, committed=None)).since_savepoint == 0


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        (WEEK, 604_800.0),
        ({"cleanup.policy": "compact,delete", "retention.ms": "1000"}, 1.0),
        ({"cleanup.policy": "compact", "retention.ms": "1000"}, None),
        ({"cleanup.policy": "delete", "retention.ms": "-1"}, None),
        ({}, None),
    ],
)
def test_only_a_topic_that_deletes_by_time_has_a_retention(settings: dict[str, str], seconds: float | None) -> None:
    assert retention_seconds(settings) == seconds


def test_a_partition_that_was_added_since_the_savepoint_is_needed_from_where_the_application_reads() -> None:
    lags = {number: Lag(committed=50, start=0, stable=60, end=60) for number in (0, 1)}
    assert first_unsaved(InputLogs(lags=lags), image(archived=True, end=60)) == {1: 50}


ABSENT = GroupDescription(group_id="orders", kind="absent", state="Dead", members=())
INPUTS = tuple(topic for topic in CLUSTER.topics if not topic.role.internal)
GONE = (InstanceFacts(name="one", state="gone", streams_state=None),)
NOTHING: dict[str, Any] = {
    "newest": None,
    "newest_exact": None,
    "damaged": (),
    "last_run": None,
    "lock": None,
    "restores": (),
    "quarantines": (),
    "holds": (),
    "quiesce": None,
}


def target(**changes: Any) -> ObservedApplication:
    """A target of which nothing exists, with these changes; those of ``repository`` and ``cluster`` may be mappings."""
    base = observed()
    assert base.repository is not None
    assert base.cluster is not None
    empty = replace(
        base,
        used_before=False,
        schedules=replace(base.schedules, savepoints=None),
        newest=None,
        newest_exact=None,
        repository=replace(base.repository, **NOTHING),
        cluster=replace(base.cluster, group=ABSENT, topics=INPUTS, missing=("orders-totals",)),
        application=GONE,
    )
    parts = {name: replace(getattr(empty, name), **value) for name, value in changes.items() if isinstance(value, dict)}
    return replace(empty, **changes | parts)


def test_a_target_of_which_nothing_exists_is_not_in_use() -> None:
    assert unused(target())
    assert not seen_in_use(target())
    assert unused(target(application=()))


SIGNS: dict[str, dict[str, Any]] = {
    "scheduled": {"schedules": observed().schedules},
    "a savepoint": {"newest": summary()},
    "a savepoint that cannot be read": {"repository": {"damaged": ("x",)}},
    "a run that published nothing": {"repository": {"last_run": FAILED_RUN}},
    "a run that works": {"repository": {"lock": LockState(owner="x", purpose="y", since=NOW, unreadable="")}},
    "a restore that is not over": {"repository": restore()["repository"]},
    "later input set aside": {"repository": {"quarantines": (QUARANTINE,)}},
    "settings held": {"repository": hold()["repository"]},
    "instances held": {"repository": {"quiesce": QUIESCED}},
    "a group without members": {"cluster": {"group": EMPTY}},
    "an internal topic": {"cluster": {"topics": CLUSTER.topics}},
    "an instance": {"application": (InstanceFacts(name="one", state="running", streams_state=None),)},
}


@pytest.mark.parametrize("sign", SIGNS.values(), ids=SIGNS)
def test_any_sign_of_it_is_enough(sign: dict[str, Any]) -> None:
    assert seen_in_use(target(**sign))
    assert not unused(target(**sign))


UNSEEN: dict[str, dict[str, Any]] = {
    **{f"no {part}": {part: None} for part in ("repository", "cluster", "application")},
    "an instance that may run": {"application": (InstanceFacts(name="one", state="unknown", streams_state=None),)},
    "seen before": {"used_before": True},
}


@pytest.mark.parametrize("doubt", UNSEEN.values(), ids=UNSEEN)
def test_in_doubt_it_is_neither(doubt: dict[str, Any]) -> None:
    assert not seen_in_use(target(**doubt))
    assert not unused(target(**doubt))


GROUP = GroupDescription(group_id="shop", kind="classic", state="Stable", members=())


def test_a_group_is_told_with_the_lag_of_each_partition() -> None:
    commits = (70, None, 10, 120)
    lags = {TopicPartition("in", number): Lag(committed=offset, start=40, stable=90, end=100) for number, offset in enumerate(commits)}
    found = group_lag(GROUP, dict.fromkeys(lags, TopicRole.INPUT), dict(reversed(lags.items())))
    assert [(one.partition, one.committed, one.behind, one.undecided, one.gone) for one in found.partitions] == [
        (0, 70, 20, 10, 0),
        (1, None, 50, 10, 0),
        (2, 10, 50, 10, 30),
        (3, 120, 0, 0, 0),
    ]
    assert found.behind == 120
