"""The scenarios as they are written on the command line."""

from __future__ import annotations

import pytest

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.offsets.reset_options import (
    OPTIONS,
    FromFile,
    by_duration,
    shift_by,
    to_current,
    to_datetime,
    to_earliest,
    to_latest,
    to_offset,
)

NOON = 1_795_262_400_000


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21T12:00:00.000",
        "2026-11-21T12:00:00",
        "2026-11-21T12:00:00Z",
        "2026-11-21T13:00:00.000+01:00",
        "2026-11-21T10:00:00-0200",
        "2026-11-21T13:00:00 Europe/Vienna",
    ],
)
def test_a_time_without_a_zone_is_in_utc(text: str) -> None:
    scenario = to_datetime(text)
    assert (scenario.at, scenario.moment(0)) == (NOON, NOON)
    assert scenario.text == f"--to-datetime {NOON} (2026-11-21 12:00:00 UTC)"


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-21", "T12:00:00", "2026-13-01T00:00:00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigInvalid):
        to_datetime(text)


def test_a_duration_is_counted_back_and_not_before_1970() -> None:
    scenario = by_duration("P1DT2H")
    assert scenario.moment(NOON) == NOON - 26 * 3_600_000
    assert scenario.moment(5) == 0
    assert scenario.text == "--by-duration P1DT2H"
    with pytest.raises(ConfigInvalid):
        by_duration("1 day")


def test_a_file_has_the_partitions_of_each_group() -> None:
    scenario = FromFile(name="f.csv", content=b"g,a,0,5\nh,a,0,6\n")
    assert scenario.partitions == {}
    assert scenario.of_group("h", several=True).partitions == {TopicPartition("a", 0): 6}
    assert scenario.of_group("i", several=True).partitions == {}
    with pytest.raises(ConfigInvalid, match="names no offset of group i"):
        scenario.of_group("i", several=False)
    assert scenario.text == "--from-file f.csv"


def test_the_others_are_as_they_were_given() -> None:
    plain = (to_earliest(), to_latest(), to_current(), to_offset(5), shift_by(-3))
    assert [one.text for one in plain] == ["--to-earliest", "--to-latest", "--to-current", "--to-offset 5", "--shift-by -3"]
    assert all(one.moment(5) is None and one.partitions is None for one in plain)
    assert {one.text.split()[0] for one in plain} < {*OPTIONS}
