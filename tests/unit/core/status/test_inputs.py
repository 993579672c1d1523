"""What of an input is still needed, and what of that is gone, by offsets alone."""

from __future__ import annotations

import pytest

from streams_recovery.core.kafka_types import CommittedOffset, TopicRole
from streams_recovery.core.lag import Lag
from streams_recovery.core.repository.manifest import PartitionImage, TopicImage
from streams_recovery.core.status.facts import InputState
from streams_recovery.core.status.inputs import InputLogs, first_unsaved, input_state, retention_seconds

AT = 1_795_219_200_000
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
        store=None,
        archived=archived,
        full_since=0,
        partitions=(part,),
    )


def state(start: int, end: int, *, committed: int | None = 50, topic: TopicImage | None = None, first: int | None = None) -> InputState:
    times = {} if first is None else {0: first}
    logs = InputLogs(lags={0: Lag(committed=committed, start=start, stable=end, end=end)}, first_times=times)
    return input_state("in", logs, WEEK, topic, AT)


def test_archived_input_is_needed_from_its_end_on_and_other_input_from_where_it_was_read() -> None:
    assert (state(0, 50, topic=image(archived=True)).needed_since, state(0, 50, topic=image(archived=False)).needed_since) == (None, AT)
    assert state(0, 51, topic=image(archived=True)).needed_since == AT


@pytest.mark.parametrize(("start", "archived", "lost"), [(40, False, 0), (45, False, 5), (45, True, 0), (50, True, 0), (53, True, 3)])
def test_what_is_needed_and_gone_is_lost(start: int, archived: bool, lost: int) -> None:
    assert state(start, 60, topic=image(archived=archived)).lost == lost


def test_input_is_needed_since_its_first_record_that_is_still_to_be_read() -> None:
    old = AT - 1
    assert state(0, 60, topic=image(archived=False), first=old).needed_since == old
    assert state(0, 60, topic=image(archived=True), first=old).needed_since == old, "retention goes by the record, not by the savepoint"
    assert state(0, 60, topic=image(archived=True)).needed_since == AT, "when it could not be read"
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
