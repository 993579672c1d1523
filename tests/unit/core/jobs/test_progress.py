from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.jobs.progress import (
    WINDOW,
    JobProgress,
    PhaseMeter,
    TaskReport,
    job_key,
    percent,
    progress_directory,
    progress_text,
    tasks_prefix,
)


def meter(records: int | None = 1_000, tasks: int = 4) -> PhaseMeter:
    return PhaseMeter("restore", "loading", records=records, tasks=tasks, began=100.0)


def report(task: int, records: int) -> TaskReport:
    return TaskReport(task=task, records=records, payload_bytes=10 * records)


def test_rate_percent_and_time_left_follow_from_two_looks() -> None:
    measured = meter()
    measured.finished([report(0, 100)])
    measured.running([report(1, 150)])
    found = measured.look(110.0, 5)
    assert (found.records, found.bytes, found.percent, found.tasks_done, found.seconds, found.at) == (250, 2_500, 25, 1, 10.0, 5)
    assert (found.records_per_second, found.bytes_per_second, found.seconds_left) == (25.0, 250.0, 30.0)


def test_what_a_task_did_last_counts_and_its_end_counts_most() -> None:
    measured = meter()
    measured.running([report(1, 10), report(1, 30)])
    measured.finished([report(1, 40)])
    measured.running([report(1, 35)])
    assert measured.done == (40, 400)


def test_a_task_that_begins_again_takes_back_what_it_had_done_and_nothing_is_negative() -> None:
    measured = meter()
    measured.running([report(1, 800)])
    assert measured.look(110.0, 0).percent == 80
    measured.running([report(1, 100)])
    found = measured.look(120.0, 0)
    assert (found.records, found.percent) == (100, 10)
    assert found.records_per_second == 40.0, "800 in 20 s, and nothing taken away"
    assert found.seconds_left == 22.5


def test_the_rate_is_that_of_the_last_minutes() -> None:
    measured = meter(records=10_000_000)
    measured.finished([report(0, 1_000_000)])
    measured.look(101.0, 0)
    for second in range(102, 102 + 2 * int(WINDOW)):
        measured.finished([report(0, 1_000_000 + second)])
        found = measured.look(float(second), 0)
    assert found.records_per_second is not None
    assert 0.9 < found.records_per_second < 1.1


def test_without_a_total_or_a_rate_nothing_is_promised() -> None:
    unknown = meter(records=None)
    unknown.running([report(0, 10)])
    found = unknown.look(110.0, 0)
    assert (found.percent, found.seconds_left, found.records_per_second) == (None, None, 1.0)
    idle = meter().look(110.0, 0)
    assert (idle.percent, idle.seconds_left, idle.records_per_second) == (0, None, 0.0)
    assert meter().look(100.0, 0).records_per_second is None
    assert meter(records=0).look(110.0, 0).percent is None


def test_more_records_than_were_expected_are_no_end() -> None:
    measured = meter()
    measured.finished([report(number, 500) for number in range(4)])
    found = measured.look(110.0, 0)
    assert (found.percent, found.seconds_left) == (99, None)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2_000), st.booleans(), st.floats(0, 500)), max_size=40))
def test_whatever_tasks_report_a_look_is_possible(steps: list[tuple[int, int, bool, float]]) -> None:
    measured, now = meter(), 100.0
    for task, records, over, seconds in steps:
        now += seconds
        (measured.finished if over else measured.running)([report(task, records)])
        found = measured.look(now, 0)
        assert 0 <= (found.percent or 0) < 100
        assert (found.records_per_second or 0) >= 0
        assert found.seconds_left is None or found.seconds_left > 0
        assert 0 <= found.tasks_done <= found.tasks
        assert found.seconds >= 0


def test_percents_are_whole_and_never_all() -> None:
    assert [percent(records, 200) for records in (0, 1, 2, 199, 200, 900)] == [0, 0, 1, 99, 99, 99]


def test_what_is_stored_lies_beside_the_result() -> None:
    assert progress_directory("app/work/run/load.0001.json") == "app/work/run/progress/load.0001/"
    assert job_key("app/work/run/load.0001.json", 7) == "app/work/run/progress/load.0001/000007.json"
    assert tasks_prefix("app/work/run/progress/load.0001/", 2, 9) == "app/work/run/progress/load.0001/tasks/002/000000000009/"


SEEN = JobProgress(
    job="restore",
    phase="loading",
    at=0,
    seconds=20.0,
    records=1_200_000,
    records_total=3_400_000,
    bytes=120_000_000,
    tasks=16,
    tasks_done=3,
    records_per_second=61_234.4,
    bytes_per_second=2_100_000.0,
    percent=35,
    seconds_left=36.0,
)


def test_one_line_has_every_number() -> None:
    assert (
        progress_text(SEEN)
        == "loading: 1,200,000 of 3,400,000 records (35 %), 120 MB, 61,234 records/s, 2.1 MB/s, 36 s left, 3 of 16 tasks done"
    )


def test_what_is_not_known_is_left_out() -> None:
    bare = replace(SEEN, records_total=None, records_per_second=None, bytes_per_second=None, percent=None, seconds_left=None)
    assert progress_text(bare) == "loading: 1,200,000 records, 120 MB, 3 of 16 tasks done"
