"""Which jobs are small: nothing about them is beyond what one process does soon, and more work never makes a job small."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.jobs.volume import MOST_BYTES, MOST_RANGES, MOST_RECORDS, JobVolume

PARTS = st.lists(st.tuples(st.integers(0, MOST_RECORDS), st.integers(0, MOST_BYTES)), max_size=MOST_RANGES + 5)
VOLUMES = st.builds(
    JobVolume,
    ranges=st.integers(0, 2 * MOST_RANGES),
    records=st.integers(0, 2 * MOST_RECORDS),
    payload_bytes=st.integers(0, 2 * MOST_BYTES),
)


@given(PARTS)
def test_a_volume_is_the_sum_of_its_ranges(parts: list[tuple[int, int]]) -> None:
    volume = JobVolume.of(parts)
    assert (volume.ranges, volume.records, volume.payload_bytes) == (
        len(parts),
        sum(one for one, _ in parts),
        sum(size for _, size in parts),
    )


@given(VOLUMES)
def test_a_job_is_small_when_its_ranges_records_and_bytes_all_are(volume: JobVolume) -> None:
    assert volume.small == (volume.ranges <= MOST_RANGES and volume.records <= MOST_RECORDS and volume.payload_bytes <= MOST_BYTES)


@given(PARTS, st.tuples(st.integers(0, MOST_RECORDS), st.integers(0, MOST_BYTES)))
def test_more_work_never_makes_a_job_small(parts: list[tuple[int, int]], more: tuple[int, int]) -> None:
    assert JobVolume.of(parts).small or not JobVolume.of([*parts, more]).small
