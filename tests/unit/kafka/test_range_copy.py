"""Segments that are stored beside the copy of what comes next, and what a consumer may fetch ahead."""

from __future__ import annotations

import errno
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import BrokerUnavailable, Damaged, NoRoom, TransientError
from streams_recovery.core.jobs.spec import RangeCopied
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.manifest import CopiedRange
from streams_recovery.kafka.range_consumer import size_class
from streams_recovery.kafka.range_copy import at_once, one_behind
from streams_recovery.segments.files import workspace


def copied(number: int) -> RangeCopied:
    piece = CopiedRange(start=number, end=number + 1, file=None)
    return RangeCopied(tp=TopicPartition("t", 0), copied=piece, fetched=0, log_start_after=0, worker="w")


def test_at_once_is_done_when_it_returns() -> None:
    done: list[int] = []
    result = at_once(lambda: done.append(1) or copied(1))
    assert done == [1]
    assert result() == copied(1)
    assert done == [1]


def test_one_segment_is_stored_beside_the_next_and_no_third_one_waits() -> None:
    may_end, stored = [threading.Event() for _ in range(3)], []

    def storing_of(number: int) -> RangeCopied:
        assert may_end[number].wait(20)
        stored.append(number)
        return copied(number)

    with one_behind() as storing:
        first = storing(lambda: storing_of(0))
        assert stored == [], "whoever copies goes on"
        threading.Timer(0.2, may_end[0].set).start()
        second = storing(lambda: storing_of(1))
        assert stored == [0], "local space is there for two"
        may_end[1].set()
        assert [first(), second()] == [copied(0), copied(1)]


def test_what_is_still_to_be_stored_is_stored_before_the_end() -> None:
    with one_behind() as storing:
        result = storing(lambda: copied(0))
    assert result() == copied(0)


def test_an_error_of_storing_is_raised_for_whoever_asks_for_that_segment_and_no_other() -> None:
    def away() -> RangeCopied:
        raise BrokerUnavailable("nobody answers", next_step="wait")

    with one_behind() as storing:
        lost, kept = storing(away), storing(lambda: copied(1))
        assert kept() == copied(1)
        with pytest.raises(BrokerUnavailable, match="nobody answers"):
            lost()


def test_nothing_of_it_stays():
    with workspace("a test runs") as directory:
        (directory / "file").write_bytes(b"x")
    assert not directory.exists()


def test_a_full_disk_is_told_with_its_place_and_nothing_of_it_stays():
    told = pytest.raises(NoRoom, match="orders-3 is copied: No space")
    with told as caught, workspace("orders-3 is copied") as directory:
        raise OSError(errno.ENOSPC, "No space left on device")
    assert "TMPDIR" in caught.value.next_step
    assert caught.value.facts["directory"] == str(directory.parent)
    assert not directory.exists()


@pytest.mark.fault("F13")
def test_a_directory_that_vanished_is_told():
    with pytest.raises(TransientError, match="No such file or directory"), workspace("a test runs") as directory:
        directory.rmdir()
        (directory / "file").write_bytes(b"x")


def test_errors_that_are_no_disk_s_pass():
    with pytest.raises(Damaged), workspace("a test runs"):
        raise Damaged("other", next_step="none")


@given(st.integers(0, 10**9))
def test_a_class_is_enough_for_the_range_and_less_than_four_times_it(offsets):
    size = size_class(offsets)
    assert size in (64, 256, 1_024, 4_096)
    assert size >= min(offsets, 4_096)
    assert size == 64 or size < 4 * offsets
